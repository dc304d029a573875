-- Fields of errors that object mappers read:
-- the column of 23502 and the constraint of a domain.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table p (id int primary key, email text not null); create domain pos as int check (value > 0); create table d (v pos);
\set VERBOSITY verbose
\set SHOW_CONTEXT never
insert into p values (1, null);
insert into d values (-1);
drop schema h cascade;
