\set a random(1, 99990)
\set b random(1, 100000)
\set c random(1, 100000)
\set d random(1, 100000)
\set e random(1, 100000)
\set f random(1, 100000)
\set g random(1, 100000)
\set h random(1, 100000)
\set i random(1, 100000)
\set j random(1, 100000)
begin;
select sum(n) from items where id between :a and :a + 9;
update items set n = n + 1 where id = :a;
update items set n = n + 1 where id = :b;
update items set n = n + 1 where id = :c;
update items set n = n + 1 where id = :d;
update items set n = n + 1 where id = :e;
update items set n = n + 1 where id = :f;
update items set n = n + 1 where id = :g;
update items set n = n + 1 where id = :h;
update items set n = n + 1 where id = :i;
update items set n = n + 1 where id = :j;
insert into lines (item, n) values (:a, 1);
insert into lines (item, n) values (:b, 1);
insert into lines (item, n) values (:c, 1);
insert into lines (item, n) values (:d, 1);
insert into lines (item, n) values (:e, 1);
insert into lines (item, n) values (:f, 1);
insert into lines (item, n) values (:g, 1);
insert into lines (item, n) values (:h, 1);
commit;
