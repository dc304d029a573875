-- INSERT .. SELECT converts each value to the type of its column: the text of a date, time, uuid,
-- boolean, enum or timestamptz is what the value shows. Upserts likewise.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create type mood as enum ('calm', 'busy');
create table src (id int primary key, d date, u uuid, h time, b boolean, z timestamptz, m mood);
insert into src values (1, '2024-01-01', '00000000-0000-0000-0000-0000000000ff', '10:20:30', true, '2024-01-01 10:00Z', 'busy');
create table log (what text primary key, v text);
insert into log select 'date', d from src;
insert into log select 'uuid', u from src;
insert into log select 'time', h from src;
insert into log select 'bool', b from src;
insert into log select 'zone', z from src;
insert into log select 'enum', m from src;
insert into log select 'max', max(d) from src;
insert into log values ('values', date '2024-01-01');
select * from log order by what;
create table keyed (k int primary key, v varchar(40));
insert into keyed select id, d from src on conflict (k) do update set v = excluded.v;
insert into keyed select id, d from src on conflict (k) do update set v = excluded.v;
select * from keyed;
drop schema h cascade;
