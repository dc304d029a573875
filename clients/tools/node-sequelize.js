// Sequelize: sync in all its forms, models and associations, queries, and its query interface.

const { fails, missing, same, scripted } = require("./node-common");
const [{ DataTypes: T, Op, Sequelize, Transaction }] = missing("Sequelize", "sequelize", "pg");

function models(db, second) {
  const Author = db.define("Author", {
    name: { type: T.STRING(40), allowNull: false, unique: true },
    born: { type: T.DATEONLY, comment: "at home" },
  }, { tableName: "sq_author", comment: "who writes" });
  const Post = db.define("Post", {
    id: { type: T.BIGINT, primaryKey: true, autoIncrement: true },
    title: { type: second ? T.STRING(200) : T.TEXT, allowNull: false },
    price: { type: T.DECIMAL(second ? 12 : 8, second ? 3 : 2), defaultValue: 0, allowNull: !second },
    weight: T.DOUBLE,
    printed: { type: T.BOOLEAN, allowNull: false, defaultValue: false },
    key: { type: T.UUID, defaultValue: T.UUIDV4 },
    meta: T.JSONB,
    raw: T.BLOB,
    words: T.ARRAY(T.TEXT),
    alarm: T.TIME,
    ...(second ? { rank: { type: T.INTEGER, allowNull: false, defaultValue: 7 } } : {}),
  }, {
    tableName: "sq_post", version: true, paranoid: true, underscored: true,
    indexes: [
      { unique: true, fields: ["author_id", "title"], name: "sq_post_once" },
      { fields: ["price", "printed"], name: "sq_post_by_price" },
    ],
  });
  const Tag = db.define("Tag", { word: { type: T.STRING, primaryKey: true } }, { tableName: "sq_tag", timestamps: false });
  Author.hasMany(Post, { foreignKey: { name: "authorId", field: "author_id" }, onDelete: "CASCADE" });
  Post.belongsTo(Author, { foreignKey: { name: "authorId", field: "author_id" } });
  Author.belongsTo(Author, { as: "editor" });
  Post.belongsToMany(Tag, { through: "sq_tagged", timestamps: false });
  Tag.belongsToMany(Post, { through: "sq_tagged", timestamps: false });
  return { Author, Post, Tag };
}

async function synced(db) {
  let { Author, Post } = models(db, false);
  await db.sync({ force: true });
  await db.sync();
  const ann = await Author.create({ name: "Ann", born: "1980-01-31" });
  await ann.createPost({ title: "one", price: "1.25", words: ["it's", "b"], raw: Buffer.from([0, 255]), meta: { a: [1, null] }, alarm: "07:30:00" });
  const all = models(db, true);
  await db.sync({ alter: true });
  await db.sync({ alter: true });
  const post = await all.Post.findOne({ include: all.Author });
  same([post.title, post.price, post.rank, post.words, [...post.raw], post.meta, post.alarm, post.Author.name],
    ["one", "1.250", 7, ["it's", "b"], [0, 255], { a: [1, null] }, "07:30:00", "Ann"]);
  return all;
}

async function families({ Author, Post, Tag }) {
  await Tag.bulkCreate([{ word: "red" }, { word: "green" }]);
  const bob = await Author.create({ name: "Bob", Posts: [{ title: "one", Tags: [{ word: "blue" }] }, { title: "two" }] }, { include: [{ model: Post, include: [Tag] }] });
  await bob.setEditor(await Author.findOne({ where: { name: "Ann" } }));
  await bob.Posts[1].setTags(["red", "green"]);
  await bob.Posts[1].addTags(["red", "blue"]);
  await bob.Posts[1].removeTag("red");
  same((await bob.Posts[1].getTags({ order: ["word"] })).map((tag) => tag.word), ["blue", "green"]);
  await Post.bulkCreate(Array.from({ length: 300 }, (_, n) => ({ authorId: bob.id, title: `post ${n}`, price: n, rank: n % 5, meta: { n, a: { b: n % 3 } }, words: [`w${n % 2}`] })), { returning: true });
  const found = await Author.findAll({ include: [{ model: Post, include: Tag, where: { price: { [Op.lt]: 5 } }, separate: false }, { model: Author, as: "editor" }], order: [["name", "ASC"], [Post, "id", "DESC"]] });
  same(found.map((author) => [author.name, author.Posts.length, author.editor && author.editor.name]), [["Ann", 1, null], ["Bob", 7, "Ann"]]);
  same((await Post.findAndCountAll({ include: [{ model: Author, required: true }], limit: 7, offset: 3, order: ["id"], distinct: true })).count, 303);
}

async function questions(db, { Author, Post }) {
  same(await Post.count({ where: { [Op.or]: [{ title: { [Op.iLike]: "POST 1%" } }, { price: { [Op.between]: [250, 259] } }], rank: { [Op.in]: [0, 1] } } }), 49);
  same(await Post.count({ where: { "meta.a.b": 1 } }), 100);
  same(await Post.count({ where: { meta: { [Op.contains]: { n: 7 } } } }), 1);
  same(await Post.count({ where: { words: { [Op.overlap]: ["w1", "x"] } } }), 150);
  same(await Post.count({ where: { title: { [Op.regexp]: "^post [0-9]$" } } }), 10);
  same(await Post.max("price"), 299);
  const sums = await Post.findAll({ attributes: ["rank", [db.fn("SUM", db.col("price")), "sum"], [db.fn("COUNT", "*"), "n"]], group: ["rank"], having: db.where(db.fn("COUNT", "*"), Op.gt, 10), order: [["rank", "DESC"]], raw: true });
  same([sums[0], sums.length], [{ rank: 4, sum: "9090.000", n: "60" }, 5]);
  const newest = db.literal('(select max(p.price) from sq_post p where p.author_id = "Author"."id")');
  same((await Author.findAll({ attributes: ["name", [newest, "most"]], order: [["name", "DESC"]], raw: true })), [{ name: "Bob", most: "299.000" }, { name: "Ann", most: "1.250" }]);
  same(await db.query("select count(*)::int as n from sq_post where rank = :rank and author_id = $1".replace("$1", ":id"), { replacements: { rank: 1, id: 2 }, type: "SELECT" }), [{ n: 60 }]);
  same(await db.query("select $1::int + $2 as n", { bind: [1, 2], type: "SELECT" }), [{ n: 3 }]);
}

async function writers(db, { Author, Post }) {
  const [author, made] = await Author.findCreateFind({ where: { name: "Cid" }, defaults: { born: "1999-12-31" } });
  same([author.name, made, (await Author.findCreateFind({ where: { name: "Cid" } }))[1]], ["Cid", true, false]);
  await Author.upsert({ name: "Cid", born: "2001-01-01" });
  same((await Author.findOne({ where: { name: "Cid" } })).born, "2001-01-01");
  same((await Post.update({ price: db.literal("price + 1") }, { where: { rank: 3 }, returning: true }))[0], 60);
  await Post.increment({ price: 2 }, { where: { title: "post 5" } });
  await Author.bulkCreate([{ name: "Cid" }, { name: "Dora" }], { ignoreDuplicates: true });
  await Author.bulkCreate([{ name: "Dora", born: "1970-01-01" }], { updateOnDuplicate: ["born"], conflictAttributes: ["name"] });
  const post = await Post.findOne({ where: { title: "post 9" } });
  const other = await Post.findByPk(post.id);
  await post.update({ price: 1 });
  same((await fails(other.update({ price: 2 }))).name, "SequelizeOptimisticLockError");
  await post.destroy();
  same([await Post.count({ where: { id: post.id } }), await Post.count({ where: { id: post.id }, paranoid: false })], [0, 1]);
  await post.restore();
  const error = await fails(Author.create({ name: "Ann" }));
  same([error.name, error.errors[0].path, error.fields], ["SequelizeUniqueConstraintError", "name", { name: "Ann" }]);
  same((await fails(Post.create({ title: "x", authorId: 999 }))).name, "SequelizeForeignKeyConstraintError");
  await db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.REPEATABLE_READ }, async (transaction) => {
    const locked = await Post.findAll({ where: { rank: 1 }, limit: 3, lock: Transaction.LOCK.UPDATE, skipLocked: true, transaction });
    same(locked.length, 3);
    await Post.findOne({ include: { model: Author, required: true }, lock: { level: Transaction.LOCK.KEY_SHARE, of: Post }, transaction });
    await fails(db.transaction({ transaction }, async (inner) => Author.create({ name: "Ann" }, { transaction: inner })));
    await Author.create({ name: "Eve" }, { transaction });
  });
  await fails(db.transaction(async (transaction) => { await Post.destroy({ where: {}, force: true, transaction }); throw new Error("no"); }));
  same(await Post.count(), 303);
  await Author.destroy({ where: { name: "Bob" } });
  same(await Post.count(), 1);
}

async function interfaces(db) {
  const it = db.getQueryInterface();
  same((await it.showAllTables()).filter((name) => name.startsWith("sq_")).sort(), ["sq_author", "sq_post", "sq_tag", "sq_tagged"]);
  const columns = await it.describeTable("sq_post");
  same([columns.id.primaryKey, columns.title.type, columns.price.allowNull, columns.rank.defaultValue, columns.words.type],
    [true, "CHARACTER VARYING(200)", false, "7", "ARRAY"]);
  same((await it.showIndex("sq_post")).map((index) => [index.name, index.unique, index.primary]).sort(),
    [["sq_post_by_price", false, false], ["sq_post_once", true, false], ["sq_post_pkey", true, true]]);
  same((await it.getForeignKeyReferencesForTable("sq_tagged")).map((key) => key.referencedTableName).sort(), ["sq_post", "sq_tag"]);
  await it.addColumn("sq_tag", "color", { type: T.STRING(9), defaultValue: "none", allowNull: false });
  await it.changeColumn("sq_tag", "color", { type: T.TEXT, allowNull: true, defaultValue: null });
  await it.renameColumn("sq_tag", "color", "hue");
  await it.bulkUpdate("sq_tag", { hue: null }, {});
  await it.addIndex("sq_tag", ["hue"], { name: "sq_tag_hues", unique: true });
  await it.addConstraint("sq_tag", { fields: ["hue"], type: "check", where: { hue: { [Op.ne]: "grey" } }, name: "sq_tag_hue" });
  await it.removeConstraint("sq_tag", "sq_tag_hue");
  await it.removeIndex("sq_tag", "sq_tag_hues");
  await it.removeColumn("sq_tag", "hue");
  await it.renameTable("sq_tag", "sq_word");
  await it.dropTable("sq_word", { cascade: true });
}

scripted(async () => {
  const db = new Sequelize({ dialect: "postgres", host: process.env.PGHOST, port: +process.env.PGPORT, username: process.env.PGUSER, database: process.env.PGDATABASE, logging: false });
  await db.authenticate();
  await db.query("drop table if exists sq_tagged, sq_word, sq_tag, sq_post, sq_author");
  const all = await synced(db);
  await families(all);
  await questions(db, all);
  await writers(db, all);
  await interfaces(db);
  await db.drop({ cascade: true });
  await db.close();
  return `Sequelize ${require("sequelize/package.json").version}`;
});
