-- SELECT FOR UPDATE, UPDATE and DELETE that find no row lock nothing:
-- another session (in comments) inserts the key without a wait.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (id int primary key, v int);
-- A: begin; update h.t set v = 1 where id = 6;              -- UPDATE 0
-- B: insert into h.t values (6, 5);                         -- INSERT 0 1 at once (Isomer: waits for A)
-- A: commit;
-- A: begin; select * from h.t where id = 5 for update;      -- 0 rows
-- B: insert into h.t values (5, 5);                         -- INSERT 0 1 at once (Isomer: waits for A)
-- A: commit;
begin; update t set v = 1 where id = 6; delete from t where id = 7; select * from t where id = 5 for update;
select count(*) from pg_locks where locktype = 'tuple';
commit;
drop schema h cascade;
