-- Branches that are never taken are not computed; widening of arrays; literals with escapes over two lines; patterns that end with their escape character.
select case 1 when 1 then 2 else 1/0 end as a, case 1 when 2 then 1/0 else 2 end as b, case 3 when 1 then 1/0 when 3 then 5 else 1/0 end as c, case when 1 > 2 then 1/0 else 3 end as d, case when not 1 = 1 then 1/0 end as e;
create temporary table t (v int);
insert into t values (1);
select case v when 2 then 1/0 else 2 end from t;
select v from t where 1 = 2 and 1/0 = 1;
select v from t where 1 = 1 or 1/0 = 1;
select coalesce(v, 1/0) from t;
select case when v > 100 then 1/0 else 1 end from t;
select pg_typeof(array_append(array[1], 9999999999)), pg_typeof(array_prepend(1::int8, array[1])), pg_typeof(array_append(array[1], 2.5)), array_prepend(9999999999, array[1]) as a, array_append(array[1::int2], 2) as b, array_append(array[1], null) as c, array_prepend(null, array[1.5]) as d, array_append(null::int[], 1::bigint) as e;
select U&'d\0061t'
'\0061' as a, E'a\t'
'\x41' as b;
select 'a' like 'a!' escape '!' as a, 'a' not like 'a!' escape '!' as b, 'ba' like 'a!' escape '!' as c;
select 'ab' like 'a!' escape '!';
