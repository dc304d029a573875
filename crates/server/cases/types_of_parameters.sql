-- The types of parameters: the WHERE of an UPDATE is analysed before its SET.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table q (kind int, version bigint, slug varchar(20)); insert into q values (1, 5000000000, 'a');
prepare p as update q set version = $1 + 1 where version = $1 returning version;
execute p (5000000000);
drop schema h cascade;
