-- locks-are-not-shown: pg_locks shows the advisory locks and table locks that are held (migration tools and dashboards look there).
-- class W; expected: PostgreSQL 15 (psql -X -q -v VERBOSITY=sqlstate -f locks-are-not-shown.sql), in locks-are-not-shown.out
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
