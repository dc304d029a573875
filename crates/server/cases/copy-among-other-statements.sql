-- copy-among-other-statements: COPY .. FROM STDIN among other statements of one simple query: it must run at its place. It runs after all of them: a ROLLBACK behind it does not take it back, a DELETE behind it does not see its rows, a second COPY is lost.
-- class W; expected: PostgreSQL 15 (psql -X -q -v VERBOSITY=sqlstate -f copy-among-other-statements.sql), in copy-among-other-statements.out
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
