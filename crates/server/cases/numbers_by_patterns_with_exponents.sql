-- EEEE rounds halves by the type of the number; Roman numerals are those of integers.
select to_char(25::int, '9EEEE'), to_char(25::smallint, '9EEEE'), to_char(25::bigint, '9EEEE'), to_char(25::numeric, '9EEEE'), to_char(25::float8, '9EEEE'), to_char(25::float4, '9EEEE');
select to_char(35::int, '9EEEE'), to_char(-25::int, '9EEEE'), to_char(125, '9.9EEEE'), to_char(995, '9.9EEEE'), to_char(9.95, '9.9EEEE'), to_char(12, '9.99'), to_char(2147483647, '9.999999999EEEE');
select to_char('NaN'::numeric, 'RN');
select to_char(1e10, 'RN');
select to_char(10000000000::bigint, 'RN');
select to_char('Infinity'::numeric, 'RN');
select to_char('NaN'::float8, 'RN'), to_char(485, 'FMRN'), to_char(4000, 'RN'), to_char(2.5, 'FMRN'), to_char(2.5::float8, 'FMRN');
select to_char(date '2024-01-02', 'DDSP'), to_char(date '2024-01-02', 'DDth'), to_char(date '2024-01-02', 'FMDDTHSP'), to_char(date '2024-01-02', 'DDsp');
select to_number('12-', '99S'), to_number('12-', '99MI'), to_number('12-', '99'), to_number('1,234-', '9G999MI');
