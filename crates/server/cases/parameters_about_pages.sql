-- Parameters and forms that are about pages and statistics have no effect.
create table t (a int, b text) with (fillfactor = 90, autovacuum_enabled = false, parallel_workers = 4);
alter table t alter column a set (n_distinct = -0.5);
alter table t alter column b set storage external;
alter table t alter column a set statistics 500;
alter table t set (autovacuum_vacuum_scale_factor = 0.1);
create index i on t (a) with (fillfactor = 70);
alter table t cluster on i;
alter table t set without cluster;
select 1 as ok;
