-- Literals that go on in the next line, numbers with letters behind them, patterns that end too early, collations.
select 'foo'
'bar' as a, 'a' -- a comment
  'b'

'c' as b, E'a\n'
'b\tc' as c;
select 'foo' 'bar';
select 123abc;
select 1.5e3x;
select 1 as a, 2"b";
select 'a' like 'a\';
select 'abc' like 'a\';
select 'abc' ilike '%\';
select '' like '\';
select 'a' collate "C" < 'b', 'a' < 'b' collate "POSIX", 'a' collate pg_catalog."default", 'B' < 'a' collate ucs_basic;
select 'a' collate "nosuch";
select 1 collate "C";
select v from (values ('b'), ('B'), ('a')) t (v) order by v collate "C";
select v from (values ('b'), ('a')) t (v) order by v collate "nosuch";
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
create table t (v text collate "C");
create table u (v text collate "nosuch");
create index on t (v collate "POSIX");
create index on t (v collate "nosuch");
select quote_ident('select'), quote_ident('user'), quote_ident('Abc'), quote_ident('name'), format('%I %I', 'null', 'abc'), quote_ident('between'), quote_ident('table');
select '-0'::float8, -(0::float8), - 0.0::float8, min(x), max(x), min(y), max(y) from (values (0::float8, 1.0), ('-0', 1.00)) t (x, y);
create table f (id int primary key, x float8); create index on f (x); insert into f values (1, 0); update f set x = '-0'; select * from f; select x from f where x = 0;
select 'f'::regclass, 'int4'::regtype, 'pg_catalog'::regnamespace, ('f'::regclass)::oid = (select oid from pg_class where relname = 'f' and relnamespace = 'h'::regnamespace);
drop schema h cascade;
