// Drizzle: migrations that drizzle-kit writes from a schema, its migrator, queries with relations.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawnSync } = require("node:child_process");
const { fails, missing, same, scripted } = require("./node-common");
const [pg, { drizzle }, { migrate }, d, core, { relations }] = missing("Drizzle", "pg", "drizzle-orm/node-postgres",
  "drizzle-orm/node-postgres/migrator", "drizzle-orm", "drizzle-orm/pg-core", "drizzle-orm");

// As text, because drizzle-kit reads a file.
const schema = (second) => `
const c = require("drizzle-orm/pg-core");
const { sql } = require("drizzle-orm");
exports.author = c.pgTable("dz_author", {
  id: c.serial("id").primaryKey(),
  name: c.varchar("name", { length: ${second ? 60 : 40} }).notNull().unique(),
  born: c.date("born"),
  editorId: c.integer("editor_id").references(() => exports.author.id, { onDelete: "set null" }),
});
exports.post = c.pgTable("dz_post", {
  id: c.bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity({ startWith: 100 }),
  authorId: c.integer("author_id").notNull().references(() => exports.author.id, { onDelete: "cascade" }),
  title: c.text("title").notNull(),
  price: c.numeric("price", { precision: ${second ? "12, scale: 3" : "8, scale: 2"} })${second ? '.notNull().default("1")' : ""},
  gross: c.doublePrecision("gross").generatedAlwaysAs(sql\`weight * 2\`),
  weight: c.doublePrecision("weight"),
  printed: c.boolean("printed").notNull().default(false),
  meta: c.jsonb("meta").default({ a: 1 }),
  key: c.uuid("key").defaultRandom(),
  words: c.text("words").array(),
  written: c.timestamp("written", { withTimezone: true }).notNull().defaultNow(),
  ${second ? 'rank: c.integer("rank").notNull().default(7),' : ""}
}, (t) => [c.uniqueIndex("dz_post_once").on(t.authorId, t.title), ${second ? 'c.index("dz_post_by_rank").on(t.rank, t.price),' : ""} c.check("dz_post_price", sql\`\${t.price} >= 0\`)]);
exports.tagged = c.pgTable("dz_tagged", {
  postId: c.bigint("post_id", { mode: "number" }).notNull().references(() => exports.post.id, { onDelete: "cascade" }),
  tag: c.varchar("tag", { length: 9 }).notNull(),
}, (t) => [c.primaryKey({ columns: [t.postId, t.tag] })]);
${second ? 'exports.titles = c.pgView("dz_titles").as((qb) => qb.select({ title: exports.post.title }).from(exports.post));' : ""}
`;

function written(folder, second) {
  fs.writeFileSync(path.join(folder, "schema.js"), schema(second));
  const kit = path.join(process.env.NODE_PATH, "drizzle-kit", "bin.cjs");
  const done = spawnSync("node", [kit, "generate", "--dialect", "postgresql", "--schema", "./schema.js", "--out", "./out", "--name", second ? "second" : "first"], { cwd: folder, encoding: "utf8" });
  if (done.status !== 0) throw new Error(`drizzle-kit: ${done.stdout}${done.stderr}`);
  delete require.cache[path.join(folder, "schema.js")];
  return require(path.join(folder, "schema.js"));
}

async function migrated(folder, pool) {
  let tables = written(folder, false);
  let db = drizzle(pool, { schema: tables });
  await migrate(db, { migrationsFolder: path.join(folder, "out"), migrationsSchema: "drizzle" });
  const [ann] = await db.insert(tables.author).values({ name: "Ann", born: "1980-01-31" }).returning();
  const [post] = await db.insert(tables.post).values({ authorId: ann.id, title: "one", price: "1.25", weight: 0.5, words: ["it's", "b"] }).returning();
  same([post.id, post.price, post.gross, post.meta, post.words], [100, "1.25", 1, { a: 1 }, ["it's", "b"]]);
  tables = written(folder, true);
  db = drizzle(pool, { schema: tables });
  for (let twice = 0; twice < 2; twice++) await migrate(db, { migrationsFolder: path.join(folder, "out"), migrationsSchema: "drizzle" });
  same((await db.select().from(tables.post))[0].price, "1.250");
  same(await db.select().from(tables.titles), [{ title: "one" }]);
  return tables;
}

async function families(pool, tables) {
  const { author, post, tagged } = tables;
  const all = {
    ...tables,
    authorRelations: relations(author, ({ many }) => ({ posts: many(post) })),
    postRelations: relations(post, ({ one, many }) => ({ author: one(author, { fields: [post.authorId], references: [author.id] }), tags: many(tagged) })),
    taggedRelations: relations(tagged, ({ one }) => ({ post: one(post, { fields: [tagged.postId], references: [post.id] }) })),
  };
  const db = drizzle(pool, { schema: all });
  const [bob] = await db.insert(author).values({ name: "Bob", editorId: 1 }).returning({ id: author.id });
  const made = await db.insert(post).values(Array.from({ length: 300 }, (_, n) => ({ authorId: bob.id, title: `post ${n}`, price: `${n}`, rank: n % 5, meta: { n } }))).returning();
  await db.insert(tagged).values(made.slice(0, 9).map(({ id }) => ({ postId: id, tag: "red" })));
  const found = await db.query.author.findMany({ with: { posts: { with: { tags: true }, limit: 3, orderBy: d.desc(post.price) } }, orderBy: author.name });
  same(found.map((one) => [one.name, one.posts.length, one.posts[0].title]), [["Ann", 1, "one"], ["Bob", 3, "post 299"]]);
  const one = await db.query.post.findFirst({ where: d.eq(post.title, "post 3"), with: { author: { columns: { name: true } }, tags: true } });
  same([one.author, one.tags.map((tag) => tag.tag), one.meta], [{ name: "Bob" }, ["red"], { n: 3 }]);
  return db;
}

async function questions(db, { author, post, tagged }) {
  const sums = await db.select({ rank: post.rank, sum: d.sum(post.price), n: d.count() }).from(post).groupBy(post.rank).having(d.gt(d.count(), 10)).orderBy(d.desc(post.rank));
  same([sums.length, sums[0]], [5, { rank: 4, sum: "9090.000", n: 60 }]);
  same(await db.$count(post, d.and(d.ilike(post.title, "POST 1%"), d.between(post.price, "5", "150"))), 61);
  same((await db.select({ t: post.title, a: author.name, tag: tagged.tag }).from(post).innerJoin(author, d.eq(author.id, post.authorId)).leftJoin(tagged, d.eq(tagged.postId, post.id)).where(d.inArray(post.title, ["one", "post 1"])).orderBy(post.id)).length, 2);
  const ranked = db.$with("ranked").as(db.select({ title: post.title, place: d.sql`row_number() over (partition by ${post.rank} order by ${post.price} desc)`.as("place") }).from(post));
  same((await db.with(ranked).select().from(ranked).where(d.eq(ranked.place, 1))).length, 6);
  same((await db.select({ rank: post.rank }).from(post).where(d.exists(db.select().from(tagged).where(d.eq(tagged.postId, post.id)))).union(db.select({ rank: post.rank }).from(post).where(d.eq(post.rank, 7)))).length, 6);
  same((await db.selectDistinctOn([post.rank], { rank: post.rank, title: post.title }).from(post).orderBy(post.rank, d.desc(post.price)))[0], { rank: 0, title: "post 295" });
  same((await db.execute(d.sql`select ${post.meta} ->> 'n' as n from ${post} where ${post.title} = ${"post 7"}`)).rows, [{ n: "7" }]);
  const prepared = db.select({ id: post.id }).from(post).where(d.eq(post.title, d.sql.placeholder("title"))).prepare("by_title");
  for (let n = 0; n < 10; n++) same((await prepared.execute({ title: `post ${n}` })).length, 1);
}

async function writers(db, { author, post }) {
  await db.insert(author).values([{ name: "Bob", born: "1999-12-31" }, { name: "Cid" }]).onConflictDoUpdate({ target: author.name, set: { born: d.sql`excluded.born` } });
  await db.insert(author).values({ name: "Cid" }).onConflictDoNothing();
  same((await db.update(post).set({ price: d.sql`${post.price} + 1` }).where(d.eq(post.rank, 3)).returning({ id: post.id })).length, 60);
  await fails(db.transaction(async (tx) => { await tx.delete(post); tx.rollback(); }));
  await db.transaction(async (tx) => {
    await tx.insert(author).values({ name: "Dora" });
    await fails(tx.transaction((inner) => inner.insert(author).values({ name: "Ann" })));
    same((await tx.select().from(post).where(d.eq(post.rank, 1)).limit(3).for("update", { skipLocked: true })).length, 3);
    await tx.select().from(post).innerJoin(author, d.eq(author.id, post.authorId)).where(d.eq(author.name, "Ann")).for("no key update", { of: post });
  }, { isolationLevel: "repeatable read" });
  same(await db.$count(author), 4);
  same((await db.delete(author).where(d.eq(author.name, "Bob")).returning()).length, 1);
  same(await db.$count(post), 1);
}

scripted(async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "drizzle-"));
  const pool = new pg.Pool({ max: 4 });
  const gone = "drop view if exists dz_titles; drop table if exists dz_tagged, dz_post, dz_author; drop schema if exists drizzle cascade";
  try {
    await pool.query(gone);
    const tables = await migrated(folder, pool);
    const db = await families(pool, tables);
    await questions(db, tables);
    await writers(db, tables);
    await pool.query(gone);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
  return `Drizzle ${require("./package.json").dependencies["drizzle-orm"]}`;
});
