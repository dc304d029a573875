\pset null NULL
create schema talk; set search_path to talk;
create domain age as int constraint positive check (value > 0);
create table staff (id int constraint staff_key primary key, boss int constraint bosses references staff, name text constraint named unique, years age, constraint fits check (id > 0));
comment on constraint staff_key on staff is 'the key'; comment on constraint bosses on staff is 'who decides'; comment on constraint named on talk.staff is 'one of a name'; comment on constraint fits on staff is 'above zero'; comment on constraint positive on domain age is 'older than nothing';
comment on domain age is 'in years'; comment on index named is 'the index';
select conname, obj_description(oid, 'pg_constraint') from pg_constraint where connamespace = 'talk'::regnamespace order by 1;
select conname, d.description from pg_constraint c join pg_description d on d.objoid = c.oid and d.classoid = 'pg_constraint'::regclass where connamespace = 'talk'::regnamespace order by 1;
select obj_description('named'::regclass, 'pg_class');
alter table staff rename constraint fits to fit; alter table staff rename constraint named to one_name; alter table staff rename to people;
select conname, obj_description(oid, 'pg_constraint') from pg_constraint where conrelid = 'people'::regclass order by 1;
comment on constraint fit on people is null; alter table people drop constraint bosses;
select conname, obj_description(oid, 'pg_constraint') from pg_constraint where conrelid = 'people'::regclass order by 1;
comment on constraint nope on people is 'x';
comment on constraint fit on nowhere is 'x';
comment on constraint nope on domain age is 'x';
comment on constraint fit on domain nowhere is 'x';
\dd talk.*
begin; comment on constraint fit on people is 'again'; rollback;
select obj_description(oid, 'pg_constraint') from pg_constraint where conname = 'fit';
-- The database and its roles.
create role speaker;
comment on role speaker is 'talks';
select shobj_description(oid, 'pg_authid'), shobj_description(oid, 'pg_database') from pg_roles where rolname = 'speaker';
comment on role speaker is null;
select shobj_description(oid, 'pg_authid') from pg_roles where rolname = 'speaker';
comment on role nobody_there is 'x';
select current_database() as db \gset
comment on database :"db" is 'of tests';
select shobj_description(oid, 'pg_database') from pg_database where datname = current_database();
comment on database :"db" is null;
select shobj_description(oid, 'pg_database') from pg_database where datname = current_database();
comment on database no_such_database is 'x';
set role speaker;
comment on database :"db" is 'mine';
comment on role speaker is 'me';
comment on constraint fit on talk.people is 'mine';
comment on domain talk.age is 'mine';
reset role; drop role speaker;
drop schema talk cascade;
