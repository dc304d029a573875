-- The conversion of a generated value to the type of its column may depend on the session.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table g1 (d date, t text generated always as (d) stored); insert into g1 values ('2024-01-02') returning t;
create table g2 (d date, t text generated always as (d::text) stored);
create table g3 (d interval, t text generated always as (d::text) stored);
create table g3 (d int[], t text generated always as (d::text) stored);
create table g3 (a text, t text generated always as (concat(a, 'x')) stored);
create table g3 (a int, t text generated always as (format('%s', a)) stored);
create table g3 (d int[], t text[] generated always as (d::text[]) stored); insert into g3 values ('{1,2}') returning t;
create table g4 (a int, t text generated always as (a) stored); insert into g4 values (5) returning t;
drop schema h cascade;
