-- The text of an array: blanks, quotes, backslashes, bounds.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
select '{"a", "b"}'::text[], ' { a , b c } '::text[], '{ }'::int[], '{"a" ,	null, "null", \NULL}'::text[], '{a\ , "b\"c" , \"}'::text[];
select '[0:1]={a,b}'::text[], '[2]={a,b}'::text[], '[-1:0]={1,2}'::int[], ('[0:1]={a,b}'::text[])[0], ('[0:1]={a,b}'::text[])[0:1];
select array_append(a, 3), array_prepend(9, a), a || 7, a || a, array_remove(a, 2), array_replace(a, 2, 7), array_length(a, 1), array_upper(a, 1), array_lower(a, 1), array_dims(a), array_position(a, 2) from (select '[0:1]={1,2}'::int[] as a) x;
select '[0:3]={a,b}'::text[];
select '[1:0]={a,b}'::text[];
select ''::text[];
select 'NaN'::numeric[];
select '1 2'::int[];
select '{a"b"}'::text[];
select '{"a"b}'::text[];
select '{a,}'::text[];
select '{,a}'::text[];
select '{a}b'::text[];
select '{a\'::text[];
select '{1'::int[];
create table t (id int primary key, a text[] default '{"x", "y"}');
insert into t (id) values (1); insert into t values (2, '{"a", "b"}');
prepare p as insert into t values ($1, $2); execute p (3, '{"p" , "q"}');
update t set a[0] = 'z' where id = 3; update t set a[4] = 'w' where id = 2;
copy t from stdin;
4	{"c", "d"}
5	[0:0]={e}
\.
select id, a, a[1], a[0], array_length(a, 1) from t order by id;
prepare q as select array_length(a, $1), array_upper(a, $1), array_lower(a, '1'), array_upper(a, '1') from t where id = 1; execute q (1);
select pg_typeof(array[1] || 9999999999), array[1] || 9999999999, pg_typeof(1.5 || array[1]), array[1] || array[2.5], pg_typeof(array[1]::int2[] || array[1]);
drop schema h cascade;
