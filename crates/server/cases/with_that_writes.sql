-- Queries of WITH that write: each is carried out once and to its end, all see the rows as they were before the
-- statement, and what they return can be read.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (id int primary key, v int);
insert into t values (1, 10), (2, 20);
with u as (update t set v = 99 where id = 1) select 'done' as r;
select * from t order by id;
with d as (delete from t where id = 2 returning id), i as (insert into t values (3, 30)) select count(*) from t;
select * from t order by id;
prepare p as with u as (update t set v = v + 1 returning id) select 1 as one;
execute p;
select * from t order by id;
with b as (select id from t), u as (update t set v = 0 where id in (select id from b)) select array_agg(id order by id) from b;
select * from t order by id;
-- WITH before INSERT, UPDATE and DELETE.
create table old (id int primary key, v int);
with moved as (delete from t where id = 1 returning *) insert into old select * from moved;
with u as (update t set v = v + 1 returning id, v) select * from u;
with x as (select 1 as k) update old set v = 9 from x where old.id = x.k;
with x as (select 5 as k) insert into t select k, k from x;
with x as (select 3 as k) delete from t where id in (select k from x);
select * from old order by id;
select * from t order by id;
with u as (select 1 as a) insert into t values ((select a + 40 from u), 2) returning *;
with u as (select 1 as a) insert into t values (60, 1), (61, 2) returning *;
-- They see the rows as they were, whatever is written before they are read.
with u as (update t set v = 3 returning *), w as (select sum(v) as s from u) select * from w, t order by t.id;
with a as (insert into t values (9, 9)) update t set v = 100;
select * from t order by id;
with u as (insert into t values (30, 1) returning id), w as (update t set v = (select max(id) from u) returning id, v) select * from w order by id;
select * from t order by id;
-- Of two that write one row, the first does.
with a as (update t set v = 1 where id = 5 returning v) update t set v = v + 10 where id = 5 returning v;
with a as (update t set v = v + 1 where id = 5), b as (update t set v = v + 100 where id = 5) select 1 as one;
select * from t where id = 5;
with a as (delete from t where id = 5) insert into t values (5, 5);
with a as (delete from t where id = 5 returning id) insert into t select id, 7 from a;
select * from t where id = 5;
with a as (insert into t values (8, 9) returning id) insert into t select id, 10 from a on conflict (id) do update set v = excluded.v;
with a as (update t set v = 1 where id = 9 returning id) insert into t select id, 10 from a on conflict (id) do update set v = excluded.v;
-- Those that are not read run after the main query, the last first.
create table log (n serial, what text);
with a as (insert into log (what) values ('a')), b as (insert into log (what) values ('b')), c as (insert into log (what) values ('c') returning n) select * from c;
select * from log order by n;
-- Foreign keys are looked at when all have written.
create table parent (id int primary key);
create table child (id int primary key, of int references parent on delete cascade);
with c as (insert into child values (1, 1)) insert into parent values (1);
with p as (insert into parent values (2) returning id) insert into child select 2, id from p;
with d as (delete from parent where id = 1) select count(*) from child;
select * from child;
with c as (insert into child values (3, 7)) insert into parent values (8);
-- Names and columns.
with u(a, b) as (update t set v = 4 where id = 5 returning *) select b, a from u x;
with u(a, b, c) as (update t set v = 1 returning id, v) select * from u;
with u as (update t set v = 5 where id = 5 returning *) select * from u x, u y;
with u as (with x as (select 70 as id) insert into t select id, 1 from x returning id) select * from u;
with u as (update t set v = $1 where id = $2 returning id) select * from u;
select $1::int;
prepare q as with u as (update t set v = $1 where id = $2 returning v) select v + $3 from u;
execute q(40, 5, 2);
copy (with u as (update t set v = 6 where id = 5 returning id, v) select * from u) to stdout;
with u as (update t set v = 7 where id = 5 returning id) select 1 as one limit 0;
select * from t where id = 5;
-- A whole transaction: a savepoint takes back what they did.
begin;
savepoint s;
with u as (delete from t returning id) select count(*) from u;
select count(*) from t;
rollback to s;
select count(*) from t;
with u as (update t set v = 8 where id = 5) select v from t where id = 5;
select v from t where id = 5;
commit;
begin isolation level repeatable read;
with u as (update t set v = 9 where id = 5) select v from t where id = 5;
select v from t where id = 5;
commit;
-- What is refused.
create view vv as with u as (update t set v = 1 returning *) select * from u;
select * from (with u as (update t set v = 1 returning *) select * from u) x;
select 1 where exists (with u as (update t set v = 1 returning *) select * from u);
insert into t with u as (update t set v = 1 returning *) select id + 10, v from u;
with u as (update t set v = 1) select * from u;
with a as (with b as (delete from t returning id) insert into t select id + 70, 1 from b returning id) select * from a;
begin;
declare c cursor for with u as (update t set v = 1 returning id) select * from u;
rollback;
begin read only;
with u as (update t set v = 1 returning id) select * from u;
rollback;
with u as (update nosuch set v = 1) select 1;
with u as (update t set nosuch = 1) select 1;
with u as (insert into t values (5, 1)) select 1;
select count(*), sum(v) from t;
drop schema h cascade;
