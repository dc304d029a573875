-- WITHIN GROUP: percentiles, mode, and ranks that a row would have.
create table t (g int, n int, f float8, d numeric, s text, i interval, c date);
insert into t values (1, 1, 1.5, 10, 'b', '1 day', '2024-01-01'), (1, 2, 2.5, 20, 'a', '2 days', '2024-01-03'),
  (1, 3, null, 30.5, 'b', '4 days', '2024-01-02'), (2, 4, 9, null, 'c', null, null), (2, null, null, null, null, null, null);
select percentile_cont(0.5) within group (order by n), percentile_disc(0.5) within group (order by n), mode() within group (order by s) from t;
select percentile_cont(0.25) within group (order by f desc), percentile_cont(0.3) within group (order by d), percentile_cont(0.5) within group (order by i) from t;
select percentile_disc(0.5) within group (order by s), percentile_disc(0) within group (order by c), percentile_disc(1) within group (order by c desc) from t;
select percentile_cont(array[0, 0.5, null, 1]) within group (order by n), percentile_disc(array[0.1, 0.9]) within group (order by s) from t;
select percentile_cont(array[0.5]) within group (order by i), percentile_cont(null) within group (order by n) from t;
select g, percentile_cont(0.5) within group (order by n), mode() within group (order by s desc), count(*) from t group by g order by g;
select g, percentile_disc(0.5) within group (order by n) filter (where n > 1) from t group by g order by g;
select g, percentile_cont(g / 4.0) within group (order by n) from t group by g order by g;
select rank(2) within group (order by n), dense_rank(3) within group (order by n), percent_rank(2) within group (order by n), cume_dist(2) within group (order by n) from t;
select rank('b', 2) within group (order by s, n), rank(null) within group (order by n), rank(5) within group (order by n desc nulls last) from t;
select g, rank(2.5) within group (order by n), cume_dist('b') within group (order by s) from t group by rollup (g) order by g;
select percentile_cont(0.5) within group (order by n), mode() within group (order by s), rank(1) within group (order by n), percent_rank(1) within group (order by n), cume_dist(1) within group (order by n) from t where false;
select pg_typeof(percentile_cont(0.5) within group (order by n)), pg_typeof(percentile_disc(0.5) within group (order by c)), pg_typeof(percentile_disc(array[0.5]) within group (order by n)), pg_typeof(rank(1) within group (order by n)) from t;
select (select percentile_disc(0.5) within group (order by n) from t b where b.g = a.g) as m, g from (values (1), (2), (3)) a (g) order by g;
-- Errors.
select percentile_cont(1.5) within group (order by n) from t;
select percentile_cont(0.5) within group (order by s) from t;
select percentile_cont(0.5) from t;
select sum(n) within group (order by n) from t;
select percentile_cont(0.5) within group (order by n) over () from t;
select rank(1, 2) within group (order by n) from t;
select percentile_disc(n) within group (order by n) from t;
select lower('a') within group (order by n) from t;
select percentile_cont(0.5) within group (order by sum(n)) from t;
