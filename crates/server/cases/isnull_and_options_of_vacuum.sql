-- ISNULL and NOTNULL behind an operand; options that VACUUM and ANALYZE do not have.
create temporary table t (a int, b text);
insert into t values (1, null), (null, 'x');
select 1 isnull as a, null isnull as b, 1 notnull as c, null notnull as d;
select 1 isnull;
select null isnull, 5;
select a isnull, b from t where b isnull order by 1;
select (a + 1) isnull as x, b as isnull from t order by 1;
select count(*) from t where not a isnull and a notnull;
select case when b isnull then 'none' else b end from t order by 1;
vacuum (nosuch) t;
analyze (foo) t;
analyze (full) t;
analyze (verbose off) t;
vacuum (freeze, analyze) t;
