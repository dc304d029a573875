-- GROUPING SETS, ROLLUP, CUBE and GROUPING, in all of their forms.
create table s (r text, k text, y int, n int);
insert into s values ('a', 'x', 1, 1), ('a', 'y', 2, 2), ('b', 'x', 1, 3), ('b', null, 2, 4), (null, 'x', 1, 5);
select r, k, sum(n), grouping(r, k) from s group by rollup (r, k) order by 4, 1, 2, 3;
select r, k, sum(n), count(*) from s group by cube (r, k) order by 1, 2, 3;
select r, k, count(*) from s group by grouping sets ((r), (k), ()) order by 1, 2, 3;
select r, k, y, sum(n) from s group by rollup (r, (k, y)) order by 1, 2, 3, 4;
select r, k, y, sum(n) from s group by r, rollup (k), cube (y) order by 1, 2, 3, 4;
select r, k, count(*) from s group by grouping sets (rollup (r, k), cube (k), r) order by 1, 2, 3;
select r, k, count(*) from s group by grouping sets ((r, k), (r, k), ()) order by 1, 2, 3;
select upper(r) as u, sum(n), grouping(upper(r)) from s group by rollup (upper(r)) order by 1, 2;
select r as q, sum(n) from s group by rollup (1) order by 1, 2;
select r, sum(n) from s group by rollup (r) having grouping(r) = 1 or sum(n) > 4 order by 1, 2;
select case when grouping(r) = 1 then 'all' else coalesce(r, 'none') end as g, sum(n) from s group by rollup (r) order by grouping(r), 1;
select r, k, grouping(k, r, k), sum(distinct y), string_agg(k, ',' order by n) filter (where n > 1) from s group by cube (r, k) order by 1, 2, 3;
-- Without rows, a set without keys has a group.
select count(*), sum(n) from s where false group by ();
select r, count(*) from s where false group by rollup (r);
select count(*) from s where false group by grouping sets ((), (), (r));
select count(*) from s group by ();
select 1 from s group by () having false;
-- Around and inside of other queries.
select * from (select r, k, sum(n) as n from s group by cube (r, k)) q where r is null order by 2, 3;
select r, n from (select r, sum(n) as n from s group by rollup (r)) q where n > 4 order by 2, 1;
select t.y, (select sum(n) from s where s.y = t.y group by rollup (s.y) order by grouping(s.y) desc limit 1) from (values (1), (2), (3)) t (y) order by 1;
select distinct sum(n) from s group by cube (y) order by 1;
select r, sum(n), rank() over (order by sum(n)) from s group by rollup (r) order by 3, 1;
select a.r, b.y, count(*) from s a join s b on a.r = b.r group by rollup (a.r, b.y) order by 1, 2, 3;
-- A primary key that is in all sets decides the other columns.
create table p (id int primary key, v text);
insert into p values (1, 'one'), (2, 'two');
select id, v, count(*) from p group by id, rollup (v) order by 1, 2, 3;
select id, v, count(*) from p group by rollup (id);
select r, k, (r is null)::int + grouping(r), sum(n) from s group by rollup (r, k) order by 1, 2, 3, 4;
-- Errors.
select grouping(n) from s group by r;
select grouping(r) from s;
select r from s where grouping(r) = 1 group by r;
select k, sum(n) from s group by rollup (r);
select r from s group by r, grouping(r);
select count(*) from s group by cube (r,k,y,n,r||'a',k||'a',y+1,n+1,r||'b',k||'b',y+2,n+2,n+3);
prepare g as select $1::text, count(*) from s group by $1;
execute g('z');
prepare h (int) as select y + $1, count(*) from s group by rollup (y + $1) order by 1;
execute h(10);
create view v as select r, sum(n) as n, grouping(r) as g from s group by rollup (r);
select * from v order by 3, 1;
