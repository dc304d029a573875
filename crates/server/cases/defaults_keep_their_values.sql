-- A default keeps its value when its column gets another type, or the change is refused.
set client_min_messages = warning;
drop table if exists da, db, dc, dd;
create table da (id int primary key, t time default '10:00', iv interval default '90 min', f float8 default 1e2, ts timestamp default '2020-1-2', b bool default 'yes', n numeric default '1.50');
alter table da alter t type text, alter iv type text, alter ts type text, alter b type text, alter n type text, alter f type text;
insert into da (id) values (1); select * from da;
create table db (id int primary key, x text default 'abc', y text default '7', z varchar(3) default 'ab');
alter table db alter x type int using 1;
alter table db alter y type interval using '1 day'::interval;
alter table db alter z type text;
alter table db alter x drop default; alter table db alter x type int using 1;
insert into db (id) values (1); select * from db;
create table dc (id int primary key, d date default '2020-02-29', k int default '12');
alter table dc alter d type timestamp, alter k type bigint;
insert into dc (id) values (1); select * from dc;
alter table dc alter k type numeric(10, 2); insert into dc (id) values (2); select * from dc;
drop table da, db, dc;
