-- What an application for a shop and its help desk keeps: the shapes that migrations make.

CREATE SEQUENCE ticket_number START 1000 INCREMENT 10 MINVALUE 1000 CACHE 5;
CREATE SEQUENCE countdown AS smallint INCREMENT -1 MAXVALUE 100 START 100 CYCLE;

CREATE TYPE standing AS ENUM ('new', 'it''s "good"', 'gone');
ALTER TYPE standing ADD VALUE 'late' BEFORE 'gone';
COMMENT ON TYPE standing IS 'how somebody pays';

CREATE DOMAIN country AS char(2) DEFAULT 'de' CONSTRAINT letters CHECK (VALUE ~ '^[a-z ]+$');
CREATE DOMAIN home AS country NOT NULL CHECK (VALUE <> 'xx') CHECK (length(VALUE) = 2);
COMMENT ON DOMAIN country IS 'ISO 3166';

CREATE TABLE organisation (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(80) NOT NULL UNIQUE,
    "country code" char(2) NOT NULL DEFAULT 'de',
    created_at timestamptz NOT NULL DEFAULT now(),
    standing standing NOT NULL DEFAULT 'new',
    stood standing[],
    seat home,
    branch country DEFAULT 'fr'
);
CREATE INDEX organisation_standing ON organisation (standing);
COMMENT ON TABLE organisation IS 'Who pays; it''s "theirs"';
COMMENT ON COLUMN organisation."country code" IS 'ISO 3166, two letters';

CREATE TABLE account (
    id serial PRIMARY KEY,
    organisation_id bigint NOT NULL REFERENCES organisation ON DELETE CASCADE,
    email text NOT NULL,
    name text,
    is_admin boolean NOT NULL DEFAULT false,
    birthday date,
    token uuid UNIQUE,
    balance numeric(12, 2) NOT NULL DEFAULT 0 CHECK (balance > -1000.00),
    score double precision,
    avatar bytea,
    CONSTRAINT account_email UNIQUE (organisation_id, email),
    CONSTRAINT email_has_at CHECK (email LIKE '%@%' AND length(email) BETWEEN 3 AND 200)
);
CREATE INDEX account_by_name ON account (name, birthday);

CREATE TABLE category (
    id smallint PRIMARY KEY,
    parent_id smallint REFERENCES category ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    slug varchar(40) NOT NULL
);
CREATE UNIQUE INDEX category_slug ON category (slug);
CREATE UNIQUE INDEX category_top ON category (lower(slug)) WHERE parent_id IS NULL;
CREATE INDEX category_odd ON category ((id % 2), slug);

CREATE TABLE product (
    sku character varying(24) NOT NULL,
    version integer NOT NULL DEFAULT 1,
    category_id smallint REFERENCES category (id) ON UPDATE CASCADE,
    title text NOT NULL DEFAULT '',
    price numeric(10, 2) NOT NULL CHECK (price >= 0),
    weight real,
    exact numeric,
    listed timestamp without time zone DEFAULT '2020-02-29 12:00:00',
    PRIMARY KEY (sku, version)
);

CREATE TABLE "Order" (
    id bigserial PRIMARY KEY,
    account_id integer NOT NULL REFERENCES account ON DELETE RESTRICT,
    placed_at timestamptz,
    note text
);
CREATE INDEX order_by_account ON "Order" (account_id);

CREATE TABLE order_line (
    order_id bigint NOT NULL REFERENCES "Order" ON DELETE CASCADE,
    line integer NOT NULL,
    sku varchar(24) NOT NULL,
    version integer NOT NULL,
    quantity integer NOT NULL DEFAULT 1 CHECK (quantity <> 0),
    PRIMARY KEY (order_id, line),
    FOREIGN KEY (sku, version) REFERENCES product (sku, version) MATCH FULL ON UPDATE CASCADE
);

CREATE TABLE ticket (
    number bigint PRIMARY KEY DEFAULT nextval('ticket_number'),
    account_id integer REFERENCES account ON DELETE SET NULL,
    opened date NOT NULL DEFAULT CURRENT_DATE,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'waiting', 'closed')),
    body text
);
CREATE TABLE ticket_tag (ticket bigint REFERENCES ticket, tag text, PRIMARY KEY (tag, ticket));
CREATE TABLE event_log (at timestamptz DEFAULT now(), what text, "user" integer);

CREATE VIEW a_busy_account AS
    SELECT a.id, a.email, count(*) AS orders, max(o.placed_at) AS latest
    FROM account a JOIN "Order" o ON o.account_id = a.id GROUP BY a.id, a.email;
CREATE VIEW open_ticket (number, who, age) AS
    SELECT t.number, coalesce(account.name, 'nobody'), t.opened FROM ticket t LEFT JOIN account ON account.id = t.account_id
    WHERE t.state <> 'closed';
CREATE VIEW both_kinds AS
    SELECT id::bigint AS id, email AS what FROM a_busy_account UNION ALL SELECT number, who FROM open_ticket;
COMMENT ON VIEW open_ticket IS 'What is to be done';
COMMENT ON INDEX order_by_account IS 'for the page of an account';

INSERT INTO organisation (name, "country code", created_at) VALUES
    ('Büro & Söhne', 'de', '2024-05-01 10:00:00+02'), (E'tab\there', 'fr', '1999-12-31 23:59:59.999999+00'), ('', 'us', '2001-01-01');
INSERT INTO account (organisation_id, email, name, is_admin, birthday, token, balance, score, avatar)
    SELECT 1 + n % 3, 'user' || n || '@example.org', CASE WHEN n % 5 = 0 THEN NULL ELSE E'name\\' || n END, n % 7 = 0,
        date '1970-01-01' + n, NULL, n * 1.25 - 10, n / 3.0, NULL FROM generate_series(1, 200) n;
UPDATE account SET token = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', avatar = '\x00ff5c0a', score = 'NaN' WHERE id = 7;
UPDATE account SET score = '-Infinity', name = E'two\nlines' WHERE id = 8;
INSERT INTO category VALUES (3, NULL, 'root'), (1, 3, 'tools'), (2, 1, 'hammers');
INSERT INTO product (sku, version, category_id, title, price, weight, exact)
    SELECT 'sku-' || n, 1 + n % 2, 1 + n % 3, 'thing ' || n, n + 0.99, n / 7.0, n * 1000000007.000000001 FROM generate_series(1, 50) n;
INSERT INTO "Order" (account_id, placed_at, note)
    SELECT 1 + n % 200, timestamptz '2024-01-01 00:00:00+00', NULLIF(repeat('\N', n % 4), '') FROM generate_series(1, 300) n;
INSERT INTO order_line SELECT n, 1, 'sku-' || 1 + n % 50, 1 + (1 + n % 50) % 2, 1 + n % 9 FROM generate_series(1, 300) n;
INSERT INTO ticket (account_id, state, body) SELECT n, CASE WHEN n % 2 = 0 THEN 'closed' ELSE 'open' END, 'why ' || n FROM generate_series(1, 40) n;
INSERT INTO ticket_tag SELECT number, 'tag' || number % 7 FROM ticket;
INSERT INTO event_log VALUES ('2024-02-03 04:05:06.7+00', '', 1), (NULL, NULL, NULL), (NULL, NULL, NULL);
SELECT nextval('countdown'), nextval('countdown');

-- A part of it in a schema of its own, that refers to the others and is looked at from there.
CREATE SCHEMA "help desk";
COMMENT ON SCHEMA "help desk" IS 'who waits for what';
CREATE TABLE "help desk".visit (
    id serial PRIMARY KEY,
    account_id integer REFERENCES account ON DELETE CASCADE,
    minutes integer NOT NULL DEFAULT 5 CHECK (minutes > 0),
    price numeric(8, 2) NOT NULL,
    total numeric(12, 2) GENERATED ALWAYS AS (price * minutes) STORED,
    title text GENERATED ALWAYS AS (upper('visit of ' || minutes::text || ' minutes')) STORED
);
CREATE SEQUENCE "help desk".numbers START 5;
CREATE INDEX ON "help desk".visit (total);
CREATE VIEW "help desk".long_visits AS SELECT v.id, a.email, v.total FROM "help desk".visit v LEFT JOIN account a ON a.id = v.account_id WHERE v.minutes > 10;
INSERT INTO "help desk".visit (account_id, minutes, price) SELECT min(id), 12, 1.25 FROM account;
INSERT INTO "help desk".visit (price) VALUES (2), (0.5);
SELECT nextval('"help desk".numbers');

-- Whose it is, and what others may do with it.
ALTER SCHEMA "help desk" OWNER TO writer;
ALTER TABLE "help desk".visit OWNER TO writer;
ALTER SEQUENCE countdown OWNER TO reader;
GRANT USAGE ON SCHEMA "help desk" TO reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
GRANT SELECT (id, minutes), UPDATE (minutes) ON "help desk".visit TO reader;
GRANT INSERT, UPDATE ON account TO writer WITH GRANT OPTION;
GRANT USAGE ON SEQUENCE ticket_number TO PUBLIC;
REVOKE ALL ON event_log FROM postgres;
SET SESSION AUTHORIZATION writer;
GRANT INSERT ON account TO reader;
RESET SESSION AUTHORIZATION;

-- Procedures.
CREATE PROCEDURE extend(visit integer, by integer DEFAULT 5, why text DEFAULT 'it''s long') LANGUAGE sql AS $$
    UPDATE "help desk".visit SET minutes = minutes + by WHERE id = extend.visit;
    SELECT '$procedure$', why
$$;
CREATE PROCEDURE "help desk".extend(integer[], timestamp with time zone, numeric(8, 2)) LANGUAGE sql AS 'SELECT $1[1], $3';
COMMENT ON PROCEDURE extend IS 'makes a visit longer';
ALTER PROCEDURE "help desk".extend OWNER TO writer;
REVOKE ALL ON PROCEDURE extend FROM PUBLIC;
GRANT EXECUTE ON PROCEDURE extend(integer, integer, text) TO reader;
