-- fields-of-errors: Fields of errors that object mappers read: column of 23502, constraint of a domain.
-- class M; expected: PostgreSQL 15 (psql -X -q -v VERBOSITY=sqlstate -f fields-of-errors.sql), in fields-of-errors.out
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table p (id int primary key, email text not null); create domain pos as int check (value > 0); create table d (v pos);
\set VERBOSITY verbose
\set SHOW_CONTEXT never
insert into p values (1, null);
insert into d values (-1);
drop schema h cascade;
