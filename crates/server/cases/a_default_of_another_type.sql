-- A DEFAULT of another type is converted to the type of its column. Object mappers make
-- `text primary key default gen_random_uuid()`.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create type mood as enum ('calm', 'busy');
create table doc (id text primary key default gen_random_uuid(), day text default date '2024-01-01', at varchar(40) default timestamptz '2024-01-01 10:00Z', on_ text default true, m text default 'busy'::mood, x int);
insert into doc (x) values (1);
select id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' as is_uuid, length(id), day, at, on_, m from doc;
alter table doc add column later text default date '2024-02-02';
select later from doc;
drop schema h cascade;
