-- The name of a column without an alias; drivers give rows by these names.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (tags text[], n int); insert into t values ('{a,b}', 1);
select tags[1], tags[1:1], array[1, 2], array[1]::int8[], overlay('abc' placing 'x' from 2), interval '1 day', '{1}'::int8[] from t \gdesc
select (array[1])[1], not exists (select 1), row_number() over (), case when true then 1 end, n::bigint from t \gdesc
show timezone;
drop schema h cascade;
