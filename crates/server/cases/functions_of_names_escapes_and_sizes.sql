-- The parts of a qualified name.
select parse_ident('Schemax.Tabley'), parse_ident('"SchemaX"."TableY"'), parse_ident('foo.boo[]', strict => false), parse_ident(' first . " second "" x" .third ');
select parse_ident('foo.boo', false), parse_ident('_a$1.é'), parse_ident(null);
select parse_ident('foo.boo[]');
select parse_ident('1020');
select parse_ident('10.20');
select parse_ident('a.10');
select parse_ident('"c".X XXXX.');
select parse_ident('"a');
select parse_ident('a.""');
select parse_ident('.a');
select parse_ident('a.');
select parse_ident('a..b');
select parse_ident('');
-- Escapes.
select unistr('\0441\043B'), unistr('d!0061t\+000061'), unistr('d\u0061t\U00000061'), unistr('a\\b'), unistr('\D83D\DE00'), unistr('');
select unistr('wrong: \db99');
select unistr('wrong: \db99\0061');
select unistr('wrong: \+00db99\+000061');
select unistr('wrong: \+2FFFFF');
select unistr('wrong: \udb99\u0061');
select unistr('wrong: \xyz');
select unistr('wrong: \06');
-- Sizes.
select pg_size_bytes('1'), pg_size_bytes('123bytes'), pg_size_bytes('1kB'), pg_size_bytes('1.5 MB'), pg_size_bytes(' -1 gb '), pg_size_bytes('1e3'), pg_size_bytes('.5 kB'), pg_size_bytes('1PB');
select pg_size_bytes('1 AB');
select pg_size_bytes('1 AB A');
select pg_size_bytes('9223372036854775807.9');
select pg_size_bytes('1e100');
select pg_size_bytes('');
select pg_size_bytes('kb');
select pg_size_bytes('..');
-- Bytes that a value takes.
select pg_column_size(1), pg_column_size(1::int2), pg_column_size(1::int8), pg_column_size(1.5), pg_column_size(12345.678), pg_column_size(true), pg_column_size('abc'), pg_column_size('abc'::text), pg_column_size('\x01'::bytea), pg_column_size(now()), pg_column_size(current_date), pg_column_size(null::text);
create table sizes (a text, b varchar(5), c numeric);
insert into sizes values ('abc', 'de', 1.25), (repeat('x', 126), null, 0), (repeat('x', 127), '', 10000);
select pg_column_size(a), pg_column_size(b), pg_column_size(c) from sizes;
drop table sizes;
-- Blanks of a char(n) are bytes.
select octet_length('ab'::char(4)), octet_length('ab  '::text);
-- Others.
select pg_collation_for('a'), pg_collation_for('a'::varchar);
select pg_collation_for(1);
select pg_is_in_recovery(), not pg_is_in_recovery(), pg_trigger_depth(), pg_is_other_temp_schema(1), row_security_active(1259);
select current_query() like 'select current_query()%', inet_client_addr() is null, inet_client_port() > 0;
select to_regproc('nope'), to_regprocedure('nope(int)'), getpgusername() = current_user;
select pg_sleep_for('1 millisecond'), pg_sleep_until('2000-01-01');
select pg_sleep_for(1);
select length(timeofday()) > 30;
-- Angles in degrees.
select sind(30), cosd(60), tand(45), cotd(45), asind(0.5), acosd(0.5), atand(1), atan2d(1, 1), sind(-390), cosd(180), tand(0), sind('NaN');
select round(sind(10)::numeric, 12), round(cosd(100)::numeric, 12), round(tand(-200)::numeric, 12), round(acosd(-0.3)::numeric, 12);
select asind(2);
select cosd('Infinity');
-- Times with a zone.
select make_timestamptz(2014, 12, 10, 10, 10, 10.5, 'EST5EDT'), make_timestamptz(2014, 12, 10, 0, 0, 0, '+2');
select make_timestamptz(2014, 12, 10, 10, 10, 10, 'Nope/Zone');
