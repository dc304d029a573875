select * from t where id = 1
select a.id, b.v from t a left join u b on b.id = a.id and b.v > 3 where a.name like 'x%' order by 2 desc nulls last limit 3 offset 1
select count(*), sum(v), min(name), max(n), avg(v), count(distinct v) from t group by v having count(*) > 0
select distinct v, name from t where (id, v) in ((1, 2), (3, 4)) or id between -5 and 5 for update
insert into t (id, v, name, n) values (1, 2, 'x', 1.5), (2, null, E'a\tb', -0.01) on conflict (id) do update set v = t.v + excluded.v returning id, v
insert into t select n, n % 7, 'name ' || n, n / 3.0 from generate_series(1, 20) n on conflict do nothing
update t set v = case when v > 3 then v - 1 else coalesce(v, 0) + 1 end, n = round(n * 1.1, 2) where id in (1, 2, 3)
delete from t where id = any('{1,2,NULL}') and name is not null
with w as (select id, v from t where v is not null) select w.id from w where exists (select 1 from u where u.id = w.id)
select v from t where v = (select max(v) from u where u.id <> t.id) union all select 7 union select null
begin isolation level repeatable read
savepoint s
rollback to savepoint s
commit
rollback
copy (select id, name from t) to stdout with (delimiter '|', null 'n', header true)
create table if not exists w (a serial, b varchar(3) default 'x' not null, c numeric(5, 2), d timestamptz default now(), primary key (b, a))
create unique index if not exists w_c on w (c, d)
alter table w add constraint w_key unique (a)
alter table t split at (10)
alter table t remaster at (10) to site 2
alter table t add replica on site 3
alter table t merge at (10)
drop table if exists w cascade
truncate t, u
prepare p (int, text) as select * from t where id = $1 or name = $2
execute p (1, 'x')
deallocate all
set local statement_timeout = '1min'
show all
show partitions
explain select * from t where v = 3 and name = 'x'
create user ada with password 'x'
select 'a' || 1 || null || true, 1 / 3.0, -7 % 3, 2 ^ 10, 1.5::int, '2024-02-30'::date, 'infinity'::float8, '\xff'::bytea
select cast('9223372036854775807' as bigint) + 1, 0.1 + 0.2, 1e400, '00000000-0000-0000-0000-000000000001'::uuid
select extract(epoch from timestamp '2024-01-01 00:00:00'), date '2024-01-01' + 5, now() - now(), current_timestamp::text
select substring('abc' from 2 for 1), position('b' in 'abc'), trim(both 'x' from 'xax'), lpad('a', 5, 'bc'), repeat('x', 3), 'A' ~* 'a+(b|c)?$'
select array[1, 2, null], ('{a,"b c"}'::text[])[2], array_to_string(array(select v from t), ','), 3 <> all(array[1, 2])
select n.nspname, c.relname, row_number() over (partition by a.attrelid order by a.attnum), (information_schema._pg_expandarray(i.indkey)).n from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid join pg_index i on i.indrelid = c.oid
select c.oid::regclass, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid) from pg_class c, pg_attribute a left join pg_attrdef d on d.adnum = a.attnum where c.relname operator(pg_catalog.~) '^(t)$' collate pg_catalog.default
select array(select from t), (select from t), 1 in (select from t), any(array(select 1, 2))
select count(*), sum(v) + 1 from t group by 1, 0.1 + v having count(*) > 0 order by 2
select t.id, (select count(*) from u where u.id = t.id and u.v > 3), (select max(t.v) from u limit 1) from t group by t.id having exists (select 1 from u where u.v = t.id)
explain (analyze, summary off) update t set v = (select sum(v) from u where u.id = t.id) where id in (select id from u) and not exists (select 1 from u x where x.v = t.v) returning (select max(v) from u)
insert into t select id + 100, v, name, n from t where v <> all (select v from u where u.id = t.id) on conflict do nothing
delete from t where id = (select id from u order by id for update skip locked limit 1) returning (select array(select v from u where u.id = t.id))
with w (a, b) as materialized (select id, random() from t) select (select b from w limit 1), a from w x right join w y using (a) where a not in (select id from u except all table u)
select id, v from t natural left join (select id, v from u) z intersect (values (1, 2), (null, 3)) except select v, id from t order by 1 desc fetch first 2 rows with ties
select set_config('application_name', name, true), to_regtype(name), 'a#%' like name escape '#', pg_get_serial_sequence('w', 'a') from t, current_schema() s
select exists (select 1 / 0 from t), (select (select (select sum(t.v)))) from t where (select true) and id = (select max(id) from u) and v between (select 1) and (select 9)
create or replace view x (a, b) as select t.id, count(*) from t join u using (id) where t.v > 1 group by t.id order by 1 limit 5
select x.a, y.b from x join (select a, b + 1 as b from x where b > 0) as y on y.a = x.a where y.b = 2 and x.a in (1, 2)
create table k (id int primary key, t int default 1 references t on delete cascade on update set default deferrable initially deferred, up int constraint own references k (id) match full on delete set null not null)
alter table u add constraint u_t foreign key (id) references t (id) on delete restrict on update cascade not valid, validate constraint u_t
set constraints own, k_t_fkey immediate
insert into k values (1, 2, 1), (2, 3, 1), (3, null, 2) on conflict (id) do update set up = excluded.id
truncate t, k restart identity cascade
create table if not exists copy as select id, v, x.b from t left join x on x.a = t.id where v is not null
drop view if exists x cascade
select v, row_number() over w, lag(name, 2, 'x') over w, sum(v) filter (where v > 1) over (partition by name order by v desc nulls first rows between 2 preceding and 1 following), ntile(3) over (w rows current row) from t window w as (partition by v order by id)
select rank() over (order by sum(v)), first_value(name) over (order by id range between 1 preceding and unbounded following), avg(n) over (order by n groups between unbounded preceding and 1 following) from t group by id order by 1 using >
create temp table if not exists own (id serial primary key, v int unique) on commit drop
create temporary table picked as select id, v from t where v > 1
discard temp
declare c binary no scroll cursor with hold for select id, v from t order by id desc
fetch backward 3 from c
move absolute -1 in c
close all
select '{"a": [1, {"b": null}]}'::jsonb -> 'a' -> 1 ->> 'b', '[1, 2]'::json #>> '{0}', '{"a": 1}'::jsonb ? 'a'
select jsonb_set('{"a": [1, 2]}', '{a,-1}', '{"x": 1e3}', true) || '[1]' - 'x' #- '{a,0}', '{"a": 1}'::jsonb @> '{}'
select json_build_object('k', 1, 'v', array[1, null], 't', now()), jsonb_pretty(jsonb_build_array('a', 1.5, '{}'::json))
select jsonb_agg(t order by id), json_object_agg(id, name), jsonb_object_agg(name, v) over (order by id) from t where name is not null
select key, value from jsonb_each_text('{"a": "\u0041", "b": [{}]}') union select k, null from json_object_keys('{"a": 1}') k
select unnest(array['{"a": 1}', '[]']::jsonb[]) j, generate_series(1, 3), row_to_json(t) from t order by 1
create table if not exists app.g (id serial primary key, a int check (a < g.b), b int, c text generated always as (lower(b || 'x')) stored not null unique)
create table l (like t including all excluding indexes, z int default 1, like app.g including generated including comments)
update app.g set c = default, a = 3 where b > 1 returning c
alter table app.g rename column b to "B", alter column c drop expression, drop column a cascade
alter table if exists app.g alter constraint g_pkey not deferrable initially immediate
alter index if exists app.g_pkey set (fillfactor = 70)
create schema if not exists app authorization isomer
alter schema app rename to other
alter table app.g set schema public
set search_path = app, "$user", public, "Odd one"
select current_schema(), current_schemas(true), to_regclass('app.g'), pg_table_is_visible('app.g'::regclass) from app.g
drop schema if exists app, other cascade
create or replace temp view pg_temp.seen (a, b) as select id, c from app.g
select interval '1 day -2:30' * 1.5 + age(now()::timestamp, timestamp 'Feb 10 1997 5:32PM'), now() - interval 'P1Y2M', time '04:05 PM' - time '10:00', justify_interval('35 days 25:00')
select date '1/8/1999' + time '10:00', timestamptz '20000315T080808 America/New_York', timetz '04:05:06 PST', extract(epoch from interval '1 mon'), date 'J2451187', timestamp '-infinity'
select g, make_interval(days => 3, secs => 1.5) from generate_series(timestamp '2026-01-01', '2026-01-09', '36 hours') g
select array[1, 2, null] || 3 @> array[2], (array['a', 'b'])[1:1], array_position(array[1.0, 2], 2), string_to_array('a,b', ','), array_replace('{1,2}'::int[], 1, null), array[now(), 'today'] from t
select n, l from unnest(array[1, 2], '{a}'::text[]) u (n, l) where n = any(array[1]) or array[n] < '{2}'
