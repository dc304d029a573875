-- COLLATE behind a cast, and set-returning functions where they are not allowed.
create table t(a int, b text);
insert into t values (1, 'x'), (2, 'Y');
select a::text collate "POSIX", b::varchar(3) collate "C" < 'a'::text collate pg_catalog."C" from t order by b::text collate "C";
create index on t((a::text collate "POSIX"));
create index on t((lower(b)::text) collate "C" desc);
select b::text collate "nosuch" from t;
select case when true then generate_series(1, 2) end;
select coalesce(generate_series(1, 2), 0);
select coalesce((select max(x) from generate_series(1, 2) x), 0), generate_series(1, 2);
select case when exists (select generate_series(1, 2)) then 1 end;
