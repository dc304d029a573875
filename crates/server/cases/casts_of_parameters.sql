-- A cast of a parameter cuts and rounds as one of a literal does.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
prepare p1 as select $1::numeric(5,1), $2::varchar(2), $3::char(3), $4::timestamp(0), $5::time(1), $6::interval(0), $7::numeric(5,1)[], $8::varchar(2)[];
execute p1 ('123.456', 'abc', 'abcdef', '2024-01-01 10:00:00.6', '10:00:00.66', '1.6 s', '{1.25,2}', '{abc,d}');
execute p1 ('12345.6', 'abc', 'abcdef', '2024-01-01 10:00:00.6', '10:00:00.66', '1.6 s', '{1.25,2}', '{abc,d}');
execute p1 ('1.26', 'äöü', 'a', '2024-01-01 10:00:00.4', '10:00', '1.4 s', null, null);
prepare p2 as select octet_length($1::char(4)), ('-1 days'::text)::char(3)::text, length($1::char(4));
execute p2 ('ab');
create table t (d date, v varchar(3)); insert into t values ('2024-01-01', 'abc');
prepare p3 (text) as select * from t where v = $1;
execute p3 (date '2024-01-01');
execute p3 ('abc');
execute p3 (true);
prepare p4 (int) as select $1;
execute p4 ('7'::text);
execute p4 (7.6);
execute p4 (true);
drop schema h cascade;
