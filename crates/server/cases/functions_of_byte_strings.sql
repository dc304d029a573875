-- Parts of a byte string, by position.
select substring('\x0102030405'::bytea from 2 for 3), substr('\x0102'::bytea, 2), substring('\x0102'::bytea, -1, 3), substring('\x0102'::bytea from 5);
select substring('\x0102'::bytea from 1 for -1);
select position('\x0203'::bytea in '\x010203'::bytea), position(''::bytea in '\x01'::bytea), position('\x05' in '\x01'::bytea);
select overlay('\x0102030405'::bytea placing '\xffff' from 2 for 1), overlay('\x0102'::bytea placing '\xff'::bytea from 3), overlay('\x010203'::bytea placing '\xff'::bytea from 2);
select overlay('\x01'::bytea placing '\x02'::bytea from 0);
select btrim('\x000100'::bytea, '\x00'::bytea), ltrim('\x000100'::bytea, '\x00'), rtrim('\x000100'::bytea, '\x0001'::bytea), trim(both '\x01'::bytea from '\x0101'::bytea);
select btrim('\x0001'::bytea, ''::bytea), trim(leading '\x00'::bytea from '\x000100'::bytea), trim(trailing '\x00'::bytea from '\x000100'::bytea);
select btrim('\x00'::bytea);
-- Bytes and bits.
select get_byte('\x0102'::bytea, 1), set_byte('\x0102'::bytea, 0, 255), set_byte('\x01'::bytea, 0, 300);
select get_byte('\x0102'::bytea, 2);
select get_byte(''::bytea, 0);
select get_bit('\x0104'::bytea, 0), get_bit('\x0104'::bytea, 10), get_bit('\x01'::bytea, 1), set_bit('\x00'::bytea, 7, 1), set_bit('\xff'::bytea, 0, 0);
select get_bit('\x01'::bytea, 8);
select get_bit('\x01'::bytea, -1);
select set_bit('\x01'::bytea, 0, 2);
select bit_count('\x0f01ff'::bytea), bit_count(''::bytea), pg_typeof(bit_count('\x01'::bytea));
select length('\x0102'::bytea), octet_length('\x0102'::bytea), bit_length('\x0102'::bytea);
-- Encodings.
select length('\xc3a961'::bytea, 'UTF8'), length('\xe961'::bytea, 'latin1');
select length('\xff'::bytea, 'utf-8');
select length('\xff'::bytea, 'what');
select convert_from('\xc3a9'::bytea, 'utf8'), convert_from('\xe9'::bytea, 'LATIN1'), convert_to('é', 'UTF-8'), convert_to('é', 'iso-8859-1');
select convert('\xe9'::bytea, 'latin1', 'utf8'), convert('\xc3a9'::bytea, 'UTF8', 'LATIN1'), convert('\x61', 'utf8', 'utf8');
select convert_from('\xff'::bytea, 'UTF8');
select convert_from('\x61e4b8'::bytea, 'UTF8');
select convert_from('\x6100'::bytea, 'UTF8');
select convert_from('\xc328'::bytea, 'UTF8');
select convert_to('€', 'LATIN1');
select convert_from('\x61'::bytea, 'what');
select convert_to('a', 'what');
-- As an aggregate.
select string_agg(b, '\x2c'::bytea order by b desc), string_agg(distinct b, ''), string_agg(b, null) from (values ('\x01'::bytea), ('\x02'), ('\x01'), (null)) t(b);
-- Values in binary form.
select int4send(1), int8send(-2), int2send(3::int2), float8send(1.5), textsend('aé'), boolsend(true), byteasend('\x0102'), uuid_send('00000000-0000-0000-0000-0000000000ff');
select date_send('2000-01-02'), numeric_send(12345.6), jsonb_send('{"a": 1}'), interval_send('1 day 1 second');
select int4send('a'::text);
