-- varchar = char(n) compares as char(n): trailing blanks do not count.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table a (id int primary key, c varchar(4)); insert into a values (1, 'a'), (2, 'a '), (3, 'b');
create table b (id int primary key, c char(3)); insert into b values (1, 'a'), (2, 'c');
select a.id, b.id from a join b on a.c = b.c order by 1, 2;
select id from a where c in (select c from b) order by 1;
select id from a where not exists (select 1 from b where b.c = a.c) order by 1;
select count(*) from (select c from b union select c from a) u;
drop schema h cascade;
