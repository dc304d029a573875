-- to_char, to_date, to_timestamp and to_number; what is out of range; letters of time zones by year.
select to_char(t, 'RM|rm|FMRM|SSSS|SSSSS|I|IY|bc|a.d.|AD|FF1|FF2|FF3|FF4|FF5|FF6|MS|US|FMMS') from (values (timestamp '2024-07-09 01:02:03.045678')) v (t);
select to_char(t, '\"YYYY\"|"a\"b"|TMMonth|TMDay|FMDDth|DDTH|HH24th|Day|day|DAY|Dy|mon|MON|Mon|IDDD|Y,YYYY|Y,YYYth|CC') from (values (timestamp '2024-07-01 01:02:03')) v (t);
select to_char(t, 'YYYY|YYY|YY|Y|Y,YYY|CC|IYYY|BC|b.c.|FMYYYY') from (values (timestamp '0044-03-15 BC'), ('0001-01-01 BC'), ('0001-01-01')) v (t);
select to_char(timestamp '2024-01-11', 'DDTH DDth Qth WW W J D ID IW Yyyy mONTH');
select to_date('15 III 2024', 'DD RM YYYY'), to_date('4-27-3', 'I-IW-ID'), to_date('2024273', 'IYYYIWID'), to_date('4273', 'IIWID');
select to_timestamp('2024-01-01 10:11:12.345', 'YYYY-MM-DD HH24:MI:SS.FF3'), to_timestamp('10:11:12.5', 'HH24:MI:SS.FF6'), to_timestamp('2024-07-01 1.25', 'YYYY-MM-DD SS.MS');
select to_number('1,234.56-', '9G999D99S'), to_number('<12.5>', '99D9PR'), to_number('1.5-', '9D9MI'), to_number('-12,345.6', '99G999D9'), to_number('12.34-', '99D99-'), to_number('$1,234', 'L9,999'), to_number('12 34', '99 99');
select to_number('9,99-', '9G9D99-');
select to_number('<9.99>', '9D99PR'), to_number(' 1234', '9999'), to_number('1e3', '9EEEE');
select date_bin('1 day', timestamp '2024-01-01', timestamp '294246-01-01') is not null;
select date_bin('100000 days', timestamp '4713-01-01 BC', timestamp '2024-01-01');
select date '5874897-12-31'::timestamp;
select date 'infinity'::timestamp, date '-infinity'::timestamptz;
select (date '5874897-12-31')::timestamptz;
select timestamptz '2005-07-01 12:00 MSK' at time zone 'UTC', timestamptz '2012-01-01 12:00 MSK' at time zone 'UTC', timestamptz '2020-01-01 12:00 MSK' at time zone 'UTC', timestamptz '2005-07-01 12:00 MSD' at time zone 'UTC', timestamptz '2000-01-01 12:00 NOVT' at time zone 'UTC', timestamptz '2017-01-01 12:00 NOVT' at time zone 'UTC', timestamptz '2024-01-01 12:00 CHADT' at time zone 'UTC', timestamptz '2010-01-01 VET' at time zone 'UTC', timestamptz '2020-01-01 VET' at time zone 'UTC';
select date_trunc('hour', timestamptz '2024-11-03 05:30Z', 'America/New_York') at time zone 'UTC', date_trunc('day', timestamptz '2024-11-03 05:30Z', 'America/New_York') at time zone 'UTC', date_trunc('milliseconds', timestamptz '2024-11-03 05:30:01.2345Z', 'America/New_York') at time zone 'UTC', date_trunc('hour', timestamptz '2024-11-03 05:40Z', 'Asia/Kolkata') at time zone 'UTC';
