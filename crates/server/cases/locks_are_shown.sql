-- pg_locks shows the advisory locks and the table locks that are held.
-- Tools for migrations and dashboards read it.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
select pg_advisory_lock(33);
select locktype, mode, granted, objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid();
create table t (id int);
begin;
lock table t in share mode;
select mode from pg_locks where relation = 't'::regclass and pid = pg_backend_pid();
commit;
drop schema h cascade;
