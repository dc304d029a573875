-- Which of several functions or operators is meant, where a literal or a parameter has no type.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
select round('0.55', 1), trunc('0.55', 1), round('2.5'), abs('-5'), sqrt('4'), power('2', '3'), pg_typeof(round('2.5')), pg_typeof(ceil(5)), pg_typeof(abs(5::int2));
prepare p as select round($1, $2), trunc($1, $2), power($3, 2.0), mod(5, $4), abs($5); execute p ('0.55', 1, 2, 3, '-0.5');
select pg_typeof(mod(1, 2::bigint)), pg_typeof(mod(1::int2, 2)), pg_typeof(mod('5', 3)), pg_typeof(power(2.0, '3')), pg_typeof(power(2, 3)), pg_typeof(sign(-2)), pg_typeof(trunc(2::int8)), pg_typeof(log(100)), pg_typeof(log(2, 64)), pg_typeof(gcd(4, 6::int8)), pg_typeof(exp(1.0)), pg_typeof(ln(2));
select nullif(29, 1.5)::int / 23, pg_typeof(nullif(29, 1.5)), pg_typeof(nullif(1.5::float4, 1)), pg_typeof(nullif(1::int2, 2::int8)), pg_typeof(nullif('a'::varchar, 'b')), pg_typeof(nullif('a'::varchar, 'b'::char(3))), pg_typeof(nullif('a', 'b')), pg_typeof(nullif(1, 2::float8)), pg_typeof(nullif('a'::char(3), 'b'::text));
select nullif(date '2024-01-01', timestamp '2024-01-01'), nullif(date '2024-01-02', timestamp '2024-01-01'), nullif('a '::char(3), 'a'), nullif(array[1], array[1]), nullif(array[1], array[2]), nullif(null, 1), nullif(1, null);
create table n (x int); insert into n values (0), (3); select sum(nullif(x, 0.0)) / 2 from n;
select -2 ^ 2, @ -5 + 2, 1 - @ -5 + 2, |/ 4 + 5, - 2 ^ 2 ^ 3, -(2 ^ 2), 2 * @ -3 + 1, @ -5 * 2 - 1, @ -5 < 3;
select - '5';
select '1' + '2';
select mod('5', '3');
select gcd(3::int2, 4::int2);
select max(true);
select 1 < 2 = true;
select true = (1 < 2);
select round(1.5::float8, 1);
drop schema h cascade;
