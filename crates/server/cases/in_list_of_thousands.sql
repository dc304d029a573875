-- IN with 10,000 keys and = ANY of an array of 20,000:
-- each row is looked up in a hash table, not compared with every value.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table k (id int primary key, v text);
insert into k select n, 'v' || n from generate_series(1, 20000) n;
select format('select count(*) from k where id in (%s)', string_agg((n * 3)::text, ',')) from generate_series(1, 10000) n \gexec
select count(*) from k where id = any (array(select n * 2 from generate_series(1, 10000) n));
drop schema h cascade;
