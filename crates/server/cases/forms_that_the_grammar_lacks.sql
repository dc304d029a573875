\pset null NULL
create table items (id int primary key, name text);
insert into items values (1, 'a'), (2, 'b'), (3, 'c');
-- Tables of a query, with names for its columns.
create table one (x) as values (1), (2);
create table two as table items;
create table three (a, b) as table items with no data;
create temp table four (k) on commit preserve rows as select id, name from items where id < 3;
create table if not exists five ("A b") as select 1 as one, 2 as two;
select * from one; select * from two order by id; select * from three; select * from four order by k; select * from five;
create table six (a, b, c) as select 1, 2;
create table seven using heap as select 1 as a;
create table eight (a int) using heap without oids;
create table nine (a int) using what;
-- ONLY, which changes nothing without inheritance.
select count(*) from only (items); select count(*) from only (public.items) i; select count(*) from only items;
create index on only items (name);
merge into only items using (select 1 as id) s on items.id = s.id when matched then update set name = 'x';
select name from items where id = 1;
-- Trimmed without characters.
select trim(leading from '  x '), trim(trailing from '  x '), trim(both from ' x '), trim(from ' x '), trim(both 'x' from 'xax');
-- GROUP BY ALL is a quantifier of the sets.
select id % 2 as odd, count(*) from items group by all 1 order by 1;
select id from items group by all;
-- The schema by its name.
set schema 'pg_catalog'; show search_path; reset search_path;
alter table items set without oids;
-- A collation that orders by bytes, and indexes that are dropped.
alter table items alter column name type varchar(30) collate "C"; alter table items alter name set data type text collate pg_catalog."default" using name || '!';
alter table items alter column name type text collate "nope";
select name from items where id = 2;
create index by_name on items (name); drop index concurrently by_name; drop index concurrently if exists by_name; drop index concurrently by_name;
drop index concurrently by_name cascade;
-- EXECUTE with expressions.
prepare sum_of(int, text) as select $1 + 1, $2;
execute sum_of(1 + 2, 'a' || 'b'); execute sum_of(length('abc'), upper('x')); execute sum_of('4'::int * 2, null);
execute sum_of((select 1), 'x');
execute sum_of(1 / 0, 'x');
execute sum_of(count(*), 'x');
execute sum_of(id, 'x');
-- The extension that each database has.
create extension if not exists plpgsql;
create extension plpgsql;
drop table items, one, two, three, five, seven, eight;
