CREATE TABLE wide (
    id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, c integer NOT NULL,
    g integer NOT NULL, name text NOT NULL, note text NOT NULL
);
CREATE TABLE small (id integer PRIMARY KEY, name text NOT NULL, kind integer NOT NULL);
CREATE TABLE half (id integer PRIMARY KEY, v integer NOT NULL);
CREATE INDEX wide_a ON wide (a);
CREATE INDEX wide_b ON wide (b, id);
CREATE INDEX wide_c ON wide (c);
CREATE INDEX wide_g ON wide (g);
CREATE INDEX wide_name ON wide (name text_pattern_ops);
