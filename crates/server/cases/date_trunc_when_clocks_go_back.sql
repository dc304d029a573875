-- date_trunc to hour, minute and second keeps the occurrence of an hour that comes twice.
set client_min_messages = warning;
drop schema if exists h cascade; create schema h; set search_path = h, public;
set timezone = 'America/New_York';
select date_trunc('minute', timestamptz '2024-11-03 05:30:30Z') as first, date_trunc('minute', timestamptz '2024-11-03 06:30:30Z') as second;
select date_trunc('hour', timestamptz '2024-11-03 05:30:30Z') = timestamptz '2024-11-03 05:00Z' as first, date_trunc('hour', timestamptz '2024-11-03 06:30:30Z') = timestamptz '2024-11-03 06:00Z' as second;
reset timezone;
select date_trunc('hour', timestamptz '2024-10-27 00:40Z', 'Europe/Berlin') = timestamptz '2024-10-27 00:00Z' as first;
select count(distinct date_trunc('hour', at)), count(*) from generate_series(timestamptz '2024-11-03 04:00Z', '2024-11-03 07:59Z', interval '10 minutes') at;
set timezone = 'America/New_York';
select date_trunc('hour', at) as hour, count(*) from generate_series(timestamptz '2024-11-03 04:00Z', '2024-11-03 07:59Z', interval '10 minutes') at group by 1 order by 1;
drop schema h cascade;
