\pset null NULL
create table words (id int primary key, word text, between text, tags int[]);
insert into words values (1, 'a', '-', '{1,10}'), (2, 'b', '+', '{1,9}'), (3, null, '?', null), (4, 'c', null, '{1,9,1}'), (5, 'a', '-', '{2}');
-- The delimiter of each row stands before its value.
select string_agg(word, between order by id) from words;
select string_agg(word, between order by id desc) from words;
select string_agg(word, between order by between, id) from words where id <> 4;
select string_agg(word, id::text order by id), string_agg(word, null), string_agg(word, ',' order by id) from words;
select string_agg(between, word order by id) filter (where id > 1) from words;
-- Distinct pairs, in their order.
select string_agg(distinct word, between) from words;
select string_agg(distinct word, between order by word desc) from words;
select string_agg(distinct word, between order by between) from words;
select string_agg(distinct word, between order by between desc, word) from words;
select string_agg(distinct word, between order by id) from words;
select string_agg(distinct word, ',' order by word desc) from words;
select string_agg(id, ',') from words;
select string_agg(word, id) from words;
select word, string_agg(word, between) over (order by id rows between 1 preceding and current row) from words order by id;
select id % 2, string_agg(word, between order by id) from words group by 1 order by 1;
-- Arrays are compared by their elements.
select max(tags), min(tags) from words;
select max(tags) filter (where id < 3), min(tags) filter (where id > 100) from words;
select max(x), min(x) from (values (array['b', 'a']), (array['b']), (array['a', null])) t(x);
select greatest(array[1,2], array[1,10]), least(array[1,2], array[1,10], null), greatest(null::int[], null);
select id, max(tags) over (order by id) from words order by id;
select n, max(x) over (order by n), min(x) over (order by n desc) from (values (1, 'aaaa'), (2, 'b'), (3, 'cc')) t(n, x) order by n;
-- Arrays of arrays.
select array_agg(array[id, id * 2] order by id) from words;
select array_agg(array[array[id], array[0]] order by id desc) from words where id < 3;
select array_agg(tags order by id) from words where id < 3;
select array_agg(tags) from words;
select array_agg(tags) from words where id in (1, 4);
select array_agg('{}'::int[]);
select array_agg(x) from (values ('{1}'::int[])) t(x) where false;
drop table words;
