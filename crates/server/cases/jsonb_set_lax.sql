\pset null NULL
select jsonb_set_lax('{"a":1,"b":2}', '{b}', '5'), jsonb_set_lax('{"a":1}', '{b}', '2', true), jsonb_set_lax('{"a":1}', '{b}', '2', false);
select jsonb_set_lax('{"a":1,"b":2}', '{b}', null), jsonb_set_lax('{"a":1,"b":2}', '{b}', null, null_value_treatment => 'use_json_null');
select jsonb_set_lax('{"a":1,"b":2}', '{b}', null, true, 'delete_key'), jsonb_set_lax('{"a":1,"b":2}', '{b}', null, true, 'return_target');
select jsonb_set_lax('{"a":1,"b":2}', '{b}', null, true, 'raise_exception');
select jsonb_set_lax('{"a":1,"b":2}', '{b}', null, true, null);
select jsonb_set_lax('{"a":1,"b":2}', '{b}', null, true, 'no_such_treatment');
select jsonb_set_lax('{"a":1,"b":2}', '{b}', '"x"', true, 'no_such_treatment');
select jsonb_set_lax(null, '{b}', '5'), jsonb_set_lax('{"a":1}', null, '5'), jsonb_set_lax('{"a":1}', '{a}', '5', null);
select jsonb_set_lax('[1,2,3]', '{1}', null, false, 'delete_key'), jsonb_set_lax('{"a":{"b":1}}', '{a,c}', null);
