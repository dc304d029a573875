-- Rows for the tables of Roundcube, which come empty.
INSERT INTO users (username, mail_host, language, preferences)
    SELECT 'user' || n, 'mail.example.org', CASE WHEN n % 3 = 0 THEN NULL ELSE 'de_DE' END, E'a:1:{s:3:"x\\n";i:' || n || ';}'
    FROM generate_series(1, 100) n;
INSERT INTO identities (user_id, name, email, "reply-to", signature)
    SELECT user_id, username, username || '@example.org', '', E'--\n\tyours' FROM users;
INSERT INTO contacts (user_id, name, email, words) SELECT 1 + n % 100, 'Zoë ' || n, 'z' || n || '@example.org', ' zoe ' FROM generate_series(1, 300) n;
INSERT INTO contactgroups (user_id, name) SELECT user_id, 'friends' FROM users WHERE user_id < 50;
INSERT INTO contactgroupmembers (contactgroup_id, contact_id, created) SELECT 1 + n % 49, n, now() FROM generate_series(1, 200) n;
INSERT INTO session (sess_id, changed, ip, vars) VALUES ('s1', now(), '::1', repeat('x', 20000));
DELETE FROM users WHERE user_id = 7;
