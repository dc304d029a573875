-- A text that names a relation in a view or a default means what it meant when that was made.
set client_min_messages = warning;
drop schema if exists a1 cascade; drop schema if exists a2 cascade; create schema a1; create schema a2;
set search_path = a1;
create table tt (a int); create sequence s1; create sequence "S 2";
create view vv as select nextval('s1') as n, 'tt'::regclass::oid = 'a1.tt'::regclass::oid as same, cast('tt' as regclass) as c, nextval('"S 2"') as m, 'nextval(''s1'')' as t;
create table tg (id int primary key, b regclass default 'tt', c regclass default 'tt'::regclass, d bigint default nextval('s1'));
alter table tg alter b set default 'tg'; alter table tg add column e regclass default 'tt';
set search_path = a2;
create table tt (a int); create table tg (a int); create sequence s1 start 900; create sequence "S 2" start 800;
select * from a1.vv;
insert into a1.tg (id) values (1) returning b, c, d, e;
set search_path = '';
select * from a1.vv;
insert into a1.tg (id) values (2) returning b, c, d, e;
select count(*) from information_schema.views where table_schema = 'a1';
select pg_get_viewdef('a1.vv'::regclass) ~ 'nextval\(''a1.s1''';
drop schema a1 cascade; drop schema a2 cascade;
