-- pg_cancel_backend of the own session ends the statement, and nothing after it.
select pg_cancel_backend(pg_backend_pid());
select 1 as next;
begin;
select pg_cancel_backend(pg_backend_pid());
select 1;
rollback;
select pg_cancel_backend(-1), pg_terminate_backend(0);
