-- EXISTS, NOT EXISTS, IN and NOT IN over tables with statistics, which make them joins.
create table o (id int primary key, a int, b int not null, c text);
create table i (id int primary key, a int, b int not null, c text);
create table none (id int primary key, a int, b int not null);
create table twice (a int, b int);
create index i_a on i (a);
insert into o values (1, 1, 1, 'x'), (2, 2, 1, 'y'), (3, null, 2, 'x'), (4, 4, 2, null), (5, 1, 3, 'z');
insert into i values (1, 1, 1, 'x'), (2, 1, 2, 'x'), (3, null, 2, 'y'), (4, 5, 9, null), (5, 2, 1, 'q');
insert into twice values (1, 1), (1, 1), (1, null), (null, 1), (2, 7), (2, 7);
analyze;

-- NULL on either side is no match.
select id from o where exists (select 1 from i where i.a = o.a) order by id;
select id from o where not exists (select 1 from i where i.a = o.a) order by id;
select id from o where a in (select a from i) order by id;
select id from o where a not in (select a from i) order by id;
select id from o where a not in (select a from i where a is not null) order by id;
select id from o where a is not null and a not in (select a from i where a is not null) order by id;
select id from o where b not in (select b from i) order by id;
select id from o where b not in (select b from i where c = 'q') order by id;
select id, a in (select a from i) as is_in, a not in (select a from i) as is_not from o order by id;

-- No rows at all.
select id from o where exists (select 1 from none where none.a = o.a) order by id;
select id from o where not exists (select 1 from none where none.a = o.a) order by id;
select id from o where a in (select a from none) order by id;
select id from o where b not in (select b from none) order by id;
select id from o where a not in (select a from none) order by id;
select id from none where exists (select 1 from o where o.a = none.a);

-- Duplicates multiply nothing, from whichever side the join begins.
select count(*), sum(o.b) from o where exists (select 1 from twice t where t.a = o.a);
select count(*), sum(o.b) from o where o.a in (select t.a from twice t);
select count(*), sum(t.b) from twice t where t.a in (select o.a from o);
select count(*) from twice t where not exists (select 1 from o where o.a = t.a);
select count(*) from twice t where (t.a, t.b) in (select a, b from twice);
select count(*) from twice t where (t.a, t.b) not in (select a, b from twice where b is not null and a is not null);
select count(*), count(distinct o.id) from o, twice t where o.b = t.b and o.a in (select a from i);

-- Other comparisons.
select id from o where exists (select 1 from i where i.a = o.a and i.b <> o.b) order by id;
select id from o where not exists (select 1 from i where i.a = o.a and i.b <> o.b) order by id;
select id from o where exists (select 1 from i where i.b > o.b + 3) order by id;
select id from o where not exists (select 1 from i where i.a = o.a and o.b > 1) order by id;
select id from o where exists (select 1 from i where i.a = o.a and i.b <> o.b)
    and not exists (select 1 from i where i.a = o.a and i.b <> o.b and i.c = o.c) order by id;
select id from o where exists (select 1 from i where i.c is not distinct from o.c) order by id;
select id from o where a::bigint in (select b::numeric from i) order by id;
select id from o where c in (select c::varchar(1) from i) order by id;

-- Outer joins around, and inside.
select o.id, i.id from o left join i on i.a = o.a where exists (select 1 from twice t where t.a = o.a) order by 1, 2;
select o.id, i.id from o left join i on i.a = o.a where not exists (select 1 from twice t where t.b = i.b) order by 1, 2;
select o.id, i.id from i right join o on i.a = o.a where i.b not in (select b from twice where b is not null) order by 1, 2;
select o.id, i.id from o full join i on i.a = o.a where exists (select 1 from twice t where t.a = i.a) order by 1, 2;
select id from o where exists (select 1 from i left join twice t on t.a = i.a where i.a = o.a and t.b is null) order by id;
select id from o where o.b in (select i.b from i join twice t on t.a = i.a where t.b = o.b) order by id;

-- One inside of another.
select id from o where exists (select 1 from i where i.a = o.a and exists (select 1 from twice t where t.a = i.a and t.b = o.b)) order by id;
select id from o where not exists (select 1 from i where i.a = o.a and not exists (select 1 from twice t where t.a = i.a and t.b = o.b)) order by id;
select id from o where a in (select a from i where b in (select b from twice where a = 1)) order by id;
select id from o where exists (select 1 from i where i.b = o.b and i.a not in (select t.b from twice t where t.a = o.a)) order by id;

-- Groups, limits, set operations.
select id from o where a in (select a from twice group by a having count(*) > 1) order by id;
select id from o where b in (select b from i order by id limit 2) order by id;
select id from o where a in (select a from i union select 4) order by id;
select id from o where exists (select 1 from i where i.a = o.a limit 1) order by id limit 1;
select id from o where exists (select 1 from i where i.a = o.a limit 0) order by id;
select id from o where exists (select max(i.b) from i where i.a = o.a) order by id;
select b, count(*) from o where exists (select 1 from i where i.a = o.a) group by b having count(*) > 0 order by b;
select distinct b from o where a in (select a from i) order by b;
select distinct on (b) b, id from o where a in (select a from i) order by b, id desc;
select id, row_number() over (order by id desc) from o where exists (select 1 from i where i.a = o.a) order by id;
select x.id from (select id, a from o where a in (select a from i)) x where x.a = 1 order by 1;
with w as (select a from i where b < 3) select id from o where a in (select a from w) and not exists (select 1 from w where w.a = o.b) order by id;
select id from o where exists (select 1 from i where i.a = o.a) union all select id from i where not exists (select 1 from o where o.a = i.a) order by 1;
select (select count(*) from o where exists (select 1 from i where i.a = o.a and i.b = t.b)) from twice t order by 1;

-- Conditions of one row, and of none.
select id from o where o.id = 1 and exists (select 1 from i where i.a = o.a);
select id from o where o.a = 2 and o.a in (select a from i);
select id from o where exists (select 1 from i where i.a = o.a) and a = 1 and a = 2;

-- Prepared.
prepare p (int, text) as select id from o where exists (select 1 from i where i.a = o.a and i.b = $1) and c = $2;
execute p (1, 'x');
execute p (2, 'z');
execute p (null, 'x');

-- Changes.
begin;
update o set b = b + 10 where exists (select 1 from i where i.a = o.a) returning id, b;
update o set b = i.b from i where i.a = o.a and i.b in (select b from twice where a = 2 or a = 1) and not exists (select 1 from none where none.a = o.a);
select id, b from o order by id;
delete from o where not exists (select 1 from i where i.a = o.a) returning id;
insert into o select id + 100, a, b, c from i where not exists (select 1 from o where o.a = i.a) returning id;
rollback;
select id from o where exists (select 1 from i where i.a = o.a) order by id for update;
