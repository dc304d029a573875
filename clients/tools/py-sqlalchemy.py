"""SQLAlchemy 2 over psycopg, psycopg2 and asyncpg: tables of all kinds, sessions, and its inspector."""

import asyncio
import datetime
import decimal
import os
import sys
import uuid

try:
    import sqlalchemy as sa
    from sqlalchemy import orm
    from sqlalchemy.dialects import postgresql as pg
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
except ImportError:
    print("SQLAlchemy is not installed (pip install sqlalchemy)")
    sys.exit(77)


class Base(orm.DeclarativeBase):
    pass


tagged = sa.Table("sa_tagged", Base.metadata,
    sa.Column("post_id", sa.ForeignKey("sa_post.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag_id", sa.ForeignKey("sa_tag.id"), primary_key=True))


class Author(Base):
    """An author has posts, and an author who reads them first."""
    __tablename__ = "sa_author"
    __table_args__ = (sa.CheckConstraint("length(name) > 0", name="sa_named"), {"comment": "who writes"})
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), unique=True, comment="as printed")
    born: orm.Mapped[datetime.date | None]
    editor_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey("sa_author.id"))
    editor: orm.Mapped["Author | None"] = orm.relationship(remote_side=[id])
    posts: orm.Mapped[list["Post"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Post(Base):
    __tablename__ = "sa_post"
    __table_args__ = (
        sa.Index("sa_post_by_author", "author_id", sa.text("written DESC")),
        sa.Index("sa_post_titles", "title", "price"),
        sa.UniqueConstraint("author_id", "title", name="sa_post_once"))
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(always=True, start=100), primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("sa_author.id", name="sa_post_author",
        deferrable=True, initially="DEFERRED"))
    title: orm.Mapped[str]
    printed: orm.Mapped[bool] = orm.mapped_column(server_default=sa.false())
    price: orm.Mapped[decimal.Decimal | None] = orm.mapped_column(sa.Numeric(8, 2))
    gross: orm.Mapped[decimal.Decimal | None] = orm.mapped_column(sa.Numeric, sa.Computed("price * 2", persisted=True))
    weight: orm.Mapped[float | None]
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    meta: orm.Mapped[dict | None] = orm.mapped_column(pg.JSONB)
    raw: orm.Mapped[bytes | None]
    words: orm.Mapped[list[str] | None] = orm.mapped_column(pg.ARRAY(sa.Text))
    took: orm.Mapped[datetime.timedelta | None]
    alarm: orm.Mapped[datetime.time | None]
    written: orm.Mapped[datetime.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    version: orm.Mapped[int] = orm.mapped_column()
    author: orm.Mapped[Author] = orm.relationship(back_populates="posts")
    tags: orm.Mapped[list["Tag"]] = orm.relationship(secondary=tagged, order_by="Tag.word")
    __mapper_args__ = {"version_id_col": version}


class Tag(Base):
    __tablename__ = "sa_tag"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    word: orm.Mapped[str] = orm.mapped_column(unique=True)


def same(found, wanted):
    assert found == wanted, f"found {found!r} instead of {wanted!r}"


def made_twice(engine):
    """`create_all` looks for each table before it creates it; `drop_all` likewise."""
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    same(sa.inspect(engine).has_table("sa_post"), True)
    same(sa.inspect(engine).has_table("sa_nowhere"), False)


def families(engine):
    """Related objects are inserted in the right order, in few statements, and get their keys."""
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
    with orm.Session(engine) as session:
        words = [Tag(word=word) for word in ("blue", "green", "red")]
        ann = Author(name="Ann", born=datetime.date(1980, 1, 31))
        bob = Author(name="Bob", editor=ann)
        for author in (ann, bob):
            for number in range(20):
                author.posts.append(Post(title=f"post {number}", price=decimal.Decimal("1.25") * number, weight=0.1,
                    printed=number > 0 or author is bob, meta={"number": number, "who": {"name": author.name}},
                    raw=b"\x00\xff", words=["it's", None, '"'], took=datetime.timedelta(days=1, seconds=1),
                    alarm=datetime.time(7, 30), written=moment, tags=words[: number % 4]))
        session.add_all([ann, bob])
        session.commit()
        assert bob.posts[0].id >= 100 and len({post.id for post in ann.posts + bob.posts}) == 40

    with orm.Session(engine) as session:
        query = sa.select(Post).join(Post.author).where(Author.name == "Bob", Post.title == "post 3")
        post = session.scalars(query).one()
        same((post.price, post.gross, post.weight), (decimal.Decimal("3.75"), decimal.Decimal("7.50"), 0.1))
        same((post.meta, post.raw), ({"number": 3, "who": {"name": "Bob"}}, b"\x00\xff"))
        same((post.words, post.took), (["it's", None, '"'], datetime.timedelta(days=1, seconds=1)))
        same((post.alarm, post.written), (datetime.time(7, 30), moment))
        same([tag.word for tag in post.tags], ["blue", "green", "red"])
        same(post.author.editor.name, "Ann")
        for loading in (orm.selectinload, orm.joinedload, orm.subqueryload):
            query = sa.select(Author).options(loading(Author.posts).selectinload(Post.tags)).order_by(Author.name)
            ann, bob = session.scalars(query.execution_options(populate_existing=True)).unique()
            same([sum(len(post.tags) for post in author.posts) for author in (ann, bob)], [30, 30])


def questions(engine):
    """The forms of queries of its expression language."""
    with orm.Session(engine) as session:
        per_author = (sa.select(Author.name, sa.func.count(Post.id), sa.func.sum(Post.price)).join(Author.posts)
            .group_by(Author.name).having(sa.func.count() > 1).order_by(Author.name))
        same(session.execute(per_author).all()[0], ("Ann", 20, decimal.Decimal("237.50")))
        rank = sa.func.row_number().over(partition_by=Post.author_id, order_by=Post.price.desc()).label("rank")
        best = sa.select(Post.title, rank).cte("best")
        same(session.scalars(sa.select(best.c.title).where(best.c.rank == 1)).all(), ["post 19"] * 2)
        same(session.scalar(sa.select(sa.func.count()).where(Post.meta["who"]["name"].astext == "Ann")), 20)
        same(session.scalar(sa.select(sa.func.count()).where(Post.meta.contains({"number": 3}))), 2)
        same(session.scalar(sa.select(sa.func.count()).where(Post.words.any("it's"))), 40)
        same(session.scalar(sa.select(sa.exists(sa.select(Author.id).where(Author.posts.any(Post.price > 20))))), True)
        same(session.scalar(sa.select(sa.func.count()).where(Post.title.in_(["post 1", "post 2"]))), 4)
        same(session.scalar(sa.select(sa.func.count()).where(Post.title.ilike("POST 1%"))), 22)
        same(session.scalar(sa.select(sa.extract("year", Post.written)).limit(1)), 2024)
        edited = sa.select(Author.id, sa.literal(0).label("depth")).where(Author.name == "Ann").cte(recursive=True)
        edited = edited.union_all(sa.select(Author.id, edited.c.depth + 1).join(edited, Author.editor_id == edited.c.id))
        same(session.scalar(sa.select(sa.func.max(edited.c.depth))), 1)
        inner = sa.select(Post.title).where(Post.author_id == Author.id).order_by(Post.price.desc()).limit(1)
        beside = inner.lateral("newest")
        same(len(session.execute(sa.select(Author.name, beside.c.title).join(beside, sa.true())).all()), 2)
        pages = session.scalars(sa.select(Post).order_by(Post.id).execution_options(yield_per=7))
        same([len(page) for page in pages.partitions()], [7, 7, 7, 7, 7, 5])
        # Rows after a page: a row of columns is compared as one value.
        after = sa.tuple_(Post.author_id, Post.title) > sa.tuple_(sa.literal(1), sa.literal("post 8"))
        assert session.scalar(sa.select(sa.func.count()).where(after)) >= 21


def writers(engine):
    """Upserts, bulk statements, RETURNING, locks, savepoints, and the detection of concurrent changes."""
    with orm.Session(engine) as session:
        upsert = pg.insert(Tag).values([{"word": "red"}, {"word": "white"}])
        upsert = upsert.on_conflict_do_update(index_elements=[Tag.word], set_={"word": upsert.excluded.word + "!"})
        same(sorted(session.scalars(upsert.returning(Tag.word))), ["red!", "white"])
        session.execute(pg.insert(Tag).values(word="white").on_conflict_do_nothing())
        session.execute(sa.insert(Tag), [{"word": f"word {number}"} for number in range(1500)])
        same(session.scalar(sa.select(sa.func.count(Tag.id))), 1504)
        session.execute(sa.delete(Tag).where(Tag.word.like("word %")))
        changed = sa.update(Post).where(Post.price > 20).values(printed=True, price=Post.price + 1).returning(Post.price)
        assert all(price > 21 for price in session.scalars(changed))
        session.commit()

        session.scalars(sa.select(Post).where(Post.price > 20).with_for_update(skip_locked=True)).all()
        session.scalars(sa.select(Post).options(orm.joinedload(Post.author)).with_for_update(of=Post, key_share=True)).all()
        session.commit()
        try:
            with session.begin_nested():
                session.add(Tag(word="blue"))
        except sa.exc.IntegrityError as error:
            assert "sa_tag_word_key" in str(error), error
        session.add(Tag(word="yellow"))
        session.commit()

    with orm.Session(engine) as one, orm.Session(engine) as two:
        mine, yours = (session.scalars(sa.select(Post).order_by(Post.id).limit(1)).one() for session in (one, two))
        mine.title = "changed"
        one.commit()
        yours.title = "changed as well"
        try:
            two.commit()
            raise AssertionError("the concurrent change of the row was not detected")
        except orm.exc.StaleDataError:
            two.rollback()
        one.delete(one.scalars(sa.select(Author).where(Author.name == "Bob")).one())
        one.commit()
        same(one.scalar(sa.select(sa.func.count(Post.id))), 20)


def inspected(engine):
    """Its inspector finds the tables as they were created."""
    found = sa.inspect(engine)
    same(found.default_schema_name, "public")
    assert {"public", "information_schema"} <= set(found.get_schema_names()), found.get_schema_names()
    columns = {column["name"]: column for column in found.get_columns("sa_post")}
    same([columns[name]["type"].compile(engine.dialect) for name in ("id", "title", "price", "meta", "words", "took", "written", "key")],
        ["BIGINT", "VARCHAR", "NUMERIC(8, 2)", "JSONB", "TEXT[]", "INTERVAL", "TIMESTAMP WITH TIME ZONE", "UUID"])
    same((columns["id"]["identity"]["always"], columns["id"]["identity"]["start"]), (True, 100))
    same((columns["written"]["default"], columns["printed"]["default"]), ("now()", "false"))
    assert "price" in columns["gross"]["computed"]["sqltext"] and columns["gross"]["computed"]["persisted"]
    same([column["nullable"] for column in (columns["title"], columns["price"])], [False, True])
    same(found.get_columns("sa_author")[0]["default"], "nextval('sa_author_id_seq'::regclass)")
    same(found.get_pk_constraint("sa_tagged")["constrained_columns"], ["post_id", "tag_id"])
    keys = {key["referred_table"]: key for key in found.get_foreign_keys("sa_tagged")}
    same((keys["sa_post"]["options"], keys["sa_tag"]["options"]), ({"ondelete": "CASCADE"}, {}))
    same(found.get_foreign_keys("sa_post")[0]["options"], {"deferrable": True, "initially": "DEFERRED"})
    indexes = {index["name"]: index for index in found.get_indexes("sa_post")}
    same(indexes["sa_post_titles"]["column_names"], ["title", "price"])
    same(indexes["sa_post_once"]["duplicates_constraint"], "sa_post_once")
    same([one["column_names"] for one in found.get_unique_constraints("sa_post")], [["author_id", "title"]])
    same([one["name"] for one in found.get_check_constraints("sa_author")], ["sa_named"])
    same((found.get_table_comment("sa_author")["text"], found.get_columns("sa_author")[1]["comment"]),
        ("who writes", "as printed"))
    with engine.begin() as connection:
        connection.execute(sa.text("create or replace view sa_titles as select title from sa_post"))
    found = sa.inspect(engine)
    assert "sa_titles" in found.get_view_names() and "title" in found.get_view_definition("sa_titles")
    assert "sa_author_id_seq" in found.get_sequence_names()

    again = sa.MetaData()
    again.reflect(engine, only=lambda name, _: name.startswith("sa_"), views=True)
    same(sorted(again.tables), ["sa_author", "sa_post", "sa_tag", "sa_tagged", "sa_titles"])
    same([table.name for table in again.sorted_tables if table.name in ("sa_author", "sa_post", "sa_tagged")],
        ["sa_author", "sa_post", "sa_tagged"])
    with engine.connect() as connection:
        assert connection.execute(again.tables["sa_post"].select()).first()
    with engine.begin() as connection:
        connection.execute(sa.text("drop view sa_titles"))


def in_another_schema(engine):
    """A schema outside of the search path, whose tables refer to each other."""
    there = sa.MetaData(schema="sa_other")
    parent = sa.Table("parent", there, sa.Column("id", sa.Integer, primary_key=True))
    sa.Table("child", there, sa.Column("id", sa.Integer, sa.Sequence("child_numbers", metadata=there), primary_key=True),
        sa.Column("parent_id", sa.ForeignKey(parent.c.id)))
    with engine.begin() as connection:
        connection.execute(sa.schema.DropSchema("sa_other", cascade=True, if_exists=True))
        connection.execute(sa.schema.CreateSchema("sa_other"))
        there.create_all(connection)
        connection.execute(parent.insert(), {"id": 1})
        same(connection.execute(there.tables["sa_other.child"].insert(), {"parent_id": 1}).inserted_primary_key, (1,))
    found = sa.inspect(engine)
    same(sorted(found.get_table_names("sa_other")), ["child", "parent"])
    same(found.get_foreign_keys("child", "sa_other")[0]["referred_schema"], "sa_other")
    there.drop_all(engine)


def levels(engine):
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            same(connection.get_isolation_level(), level if level != "AUTOCOMMIT" else "READ COMMITTED")
            connection.execute(sa.select(1))


async def asynchronous(url):
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
        await connection.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine, expire_on_commit=False) as session:
        cid = Author(name="Cid", posts=[Post(title=f"post {n}", meta={"n": n}, words=["a"]) for n in range(50)])
        session.add(cid)
        await session.commit()
        posts = (await session.stream_scalars(sa.select(Post).order_by(Post.id)))
        same([post.meta["n"] async for post in posts], list(range(50)))
        same(await session.scalar(sa.select(sa.func.count()).where(Post.meta["n"].as_integer() > 40)), 9)
    async with engine.connect() as connection:
        tables = await connection.run_sync(lambda it: sa.inspect(it).get_multi_columns(filter_names=["sa_post"]))
        same(len(tables[(None, "sa_post")]), 15)
        same(len(await connection.run_sync(lambda it: sa.inspect(it).get_foreign_keys("sa_tagged"))), 2)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
    await engine.dispose()


def address(driver):
    return sa.URL.create(f"postgresql+{driver}", os.environ["PGUSER"], host=os.environ["PGHOST"],
        port=int(os.environ["PGPORT"]), database=os.environ["PGDATABASE"])


for driver in ("psycopg", "psycopg2"):
    engine = sa.create_engine(address(driver))
    made_twice(engine)
    for part in (families, questions, writers, inspected, in_another_schema, levels):
        try:
            part(engine)
        except Exception as error:
            raise SystemExit(f"{driver}, {part.__name__}: {type(error).__name__}: {error}")
    Base.metadata.drop_all(engine)
    engine.dispose()
asyncio.run(asynchronous(address("asyncpg")))
print(f"SQLAlchemy {sa.__version__}: psycopg, psycopg2, asyncpg")
