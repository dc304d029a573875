-- COPY FROM STDIN among other statements of one simple query runs in its turn:
-- a ROLLBACK after it undoes it, and a DELETE after it sees its rows.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (id int primary key);
begin\; copy t from stdin\; rollback;
1
2
\.
select 'rolled back', count(*) from t;
truncate t;
insert into t values (9)\; copy t from stdin\; delete from t where id < 9;
1
2
\.
select 'deleted', * from t order by id;
truncate t;
copy t from stdin\; select count(*) from t;
1
2
\.
drop schema h cascade;
