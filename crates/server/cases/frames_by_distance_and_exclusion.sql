\pset null NULL
create table days (id int primary key, d date, t timestamp, z timestamptz, c time, i interval, n numeric, f float8);
insert into days values
  (1, '2024-01-01', '2024-01-01 10:00', '2024-03-09 12:00-05', '10:00', '1 day', 1.0, 1),
  (2, '2024-01-02', '2024-01-01 10:30', '2024-03-10 12:00-04', '10:20', '2 days', 1.5, 1.5),
  (3, '2024-01-31', '2024-01-01 12:00', '2024-03-11 12:00-04', '23:50', '1 month', 2.0, 2),
  (4, '2024-02-29', '2024-01-02 10:00', '2024-03-11 13:00-04', '23:59', '40 days', 2.0, 'Infinity'),
  (5, '2024-02-29', 'infinity', null, null, null, null, 'NaN');
set timezone to 'America/New_York';
-- Distances between dates and times.
select id, array_agg(id) over (order by d range between '1 month' preceding and current row) from days order by id;
select id, array_agg(id) over (order by d range between interval '2 days' preceding and interval '1 day' following) from days order by id;
select id, array_agg(id) over (order by d desc range between '1 month' preceding and current row) from days order by id;
select id, array_agg(id) over (order by t range between '30 minutes' preceding and '2 hours' following) from days order by id;
select id, array_agg(id) over (order by t range between '1 day' following and unbounded following) from days order by id;
select id, array_agg(id) over (order by z range between '1 day' preceding and current row) from days order by id;
select id, array_agg(id) over (order by z range between '24 hours' preceding and current row) from days order by id;
select id, array_agg(id) over (order by c range between '20 minutes' preceding and '10 minutes' following) from days order by id;
select id, array_agg(id) over (order by c desc range between '1 hour' preceding and '1 day' following) from days order by id;
select id, array_agg(id) over (order by i range between '1 day' preceding and '10 days' following) from days order by id;
select id, array_agg(id) over (order by n range between 0.5 preceding and 0.25 following) from days order by id;
select id, array_agg(id) over (order by f range between 0.5 preceding and '1' following) from days order by id;
select sum(id) over (order by d range between '-1 day' preceding and current row) from days;
select sum(id) over (order by c range between current row and '-1 second' following) from days;
select sum(id) over (order by d range between 1 preceding and current row) from days;
select sum(id) over (order by d range between null::interval preceding and current row) from days;
select sum(id) over (order by 'a'::text range between 1 preceding and current row) from days;
select sum(id) over (order by d, t range between '1 day' preceding and current row) from days;
-- Rows that a frame leaves out.
create table peers (id int primary key, k int);
insert into peers values (1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (6, 3);
select id, array_agg(id) over (order by k rows between 1 preceding and 1 following exclude current row) from peers order by id;
select id, array_agg(id) over (order by k rows between 2 preceding and 2 following exclude group) from peers order by id;
select id, array_agg(id) over (order by k rows between 2 preceding and 2 following exclude ties) from peers order by id;
select id, array_agg(id) over (order by k rows between unbounded preceding and current row exclude no others) from peers order by id;
select id, sum(id) over (order by k range between unbounded preceding and current row exclude ties), count(*) over (order by k range between current row and current row exclude group) from peers order by id;
select id, array_agg(id) over (order by k groups between 1 preceding and 1 following exclude group) from peers order by id;
select id, first_value(id) over w, last_value(id) over w, nth_value(id, 2) over w from peers window w as (order by k groups between current row and 1 following exclude current row) order by id;
select id, first_value(id) over (w exclude ties) from peers window w as (order by k rows between 1 preceding and 1 following) order by id;
select id, sum(id) over (w rows between unbounded preceding and unbounded following exclude ties) from peers window w as (partition by k) order by id;
select id, string_agg(id::text, ',') over (W rows between 1 following and 2 following exclude ties) from peers window W as (order by id) order by id;
select sum(id) over (order by k exclude ties) from peers;
select sum(id) over (order by k rows 1 preceding exclude others) from peers;
drop table days, peers;
