-- An offset without an abbreviation counts to the west; an interval, to the east.
select timestamp '2024-01-01 10:00' at time zone '+05:30', timestamp '2024-01-01 10:00' at time zone '-05:30', timestamp '2024-01-01 10:00' at time zone '5';
select timestamptz '2024-01-01 10:00+00' at time zone '+05:30', timestamptz '2024-01-01 10:00+00' at time zone '-3', timestamptz '2024-01-01 10:00+00' at time zone '5', timestamptz '2024-01-01 10:00+00' at time zone '05:30:15', timestamptz '2024-01-01 10:00+00' at time zone '+24:00', timestamptz '2024-01-01 10:00+00' at time zone '+5.5';
select timestamptz '2024-01-01 10:00+00' at time zone '+05:60';
select timestamptz '2024-01-01 10:00+00' at time zone '+0530';
select timestamptz '2024-01-01 10:00+00' at time zone '+5:';
select timestamptz '2024-01-01 10:00+00' at time zone interval '5:30', timestamptz '2024-01-01 10:00+00' at time zone interval '-5:30', timestamp '2024-01-01 10:00' at time zone interval '5:30';
select timestamptz '2024-01-01 10:00+00' at time zone interval '1 day';
select timezone('+05:30', timestamptz '2024-01-01 10:00+00'), timezone(interval '1 hour', timestamp '2024-01-01 10:00');
select time '10:00' at time zone '+05:30', timetz '10:00+00' at time zone '-02', timetz '10:00+01' at time zone interval '2 hours', timetz '23:00+00' at time zone 'Asia/Tokyo';
select date_trunc('day', timestamptz '2024-01-01 20:00+00', '+05:30');
set timezone = '+05:30'; show timezone; select timestamptz '2024-01-01 10:00+00';
set timezone = '5.5'; show timezone; select timestamptz '2024-01-01 10:00+00';
set timezone = '+0530';
