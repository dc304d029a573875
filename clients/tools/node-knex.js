// Knex: migrations up and down with altered tables, seeds, and the statements of its query builder.

const { fails, missing, same, scripted } = require("./node-common");
const [knex] = missing("Knex", "knex", "pg");

// A migration is an object with a name; the source lists them.
const migrations = {
  "1_tables": {
    async up(db) {
      await db.schema.createTable("kx_author", (table) => {
        table.increments();
        table.string("name", 40).notNullable().unique();
        table.date("born");
        table.timestamps(true, true);
        table.comment("who writes");
      });
      await db.schema.createTable("kx_post", (table) => {
        table.bigIncrements("id");
        table.integer("author_id").unsigned().notNullable().references("id").inTable("kx_author").onDelete("CASCADE");
        table.text("title").notNullable().comment("as printed");
        table.decimal("price", 8, 2).defaultTo(0);
        table.double("weight");
        table.boolean("printed").notNullable().defaultTo(false);
        table.jsonb("meta");
        table.uuid("key").defaultTo(db.raw("gen_random_uuid()"));
        table.binary("raw");
        table.specificType("words", "text[]");
        table.time("alarm");
        table.datetime("written", { useTz: true }).defaultTo(db.fn.now());
        table.unique(["author_id", "title"], { indexName: "kx_post_once" });
        table.index(["author_id", "price"], "kx_post_by_price");
        table.check("price >= 0", {}, "kx_post_price");
      });
      await db.schema.createTable("kx_tagged", (table) => {
        table.bigInteger("post_id").references("kx_post.id").onDelete("CASCADE").deferrable("deferred");
        table.string("tag");
        table.primary(["post_id", "tag"]);
      });
    },
    async down(db) {
      await db.schema.dropTableIfExists("kx_tagged").dropTable("kx_post").dropTable("kx_author");
    },
  },
  "2_altered": {
    async up(db) {
      await db.schema.alterTable("kx_post", (table) => {
        table.string("title", 200).notNullable().alter();
        table.decimal("price", 12, 3).notNullable().defaultTo(1).alter();
        table.renameColumn("weight", "mass");
        table.integer("rank").notNullable().defaultTo(7);
        table.dropColumn("raw");
        table.dropUnique(["author_id", "title"], "kx_post_once");
        table.dropIndex([], "kx_post_by_price");
        table.setNullable("author_id");
        table.dropForeign("author_id");
        table.foreign("author_id", "kx_post_author").references("kx_author.id").onDelete("SET NULL");
        table.dropChecks("kx_post_price");
      });
      await db.schema.renameTable("kx_tagged", "kx_marked");
      await db.schema.createView("kx_titles", (view) => {
        view.columns(["title", "name"]);
        view.as(db("kx_post").join("kx_author", "kx_author.id", "author_id").select("title", "name"));
      });
    },
    async down(db) {
      await db.schema.dropView("kx_titles").renameTable("kx_marked", "kx_tagged");
      await db.schema.alterTable("kx_post", (table) => {
        table.dropForeign("author_id", "kx_post_author");
        table.foreign("author_id").references("kx_author.id").onDelete("CASCADE");
        table.dropColumn("rank");
        table.binary("raw");
        table.renameColumn("mass", "weight");
        table.text("title").notNullable().alter();
        table.decimal("price", 8, 2).nullable().defaultTo(0).alter();
        table.dropNullable("author_id");
        table.unique(["author_id", "title"], { indexName: "kx_post_once" });
        table.index(["author_id", "price"], "kx_post_by_price");
        table.check("price >= 0", {}, "kx_post_price");
      });
    },
  },
};
const source = {
  getMigrations: async () => Object.keys(migrations),
  getMigrationName: (name) => name,
  getMigration: async (name) => migrations[name],
};

async function upAndDown(db) {
  await db.raw("drop view if exists kx_titles");
  for (const table of ["kx_tagged", "kx_marked", "kx_post", "kx_author", "knex_migrations", "knex_migrations_lock"])
    await db.schema.dropTableIfExists(table);
  same(await db.migrate.up(), [1, ["1_tables"]]);
  await db("kx_author").insert({ name: "Ann" });
  await db("kx_post").insert({ author_id: 1, title: "one", price: 1.25, weight: 0.5, words: ["it's", "b"] });
  await fails(db("kx_post").insert({ author_id: 1, title: "two", price: -1 }));
  same((await db.migrate.latest())[1], ["2_altered"]);
  same(await db("kx_titles"), [{ title: "one", name: "Ann" }]);
  same(await db("kx_post").select("price", "mass", "rank", "words"), [{ price: "1.250", mass: 0.5, rank: 7, words: ["it's", "b"] }]);
  same((await db.migrate.rollback())[1], ["2_altered"]);
  same(await db("kx_post").select("price", "weight"), [{ price: "1.25", weight: 0.5 }]);
  await fails(db("kx_post").insert({ author_id: 1, title: "one" }));
  same((await db.migrate.latest())[1], ["2_altered"]);
  same((await db.migrate.list())[1], []);
  same(await db.migrate.currentVersion(), "2");
}

async function lookedAt(db) {
  same([await db.schema.hasTable("kx_post"), await db.schema.hasTable("kx_nowhere"), await db.schema.hasColumn("kx_post", "mass")],
    [true, false, true]);
  const columns = await db("kx_post").columnInfo();
  same(columns.title, { type: "character varying", maxLength: 200, nullable: false, defaultValue: null });
  same([columns.rank.type, columns.rank.defaultValue, columns.key.defaultValue], ["integer", "7", "gen_random_uuid()"]);
  same(Object.values(columns).map((column) => column.type).sort(), ["ARRAY", "bigint", "boolean", "character varying",
    "double precision", "integer", "integer", "jsonb", "numeric", "time without time zone", "timestamp with time zone", "uuid"]);
}

async function questions(db) {
  await db("kx_post").del();
  const [bob] = await db("kx_author").insert({ name: "Bob", born: "1980-01-31" }).returning(["id", "name"]);
  const rows = Array.from({ length: 500 }, (_, n) => ({ author_id: 1 + (n % 2), title: `post ${n}`, price: n, rank: n % 5, meta: { n, a: { b: n % 3 } } }));
  await db.batchInsert("kx_post", rows, 99);
  same(bob, { id: 2, name: "Bob" });
  const posts = () => db("kx_post");
  same(await posts().count("* as n").first(), { n: "500" });
  same(await posts().join("kx_author as a", "a.id", "kx_post.author_id").where("a.name", "Bob").andWhere((it) => it.where("rank", 1).orWhereBetween("price", [0, 10]))
    .whereNotNull("key").orderBy("price", "desc").limit(2).offset(1).pluck("title"), ["post 481", "post 471"]);
  same(await posts().select("author_id").sum({ s: "price" }).avg("rank as r").groupBy("author_id").having("author_id", ">", 1), [{ author_id: 2, s: "62500.000", r: "2.0000000000000000" }]);
  same(await posts().whereIn("author_id", db("kx_author").select("id").where("name", "like", "A%")).whereILike("title", "POST 1%").countDistinct("rank as n").first(), { n: "5" });
  same((await posts().whereJsonSupersetOf("meta", { a: { b: 1 } }).count())[0], { count: "167" });
  same(await posts().distinctOn("rank").select("title").orderBy("rank").orderBy("id").first(), { title: "post 0" });
  same(await db.with("dear", posts().where("price", ">", 490)).from("dear").count("* as n").first(), { n: "9" });
  same(await db.withRecursive("t", ["n"], (it) => it.select(db.raw("1 as n")).from(db.raw("(values (1)) v")).unionAll((more) => more.select(db.raw("n + 1")).from("t").where("n", "<", 9))).from("t").max("n as n").first(), { n: 9 });
  same((await posts().select("title").rowNumber("place", (it) => it.partitionBy("rank").orderBy("price", "desc")).as("it")).length, 500);
  same(await posts().where("rank", 3).increment("price", 5).decrement("mass", 1).returning("price").then((all) => all.length), 100);
  same(await db("kx_author").insert({ name: "Bob", born: "1999-12-31" }).onConflict("name").merge(["born"]).returning("id"), [{ id: 2 }]);
  same((await db("kx_author").insert([{ name: "Bob" }, { name: "Cid" }]).onConflict().ignore().returning("name")).length, 1);
  let streamed = 0;
  for await (const row of posts().select().stream()) streamed += row.rank >= 0;
  same(streamed, 500);
}

async function transactions(db) {
  await db.transaction(async (outer) => {
    await outer("kx_author").insert({ name: "Dora" });
    await fails(outer.transaction(async (inner) => {
      await inner("kx_author").insert({ name: "Eve" });
      await inner("kx_author").insert({ name: "Bob" });
    }));
    same(await outer("kx_author").where({ name: "Bob" }).forUpdate().skipLocked().pluck("id"), [2]);
    await outer("kx_author").where({ name: "Bob" }).forShare().noWait();
  });
  same(await db("kx_author").orderBy("id").pluck("name"), ["Ann", "Bob", "Cid", "Dora"]);
  const alone = await db.transaction({ isolationLevel: "serializable" });
  await alone("kx_author").where("name", "Dora").delete();
  await alone.rollback();
  await fails(db("kx_author").insert({ name: "Bob" })).then((error) => same(error.constraint, "kx_author_name_unique"));
  await db("kx_post").truncate().then(() => { throw new Error("truncated in spite of kx_marked"); }, () => {});
  await db.raw("truncate kx_post restart identity cascade");
  same(await db("kx_post").insert({ title: "first" }).returning("id"), [{ id: "1" }]);
}

scripted(async () => {
  const connection = { host: process.env.PGHOST, port: +process.env.PGPORT, user: process.env.PGUSER, database: process.env.PGDATABASE };
  const db = knex({ client: "pg", connection, pool: { min: 0, max: 4 }, migrations: { migrationSource: source } });
  for (const part of [upAndDown, lookedAt, questions, transactions]) await part(db);
  await db("kx_post").delete();
  await db.migrate.rollback(undefined, true);
  await db.schema.dropTable("knex_migrations").dropTable("knex_migrations_lock");
  await db.destroy();
  return `Knex ${require("knex/package.json").version}`;
});
