-- Values of char(n) where texts and bytes are expected.
create table c(k int primary key, c char(4), t text, v varchar(10));
insert into c values (1, 'ab', 'ab', 'ab'), (2, 'ab', 'ab  ', 'ab  '), (3, 'ab ', 'AB', 'ab ');
select 'ab'::char(4)::bytea, c::bytea, encode(c::bytea, 'hex'), length(c::bytea) from c where k = 1;
select quote_literal('ab'::char(4)), quote_nullable(c), quote_ident(c), quote_literal(true) from c where k = 1;
select quote_literal(1.50), quote_nullable(null::char(3)), quote_literal(date '2020-01-02');
select 'ab'::char(4) in (select 'ab  '::text), 'ab'::char(4) in (select 'ab'::text);
select 'ab'::char(4) = any (select 'ab  '::text), 'ab'::char(4) not in (select 'ab  '::text);
select 'ab'::text in (select 'ab'::char(4)), 'ab  '::text in (select 'ab'::char(4));
select 'ab  '::varchar in (select 'ab'::char(4)), 'ab'::char(4) in (select 'ab  '::varchar);
select k, c in (select t from c d where d.k = c.k), c in (select v from c d where d.k = c.k),
  t in (select d.c from c d where d.k = c.k), c not in (select t from c d where d.k = c.k)
from c order by k;
select k from c where c in (select t from c) order by k;
select k from c where c in ('ab  '::text, 'x'::text) order by k;
select k from c where c in ('ab  '::text) order by k;
select k from c where t in ('ab'::char(4), 'x'::char(4)) order by k;
select k from c where c in ('ab  ', 'x') order by k;
select k from c where c in (t, v, 'x'::text) order by k;
select row('ab'::char(4)) = row('ab'), row('ab'::char(4), 1) = row('ab  '::text, 1);
select row('ab'::char(4), 1) in (('ab', 1), ('x', 2)), ('ab'::char(4), 1) in (row('ab  '::text, 1));
create table d(b bytea, t text);
insert into d select c::bytea, quote_literal(c) from c where k = 1;
select * from d;
