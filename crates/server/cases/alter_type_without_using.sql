-- ALTER COLUMN TYPE without USING needs an assignment cast (42804).
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (id int primary key, a bigint, b date, c int, d time);
insert into t values (1, 1700000000, '2024-01-01', 1, '10:00');
alter table t alter a type timestamptz;
alter table t alter b type int;
alter table t alter c type boolean;
alter table t alter c type date;
alter table t alter d type bigint;
select * from t;
alter table t alter b type int using extract(day from b)::int;
select b from t;
drop schema h cascade;
