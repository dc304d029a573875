// node-postgres: values both ways, prepared statements, pools, cursors, streams, COPY, notices and errors.

const { fails, missing, same, scripted } = require("./node-common");
const [pg, Cursor, QueryStream, copy] = missing("node-postgres", "pg", "pg-cursor", "pg-query-stream", "pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

async function valuesBothWays(db) {
  await db.query("drop table if exists np_types");
  await db.query(`create table np_types (id serial primary key, i2 smallint, i4 int, i8 bigint, f float8, n numeric(12, 3),
    t text, c char(5), b boolean, d date, ts timestamp, tz timestamptz, u uuid, raw bytea, j jsonb, js json, a int[], s text[],
    i interval)`);
  const moment = new Date("2024-02-29T12:30:00.123Z");
  const row = [-7, 2147483647, "-9223372036854775808", 0.1, "-123456.789", "naïve 日本", "ab   ", true, "2024-02-29",
    "1999-12-31 23:59:59.999", moment, "00000000-0000-0000-0000-00000000002a", Buffer.from([0, 255, 92]), { a: [1, null] },
    JSON.stringify([1, "x"]), [1, -2], ["it's", null, '"', "a,b"], "1 day 02:03:04"];
  const columns = "i2, i4, i8, f, n, t, c, b, d, ts, tz, u, raw, j, js, a, s, i";
  const marks = row.map((_, n) => `$${n + 1}`).join(", ");
  const made = await db.query(`insert into np_types (${columns}) values (${marks}) returning id`, row);
  const found = (await db.query({ text: `select ${columns} from np_types where id = $1`, values: [made.rows[0].id], rowMode: "array" })).rows[0];
  same(found.slice(0, 8), row.slice(0, 8));
  same([found[8].getFullYear(), found[8].getMonth(), found[8].getDate()], [2024, 1, 29]);
  same(found[10].getTime(), moment.getTime());
  same([found[11], [...found[12]], found[13], found[14], found[15], found[16]],
    [row[11], [0, 255, 92], { a: [1, null] }, [1, "x"], [1, -2], row[16]]);
  same([found[17].days, found[17].hours, found[17].minutes, found[17].seconds], [1, 2, 3, 4]);
  const nulls = (await db.query("insert into np_types default values returning *")).rows[0];
  same(Object.values(nulls).filter((value) => value !== null).length, 1);
}

async function preparedStatements(db) {
  for (let n = 0; n < 20; n++)
    same((await db.query({ name: "plus", text: "select $1::int + 1 as sum", values: [n] })).rows, [{ sum: n + 1 }]);
  same((await db.query("select $1::text || $2 as t, $3 = any($4::int[]) as any", ["a", "b", 3, [1, 3]])).rows, [{ t: "ab", any: true }]);
  const many = await db.query("select 1 as a; select 2 as b; insert into np_types (i4) values (5)");
  same(many.map((result) => [result.command, result.rowCount]), [["SELECT", 1], ["SELECT", 1], ["INSERT", 1]]);
  same((await db.query("select id, d from np_types")).fields.map((field) => field.dataTypeID), [23, 1082]);
}

async function manyRows(db) {
  await db.query("drop table if exists np_many");
  await db.query("create table np_many (id int primary key, v text)");
  const lines = function* () { for (let n = 0; n < 5000; n++) yield `${n}\trow ${n}\n`; };
  await pipeline(Readable.from(lines()), db.query(copy.from("copy np_many from stdin")));
  let bytes = 0;
  for await (const chunk of db.query(copy.to("copy (select v from np_many order by id) to stdout with (format csv)"))) bytes += chunk.length;
  same(bytes, 5000 * 5 + 10 + 90 * 2 + 900 * 3 + 4000 * 4);
  const cursor = db.query(new Cursor("select * from np_many where id >= $1 order by id", [10]));
  same((await cursor.read(3)).map((row) => row.id), [10, 11, 12]);
  same((await cursor.read(10000)).length, 4987);
  await cursor.close();
  let rows = 0;
  for await (const row of db.query(new QueryStream("select * from np_many", [], { batchSize: 77 }))) rows += row.v.startsWith("row");
  same(rows, 5000);
  // A stream that ends early leaves the session usable.
  const early = db.query(new QueryStream("select * from np_many", [], { batchSize: 10 }));
  for await (const _ of early) break;
  same((await db.query("select count(*)::int as n from np_many")).rows, [{ n: 5000 }]);
}

async function errorsByTheirCode(db) {
  for (const [statement, code] of [["selec", "42601"], ["select * from np_nowhere", "42P01"], ["select 1 / 0", "22012"],
    ["insert into np_many values (1)", "23505"], ["insert into np_many values (null)", "23502"], ["select 'x'::int", "22P02"]])
    same((await fails(db.query(statement))).code, code);
  const error = await fails(db.query("insert into np_many values ($1, $2)", [1, "x"]));
  same([error.constraint, error.table, error.detail, error.schema], ["np_many_pkey", "np_many", "Key (id)=(1) already exists.", "public"]);
  const notices = [];
  db.on("notice", (notice) => notices.push(notice.code));
  await db.query("drop table if exists np_nowhere");
  same(notices, ["00000"]);
  await db.query("set statement_timeout = 50");
  same((await fails(db.query("select pg_sleep(60)"))).code, "57014");
  await db.query("reset statement_timeout");
}

async function pools() {
  const pool = new pg.Pool({ max: 8, application_name: "np_pool", statement_timeout: 60000, idle_in_transaction_session_timeout: 60000 });
  same((await pool.query("show application_name")).rows, [{ application_name: "np_pool" }]);
  const add = async () => {
    const db = await pool.connect();
    try {
      await db.query("begin");
      const { rows } = await db.query("select v from np_many where id = 0 for update");
      await db.query("update np_many set v = $1 where id = 0", [`${(parseInt(rows[0].v) || 0) + 1}`]);
      await db.query("commit");
    } finally {
      db.release();
    }
  };
  await Promise.all(Array.from({ length: 40 }, add));
  same((await pool.query("select v from np_many where id = 0")).rows, [{ v: "40" }]);
  await pool.end();
}

scripted(async () => {
  const db = new pg.Client();
  await db.connect();
  for (const part of [valuesBothWays, preparedStatements, manyRows, errorsByTheirCode]) await part(db);
  await pools();
  await db.query("drop table np_types, np_many");
  await db.end();
  return `node-postgres ${require("pg/package.json").version}`;
});
