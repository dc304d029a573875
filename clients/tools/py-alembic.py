"""Alembic: migrations that it generates from the difference between tables and classes, run up and down."""

import contextlib
import io
import os
import sys
import tempfile

try:
    import sqlalchemy as sa
    from alembic import command
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
except ImportError:
    print("Alembic is not installed (pip install alembic psycopg)")
    sys.exit(77)


def first():
    tables = sa.MetaData()
    sa.Table("al_customer", tables,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(20), nullable=False, index=True),
        sa.Column("since", sa.Date, server_default=sa.text("CURRENT_DATE")),
        sa.Column("points", sa.Integer),
        sa.Column("old", sa.Text))
    sa.Table("al_order", tables,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("customer_id", sa.ForeignKey("al_customer.id"), nullable=False),
        sa.Column("total", sa.Numeric(8, 2)))
    return tables


def second():
    tables = sa.MetaData()
    sa.Table("al_customer", tables,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("since", sa.Date, nullable=False, server_default=sa.text("CURRENT_DATE")),
        sa.Column("points", sa.BigInteger, nullable=False, server_default="0", comment="what was earned"),
        sa.Column("email", sa.String(80)),
        sa.UniqueConstraint("email", name="al_customer_email"),
        comment="who buys")
    sa.Table("al_order", tables,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("customer_id", sa.ForeignKey("al_customer.id", ondelete="CASCADE", name="al_order_customer"), nullable=False),
        sa.Column("total", sa.Numeric(12, 3)),
        sa.Column("paid", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Index("al_order_unpaid", "customer_id", "paid"))
    sa.Table("al_line", tables,
        sa.Column("order_id", sa.ForeignKey("al_order.id"), primary_key=True),
        sa.Column("number", sa.SmallInteger, primary_key=True),
        sa.Column("what", sa.Text, nullable=False))
    return tables


class Project:
    """A folder of `alembic init`, with the URL, the tables, and the comparison of defaults added."""

    def __init__(self, folder, url):
        self.config = Config(f"{folder}/alembic.ini", stdout=io.StringIO())
        self.quietly(command.init, f"{folder}/migrations")
        self.config.set_main_option("sqlalchemy.url", url)
        self.config.set_main_option("script_location", f"{folder}/migrations")
        env = f"{folder}/migrations/env.py"
        with open(env) as file:
            text = file.read().replace("fileConfig(", "(lambda _: None)(")
        assert "target_metadata = None" in text
        with open(env, "w") as file:
            text = text.replace("target_metadata = None", 'target_metadata = config.attributes["tables"]')
            file.write(text.replace("connection=connection,", "connection=connection, compare_server_default=True,"))

    def quietly(self, what, *args, **options):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            what(self.config, *args, **options)
        return said.getvalue()

    def migrates_to(self, tables, name):
        self.config.attributes["tables"] = tables
        self.quietly(command.revision, name, autogenerate=True)
        self.quietly(command.upgrade, "head")
        self.quietly(command.check)


def nothing_differs(engine, tables):
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), tables)
    assert not found, f"differs after it was migrated: {found}"


def by_hand(folder, before):
    """Changes that it does not detect: new names and types, and updates of rows in between."""
    head = 'import sqlalchemy as sa\nfrom alembic import op\nrevision = "aaaa"\ndown_revision = "%s"\n'
    body = '''
def upgrade():
    op.rename_table("al_line", "al_item")
    op.alter_column("al_item", "what", new_column_name="article")
    op.add_column("al_item", sa.Column("price", sa.Numeric(8, 2)))
    op.execute("update al_item set price = 1.5")
    op.alter_column("al_item", "price", nullable=False, server_default=sa.text("0"))
    op.alter_column("al_item", "article", type_=sa.Integer, postgresql_using="length(article)")
    op.create_check_constraint("al_item_dear", "al_item", "price >= 0")
    items = sa.table("al_item", *(sa.column(name, sa.Integer) for name in ("order_id", "number", "article")))
    op.bulk_insert(items, [{"order_id": 1, "number": n, "article": n} for n in range(2, 9)])
    op.create_index("al_item_by_price", "al_item", ["price", "number"], unique=True, if_not_exists=True)
    op.drop_index("al_item_by_price", "al_item", if_exists=True)

def downgrade():
    op.drop_constraint("al_item_dear", "al_item", type_="check")
    op.drop_column("al_item", "price")
    op.alter_column("al_item", "article", type_=sa.Text, new_column_name="what")
    op.rename_table("al_item", "al_line")
'''
    with open(f"{folder}/migrations/versions/aaaa_by_hand.py", "w") as file:
        file.write(head % before + body)


with tempfile.TemporaryDirectory() as folder:
    # In a schema of its own, because Alembic drops tables that it finds beyond the classes.
    url = sa.URL.create("postgresql+psycopg", os.environ["PGUSER"], host=os.environ["PGHOST"],
        port=int(os.environ["PGPORT"]), database=os.environ["PGDATABASE"], query={"options": "-csearch_path=alembic"})
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.schema.DropSchema("alembic", cascade=True, if_exists=True))
        connection.execute(sa.schema.CreateSchema("alembic"))
    project = Project(folder, url.render_as_string().replace("%", "%%"))

    project.migrates_to(first(), "first")
    nothing_differs(engine, first())
    with engine.begin() as connection:
        connection.execute(sa.text("insert into al_customer (name, points, old) values ('Ann', 7, 'x'), ('Bob', 8, null)"))
        connection.execute(sa.text("insert into al_order (customer_id, total) values (1, 9.75), (1, 1), (2, 2)"))
    project.migrates_to(second(), "second")
    nothing_differs(engine, second())
    with engine.begin() as connection:
        assert connection.execute(sa.text("select * from al_order where id = 1")).one()[:2] == (1, 1)
        connection.execute(sa.text("insert into al_line values (1, 1, 'a book')"))
        (before,) = connection.execute(sa.text("select version_num from alembic_version")).scalars()

    by_hand(folder, before)
    project.quietly(command.upgrade, "head")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("select * from al_item order by number")).all()
        assert rows[0] == (1, 1, 6, 1.5) and len(rows) == 8, rows
    project.quietly(command.downgrade, "-1")
    nothing_differs(engine, second())
    project.quietly(command.downgrade, "-1")
    nothing_differs(engine, first())
    project.quietly(command.upgrade, "head")
    project.quietly(command.downgrade, "base")
    assert sa.inspect(engine).get_table_names() == ["alembic_version"]
    # The same as a script, to be run with psql.
    assert "ALTER TABLE al_line RENAME TO al_item" in project.quietly(command.upgrade, "head", sql=True)
    with engine.begin() as connection:
        connection.execute(sa.schema.DropSchema("alembic", cascade=True))

import alembic
print(f"Alembic {alembic.__version__}")
