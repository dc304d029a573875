-- MERGE: each row of the source takes the first clause that fits it.
create table a (id int primary key, v int, note text default 'new');
create table s (id int, v int);
insert into a values (1, 10, 'x'), (2, 20, 'x'), (3, 30, 'x');
insert into s values (1, 100), (3, null), (4, 400), (5, 5);
merge into a using s on a.id = s.id
  when matched and s.v is null then delete
  when matched then update set v = a.v + s.v, note = 'merged'
  when not matched and s.v > 100 then insert (id, v) values (s.id, s.v)
  when not matched then do nothing;
select * from a order by id;
merge into a as t using (values (1, 1), (9, 9)) as q (id, v) on t.id = q.id when matched then update set v = q.v when not matched then insert values (q.id, q.v, 'made');
select * from a order by id;
merge into a t using (select id, v * 2 as v from s) q on t.id = q.id and q.v > 0 when matched then update set (v, note) = (q.v, default) when not matched then insert (id, v, note) values (q.id + 10, default, default);
select * from a order by id;
merge into a using generate_series(1, 2) g on a.id = g when matched then update set note = 'g' || g;
select id, note from a order by id;
with w as (select 20 as id, 7 as v) merge into a using w on a.id = w.id when not matched then insert values (w.id, w.v);
select * from a where id = 20;
prepare m (int, int) as merge into a using (values ($1, $2)) p (id, v) on a.id = p.id when matched then update set v = p.v when not matched then insert values (p.id, p.v, 'p');
execute m(20, 8);
execute m(21, 9);
select * from a where id > 19 order by id;
-- The same row twice, and rows that are not there.
merge into a using (values (1), (1)) p (id) on a.id = p.id when matched then delete;
merge into a using (values (1, 1), (1, 2)) p (id, k) on a.id = p.id when matched and k = 1 then update set v = 0 when matched then delete;
merge into a using (values (50), (50)) p (id) on a.id = p.id when not matched then insert values (p.id, 0);
merge into a using (values (60)) p (id) on a.id = p.id when not matched then insert values (1, 0);
select count(*) from a where id in (1, 50, 60);
-- Keys, defaults, constraints, a table without a key.
create table k (n int, w text default 'w', g int generated always as (n * 2) stored, check (n < 100));
insert into k values (1), (null), (1);
merge into k using (values (1, 5), (2, 6)) p (n, m) on k.n = p.n when matched then update set n = p.m when not matched then insert (n) values (p.m);
select * from k order by n;
merge into k using (values (500)) p (n) on k.n = p.n when not matched then insert (n) values (p.n);
merge into k using (values (1)) p (n) on false when not matched then insert default values;
select count(*) from k where n is null and w = 'w';
create table i (id int generated always as identity, v int);
merge into i using (values (7)) p (v) on false when not matched then insert (v) values (p.v);
merge into i using (values (7)) p (v) on false when not matched then insert (id, v) values (9, p.v);
merge into i using (values (7)) p (v) on false when not matched then insert (id, v) overriding system value values (9, p.v);
select * from i order by id;
-- Foreign keys are checked at the end.
create table c (id int primary key, parent int references c (id));
merge into c using (values (2, 1), (1, null)) p (id, parent) on c.id = p.id when not matched then insert values (p.id, p.parent);
select * from c order by id;
merge into c using (values (1)) p (id) on c.id = p.id when matched then delete;
merge into c using (values (1), (2)) p (id) on c.id = p.id when matched then delete;
select count(*) from c;
begin;
merge into a using s on a.id = s.id when matched then delete;
rollback;
select count(*) from a;
-- Errors.
merge into a using s on a.id = s.id when matched then update set nosuch = 1;
merge into a using s on a.id = s.id when matched then delete when matched then do nothing;
merge into a using a on true when matched then delete;
merge into a using s on a.id = s.id when not matched then insert values (s.id, s.v, 'a', 'b');
merge into a using s on a.id = s.id when not matched then insert values (a.id, 1, 'a');
merge into a using nosuch on true when matched then delete;
merge into nosuch using s on true when matched then delete;
with w as (merge into a using s on true when matched then delete) select 1;
