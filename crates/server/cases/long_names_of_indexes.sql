-- Names of indexes that agree in their first 56 letters are different names,
-- also in two schemas.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (id int primary key, a int, b int);
create index idx_nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_a on t (a);
create index idx_nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_b on t (b);
create table a_table_with_a_name_of_some_length (first_long_column int, second_long_column int, third_long int, unique (first_long_column, second_long_column));
create index on a_table_with_a_name_of_some_length (first_long_column, second_long_column);
create index on a_table_with_a_name_of_some_length (first_long_column, second_long_column, third_long);
create schema h2; create table h2.t (id int primary key, a int);
create index idx_nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_a on h2.t (a);
select schemaname, count(*) from pg_indexes where schemaname in ('h', 'h2') group by 1 order by 1;
drop schema h2 cascade;
drop schema h cascade;
