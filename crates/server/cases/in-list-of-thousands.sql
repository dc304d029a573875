-- in-list-of-thousands: IN with 10000 keys, = ANY of an array of 20000: 9 and 6 ms in PostgreSQL, 1100 and 1700 ms here; time grows with the square.
-- class S; expected: PostgreSQL 15 (psql -X -q -v VERBOSITY=sqlstate -f in-list-of-thousands.sql), in in-list-of-thousands.out
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table k (id int primary key, v text);
insert into k select n, 'v' || n from generate_series(1, 20000) n;
select format('select count(*) from k where id in (%s)', string_agg((n * 3)::text, ',')) from generate_series(1, 10000) n \gexec
select count(*) from k where id = any (array(select n * 2 from generate_series(1, 10000) n));
drop schema h cascade;
