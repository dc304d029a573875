// TypeORM: tables created and altered from entities, migrations that it writes, relations, its
// query builder.

const { fails, missing, same, scripted } = require("./node-common");
const [, { DataSource, EntitySchema, In, LessThan, Like, MoreThan, Not, IsNull }] = missing("TypeORM", "pg", "typeorm", "reflect-metadata").slice(0, 2);

function entities(second) {
  const Author = new EntitySchema({
    name: "Author", tableName: "to_author",
    columns: {
      id: { type: Number, primary: true, generated: true },
      name: { type: "varchar", length: 40, unique: true, comment: "as printed" },
      born: { type: "date", nullable: true },
      made: { type: "timestamp with time zone", createDate: true },
      gone: { type: "timestamp with time zone", deleteDate: true, nullable: true },
    },
    relations: {
      posts: { type: "one-to-many", target: "Post", inverseSide: "author", cascade: true },
      editor: { type: "many-to-one", target: "Author", nullable: true, joinColumn: { name: "editor_id" } },
    },
  });
  const Post = new EntitySchema({
    name: "Post", tableName: "to_post",
    columns: {
      id: { type: "bigint", primary: true, generated: "increment" },
      key: { type: "uuid", generated: "uuid" },
      title: { type: "text" },
      price: { type: "numeric", precision: second ? 12 : 8, scale: second ? 3 : 2, default: 0 },
      weight: { type: "double precision", nullable: true },
      printed: { type: "boolean", default: false },
      meta: { type: "jsonb", nullable: true },
      raw: { type: "bytea", nullable: true },
      words: { type: "text", array: true, nullable: true },
      alarm: { type: "time", nullable: true },
      version: { type: "integer", version: true },
      ...(second ? { rank: { type: "integer", default: 7 } } : {}),
    },
    relations: {
      author: { type: "many-to-one", target: "Author", inverseSide: "posts", onDelete: "CASCADE", nullable: second, joinColumn: { name: "author_id" } },
      tags: { type: "many-to-many", target: "Tag", cascade: true, joinTable: { name: "to_tagged" } },
    },
    uniques: [{ name: "to_post_once", columns: ["author", "title"] }],
    indices: [{ name: "to_post_by_price", columns: ["price", "printed"] }, ...(second ? [{ name: "to_post_by_rank", columns: ["rank"] }] : [])],
    checks: [{ name: "to_post_price", expression: "price >= 0" }],
  });
  const Tag = new EntitySchema({ name: "Tag", tableName: "to_tag", columns: { word: { type: "varchar", primary: true } } });
  return [Author, Post, Tag];
}

const open = (second, more) =>
  new DataSource({
    type: "postgres", host: process.env.PGHOST, port: +process.env.PGPORT, username: process.env.PGUSER,
    database: process.env.PGDATABASE, schema: "typeorm", entities: entities(second), uuidExtension: "pgcrypto",
    installExtensions: false, ...more,
  }).initialize();

async function altered() {
  let db = await open(false, { synchronize: true });
  await db.getRepository("Author").save({ name: "Ann", posts: [{ title: "one", price: "1.25", words: ["it's", "b"], raw: Buffer.from([0, 255]), meta: { a: [1, null] }, alarm: "07:30:00" }] });
  same((await db.driver.createSchemaBuilder().log()).upQueries.length, 0);
  await db.destroy();
  db = await open(true, { synchronize: true });
  const left = (await db.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query);
  same(left, []);
  const post = await db.getRepository("Post").findOne({ where: { title: "one" }, relations: { author: true } });
  same(post.author.name, "Ann");
  return db;
}

async function families(db) {
  const [authors, posts, tags] = ["Author", "Post", "Tag"].map((name) => db.getRepository(name));
  const words = await tags.save([{ word: "red" }, { word: "green" }]);
  const ann = await authors.findOneByOrFail({ name: "Ann" });
  const bob = await authors.save({ name: "Bob", editor: ann, posts: [{ title: "one", tags: words }, { title: "two", tags: [{ word: "blue" }] }] });
  await posts.insert(Array.from({ length: 300 }, (_, n) => ({ author: { id: bob.id }, title: `post ${n}`, price: n, rank: n % 5, meta: { n }, words: [`w${n % 2}`] })));
  const found = await authors.find({ relations: { posts: { tags: true }, editor: true }, where: { posts: { price: LessThan(5) } }, order: { name: "ASC", posts: { id: "DESC" } } });
  same(found.map((author) => [author.name, author.posts.length, author.editor && author.editor.name]), [["Ann", 1, null], ["Bob", 7, "Ann"]]);
  const [page, count] = await posts.findAndCount({ where: { title: Like("post 1%"), rank: In([1, 2]), author: { name: Not("Ann") } }, relations: { author: true, tags: true }, order: { id: "ASC" }, skip: 3, take: 5 });
  same([page.length, count], [5, 45]);
  same(await posts.countBy({ weight: IsNull(), price: MoreThan(290) }), 9);
  const first = await posts.findOneByOrFail({ title: "post 9" });
  first.price = 10;
  await posts.save(first);
  same((await posts.findOneByOrFail({ id: first.id })).version, 2);
  await authors.softDelete({ name: "Bob" });
  same([await authors.countBy({ name: "Bob" }), await authors.count({ where: { name: "Bob" }, withDeleted: true })], [0, 1]);
  await authors.restore({ name: "Bob" });
}

async function questions(db) {
  const posts = db.getRepository("Post");
  const sums = await posts.createQueryBuilder("p").select("p.rank", "rank").addSelect("SUM(p.price)", "sum").groupBy("p.rank").having("COUNT(*) > :n", { n: 10 }).orderBy("p.rank", "DESC").getRawMany();
  same([sums.length, sums[1]], [5, { rank: 3, sum: "9030.000" }]);
  const joined = await posts.createQueryBuilder("p").innerJoinAndSelect("p.author", "a").leftJoinAndSelect("p.tags", "t").where("a.name = :name", { name: "Bob" }).andWhere("p.meta ->> 'n' = :n OR t.word = :word", { n: "7", word: "red" }).orderBy("p.id").take(5).getMany();
  same(joined.map((post) => post.title), ["one", "post 7"]);
  const newest = db.createQueryBuilder().subQuery().select("MAX(q.price)").from("Post", "q").where("q.rank = p.rank").getQuery();
  same(await posts.createQueryBuilder("p").where(`p.price = ${newest}`).getCount(), 6);
  same((await db.createQueryBuilder().update("Post").set({ price: () => "price + 1" }).where("rank = 3").returning("id").execute()).affected, 60);
  await posts.upsert([{ title: "post 5", author: { id: 2 }, price: 99 }], { conflictPaths: ["author", "title"] });
  same((await posts.findOneByOrFail({ title: "post 5" })).price, "99.000");
  await db.createQueryBuilder().insert().into("Tag").values([{ word: "red" }, { word: "white" }]).orIgnore().execute();
  same(await db.getRepository("Tag").count(), 4);
}

async function transactions(db) {
  await db.transaction("SERIALIZABLE", async (manager) => {
    await manager.save("Author", { name: "Dora" });
    await fails(manager.transaction((inner) => inner.insert("Author", { name: "Ann" })));
    await manager.find("Post", { where: { rank: 1 }, take: 3, lock: { mode: "pessimistic_write", onLocked: "skip_locked" } });
    await manager.createQueryBuilder("Post", "p").innerJoinAndSelect("p.author", "a").setLock("pessimistic_write", undefined, ["p"]).where("a.name = 'Ann'").getMany();
    await manager.createQueryBuilder("Author", "a").setLock("for_no_key_update").getMany();
    await manager.createQueryBuilder("Author", "a").setLock("for_key_share").getMany();
  });
  same(await db.getRepository("Author").countBy({ name: "Dora" }), 1);
  same((await fails(db.getRepository("Author").insert({ name: "Ann" }))).code, "23505");
}

scripted(async () => {
  const db = await open(false, {});
  await db.query("drop schema if exists typeorm cascade");
  await db.query("create schema typeorm");
  await db.destroy();
  const changed = await altered();
  for (const part of [families, questions, transactions]) await part(changed);
  await changed.query("drop schema if exists typeorm cascade");
  await changed.destroy();
  return `TypeORM ${require("./package.json").dependencies.typeorm}`;
});
