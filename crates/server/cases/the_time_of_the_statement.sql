-- Outside of a block now() is statement_timestamp().
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
select now() = statement_timestamp() as same, now() = transaction_timestamp() as also;
drop schema h cascade;
