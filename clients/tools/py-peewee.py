"""peewee: models, its migrator for columns, and its inspection of existing tables."""

import datetime
import decimal
import os
import sys
import uuid

try:
    import peewee
    from playhouse.migrate import PostgresqlMigrator, migrate
    from playhouse.postgres_ext import ArrayField, BinaryJSONField, PostgresqlExtDatabase, ServerSide
    from playhouse.reflection import Introspector
except ImportError:
    print("peewee is not installed (pip install peewee psycopg2-binary)")
    sys.exit(77)

db = PostgresqlExtDatabase(os.environ["PGDATABASE"], user=os.environ["PGUSER"], host=os.environ["PGHOST"],
    port=int(os.environ["PGPORT"]))


class Model(peewee.Model):
    class Meta:
        database = db
        legacy_table_names = False


class PwAuthor(Model):
    name = peewee.CharField(max_length=40, unique=True)
    born = peewee.DateField(null=True)


class PwPost(Model):
    author = peewee.ForeignKeyField(PwAuthor, backref="posts", on_delete="CASCADE")
    title = peewee.TextField(index=True)
    price = peewee.DecimalField(max_digits=8, decimal_places=2, null=True)
    weight = peewee.DoubleField(default=0.5)
    key = peewee.UUIDField(default=uuid.uuid4)
    meta = BinaryJSONField(default=dict, index=False)
    words = ArrayField(peewee.TextField, null=True, index=False)
    raw = peewee.BlobField(null=True)
    printed = peewee.BooleanField(default=False, constraints=[peewee.SQL("default false")])
    written = peewee.DateTimeField(default=datetime.datetime.now)

    class Meta:
        indexes = ((("author", "title"), True),)
        constraints = [peewee.Check("price >= 0")]


class PwTag(Model):
    word = peewee.CharField(primary_key=True)


class PwTagged(Model):
    post = peewee.ForeignKeyField(PwPost)
    tag = peewee.ForeignKeyField(PwTag)

    class Meta:
        primary_key = peewee.CompositeKey("post", "tag")


TABLES = [PwAuthor, PwPost, PwTag, PwTagged]


def same(found, wanted):
    assert found == wanted, f"found {found!r} instead of {wanted!r}"


def rows_of_all_kinds():
    ann = PwAuthor.create(name="Ann", born=datetime.date(1980, 1, 31))
    moment = datetime.datetime(2024, 2, 29, 12, 30, 0, 7)
    post = PwPost.create(author=ann, title="one", price=decimal.Decimal("1.25"), meta={"a": [1, None]}, words=["it's", "b"],
        raw=b"\x00\xff", written=moment)
    found = PwPost.get_by_id(post.id)
    same((found.price, found.meta, found.words, bytes(found.raw)), (decimal.Decimal("1.25"), {"a": [1, None]}, ["it's", "b"], b"\x00\xff"))
    same((found.key, found.written, found.author.name, found.weight), (post.key, moment, "Ann", 0.5))
    with db.atomic():
        for rows in peewee.chunked(({"author": ann, "title": f"post {n}", "price": n, "meta": {"n": n}} for n in range(250)), 100):
            PwPost.insert_many(rows).execute()
    same(PwPost.select().count(), 251)
    same(PwAuthor.get_or_create(name="Ann")[1], False)
    PwTag.insert_many([{"word": word} for word in ("red", "green")]).execute()
    PwTag.insert(word="red").on_conflict_ignore().execute()
    PwTagged.insert_from(PwPost.select(PwPost.id, peewee.Value("red")).where(PwPost.price < 9), [PwTagged.post, PwTagged.tag]).execute()
    same(PwTagged.select().count(), 10)


def questions():
    query = (PwAuthor.select(PwAuthor.name, peewee.fn.COUNT(PwPost.id).alias("n"), peewee.fn.SUM(PwPost.price).alias("s"))
        .join(PwPost).group_by(PwAuthor.name).having(peewee.fn.COUNT(PwPost.id) > 1))
    same(list(query.tuples()), [("Ann", 251, decimal.Decimal("31126.25"))])
    same(PwPost.select().where((PwPost.title ** "POST 1%") | (PwPost.title.in_(["one", "x"]))).count(), 112)
    same(PwPost.select().where(PwPost.title.regexp("^post [0-9]$") & PwPost.price.between(2, 5)).count(), 4)
    same(PwPost.select().where(PwPost.meta.contains({"n": 7})).count(), 1)
    same(PwPost.select().where(PwPost.words.contains("b")).count(), 1)
    same(len(peewee.prefetch(PwAuthor.select(), PwPost.select(), PwTagged.select())[0].posts), 251)
    place = peewee.fn.ROW_NUMBER().over(partition_by=[PwPost.author], order_by=[PwPost.price.desc()]).alias("place")
    best = PwPost.select(PwPost.title, place).alias("best")
    same(list(PwPost.select(best.c.title).from_(best).where(best.c.place == 1).tuples()), [("post 249",)])
    with db.atomic():
        same(sum(1 for _ in ServerSide(PwPost.select().order_by(PwPost.id), array_size=50)), 251)


def writers():
    same(PwPost.update(price=PwPost.price + 1).where(PwPost.price == 7).execute(), 1)
    same([post.title for post in PwPost.update(weight=2).where(PwPost.price == 9).returning(PwPost)], ["post 9"])
    PwAuthor.insert(name="Ann", born="1999-01-01").on_conflict(conflict_target=[PwAuthor.name],
        update={PwAuthor.born: peewee.EXCLUDED.born}).execute()
    same(PwAuthor.get(PwAuthor.name == "Ann").born, datetime.date(1999, 1, 1))
    some = list(PwPost.select().order_by(PwPost.id).limit(20))
    for post in some:
        post.title += "!"
    same(PwPost.bulk_update(some, fields=[PwPost.title], batch_size=7), 20)
    with db.atomic():
        list(PwPost.select().where(PwPost.price < 5).for_update("FOR UPDATE", nowait=True))
        try:
            with db.atomic():
                PwAuthor.create(name="Ann")
        except peewee.IntegrityError:
            pass
        PwAuthor.create(name="Bob")
    same(PwAuthor.select().count(), 2)
    PwTagged.delete().execute()
    same(PwAuthor.get(name="Ann").delete_instance(recursive=True), 1)
    same(PwPost.select().count(), 0)


def altered_and_looked_at():
    migrator = PostgresqlMigrator(db)
    migrate(
        migrator.add_column("pw_post", "rank", peewee.IntegerField(default=7)),
        migrator.add_column("pw_post", "editor_id", peewee.ForeignKeyField(PwAuthor, PwAuthor.id, null=True)),
        migrator.rename_column("pw_post", "weight", "mass"),
        migrator.drop_not_null("pw_post", "mass"),
        migrator.alter_column_type("pw_post", "title", peewee.CharField(max_length=99)),
        migrator.add_not_null("pw_author", "born"),
        migrator.drop_column("pw_post", "raw"),
        migrator.add_index("pw_post", ("rank", "title"), True),
        migrator.drop_index("pw_post", "pw_post_title"),
        migrator.add_column_default("pw_post", "rank", 8),
        migrator.rename_table("pw_tag", "pw_word"))
    models = Introspector.from_database(db).generate_models(table_names=["pw_author", "pw_post", "pw_word", "pw_tagged"])
    fields = {name: type(field).__name__ for name, field in models["pw_post"]._meta.fields.items()}
    same([fields[name] for name in ("id", "author", "editor", "title", "price", "mass", "key", "meta", "rank", "written")],
        ["AutoField", "ForeignKeyField", "ForeignKeyField", "CharField", "DecimalField", "DoubleField", "UUIDField",
            "BinaryJSONField", "IntegerField", "DateTimeField"])
    same(sorted(index.columns for index in db.get_indexes("pw_post") if index.unique),
        [["author_id", "title"], ["id"], ["rank", "title"]])
    same([(key.column, key.dest_table) for key in sorted(db.get_foreign_keys("pw_post"))],
        [("author_id", "pw_author"), ("editor_id", "pw_author")])
    same(db.get_primary_keys("pw_tagged"), ["post_id", "tag_id"])
    same(db.sequence_exists("pw_post_id_seq"), True)


db.execute_sql("drop table if exists pw_tagged, pw_tag, pw_word, pw_post, pw_author")
db.create_tables(TABLES)
db.create_tables(TABLES)
for part in (rows_of_all_kinds, questions, writers):
    part()
db.execute_sql("delete from pw_author")
altered_and_looked_at()
db.execute_sql("drop table pw_tagged, pw_word, pw_post, pw_author")
print(f"peewee {peewee.__version__} over psycopg2")
