-- An expression over an aggregate has one row, also over a catalog that is always empty.
-- Tools for migrations ask in this form whether an object exists.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
select count(*) > 0 as some from pg_inherits;
select case when count(*) > 0 then true else false end as has from pg_matviews where matviewname = 'nosuch';
select n, (select count(*) from pg_inherits i where i.inhrelid = n) as children from generate_series(1, 2) n;
select coalesce(max(evtname), 'none') as m, count(*) + 0 as c from pg_event_trigger;
drop schema h cascade;
