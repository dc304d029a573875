-- Statements that are errors.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (id int primary key, v int);
update t set t.v = 1;
select 'a' collate "nosuch";
select 'abc' like 'a\';
create table bad (a int, b int generated always as (a) stored default 5);
begin; vacuum t; rollback;
select '1' + '2';
select max(true);
select 1 < 2 = true;
prepare p as select * from t where $1 is null or v = $1;
prepare p2 as select $3::int + $1;
select '{1,2}'::text::int[] = '{1,2}', 'x'::json::text;
drop schema h cascade;
