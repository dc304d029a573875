"""psycopg 3: the calls of Python programs. Connects like libpq, by PGHOST and related variables."""

import datetime
import decimal
import sys
import threading
import uuid

try:
    import psycopg
    from psycopg import errors
except ImportError:
    print("psycopg is not installed (pip install 'psycopg[binary]')")
    sys.exit(77)


def values_both_ways(db):
    db.execute("drop table if exists py_types")
    db.execute("""create table py_types (id serial primary key, i2 smallint, i4 int, i8 bigint, f float8,
        n numeric(12, 3), t text, c char(5), v varchar(9), b boolean, d date, ts timestamp, tz timestamptz,
        u uuid, raw bytea)""")
    row = (-7, 2**31 - 1, -2**63, 0.1, decimal.Decimal("-123456.789"), "naïve 日本", "ab   ", "it's", True,
        datetime.date(2024, 2, 29), datetime.datetime(1999, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), uuid.UUID(int=42), b"\x00\xff\\")
    marks = ", ".join(["%s"] * len(row))
    columns = "i2, i4, i8, f, n, t, c, v, b, d, ts, tz, u, raw"
    for binary in (False, True):
        cursor = db.cursor(binary=binary)
        cursor.execute(f"insert into py_types ({columns}) values ({marks}) returning id", row)
        (number,) = cursor.fetchone()
        cursor.execute(f"select {columns} from py_types where id = %s", (number,))
        assert cursor.fetchone() == row, (binary, row)
    nulls = (None,) * len(row)
    db.execute(f"insert into py_types ({columns}) values ({marks})", nulls)
    assert db.execute(f"select {columns} from py_types where i4 is null").fetchone() == nulls


def prepared_statements_survive_changes_of_the_table(db):
    for number in range(10):
        assert db.execute("select %s::int + 1", (number,), prepare=True).fetchone() == (number + 1,)
    db.execute("drop table if exists py_changing")
    db.execute("create table py_changing (id int primary key, v int)")
    insert = "insert into py_changing values (%s, %s)"
    db.execute(insert, (1, 1), prepare=True)
    db.execute("create index on py_changing (v)")
    db.execute(insert, (2, 1), prepare=True)
    assert db.execute("select count(*) from py_changing where v = 1").fetchone() == (2,)


def cursors_of_the_server(db):
    for binary in (False, True):
        with db.transaction(), db.cursor(name="py_cursor", scrollable=True, binary=binary) as cursor:
            cursor.execute("select g, 'x' || g from generate_series(1, %s) g", (10,))
            assert cursor.fetchmany(3) == [(1, "x1"), (2, "x2"), (3, "x3")]
            cursor.scroll(-2)
            assert cursor.fetchone() == (2, "x2") and len(cursor.fetchall()) == 8
    with db.cursor(name="py_held", withhold=True) as cursor:
        cursor.execute("select 1")
        assert cursor.fetchall() == [(1,)]


def temporary_tables_are_a_sessions_own(db):
    with db.transaction():
        db.execute("create temp table py_own (id int primary key, v text) on commit drop")
        with db.cursor().copy("copy py_own from stdin") as copy:
            copy.write_row((1, "one"))
        assert db.execute("select v, row_number() over (order by id) from py_own").fetchall() == [("one", 1)]
    assert db.execute("select to_regclass('py_own')").fetchone() == (None,)


def many_rows(db):
    db.execute("drop table if exists py_many")
    db.execute("create table py_many (id int primary key, v text)")
    with db.cursor() as cursor:
        cursor.executemany("insert into py_many values (%s, %s)", [(n, f"row {n}") for n in range(500)])
        assert cursor.rowcount == 500
    with db.cursor() as cursor, cursor.copy("copy py_many from stdin") as copy:
        for n in range(500, 5000):
            copy.write_row((n, None if n % 7 == 0 else f"a\tb\\{n}\n"))
    with db.cursor() as cursor, cursor.copy("copy (select * from py_many order by id) to stdout") as copy:
        rows = list(copy.rows())
    assert len(rows) == 5000 and rows[501] == ("501", "a\tb\\501\n") and rows[504] == ("504", None)
    wanted = [3, 501, 4999, 7000]
    found = db.execute("select id from py_many where id = any(%s) order by id", (wanted,)).fetchall()
    assert found == [(3,), (501,), (4999,)], found


def other_formats_of_copy(db):
    rows = 'id,v\n5000,"a ""b"",\n c"\n5001,\n5002,""\n'
    with db.cursor() as cursor:
        with cursor.copy("copy py_many from stdin (format csv, header)") as copy:
            for sign in rows:
                copy.write(sign)
        found = cursor.execute("select v from py_many where id >= 5000 order by id").fetchall()
        assert found == [('a "b",\n c',), (None,), ("",)], found
        with cursor.copy("copy (select * from py_many where id >= 5000 order by id) to stdout (format csv, header)") as copy:
            assert b"".join(copy).decode() == rows
        with cursor.copy("copy py_many from stdin (format binary)") as copy:
            copy.set_types(["int4", "text"])
            for n in range(5003, 6000):
                copy.write_row((n, None if n % 7 == 0 else f"row {n}"))
        with cursor.copy("copy (select v, id from py_many where id >= 5003 order by id) to stdout (format binary)") as copy:
            copy.set_types(["text", "int4"])
            found = list(copy.rows())
        assert len(found) == 997 and found[0] == ("row 5003", 5003) and found[2] == (None, 5005), found[:3]
        for wrong in ('1,"a', "7000,a,b\n", "seven,a\n"):
            try:
                with cursor.copy("copy py_many from stdin (format csv)") as copy:
                    copy.write(wrong)
            except (errors.BadCopyFileFormat, errors.InvalidTextRepresentation):
                continue
            raise AssertionError(f"{wrong!r} was taken")
        cursor.execute("delete from py_many where id >= 5000")


def pipelines(db):
    with db.pipeline():
        cursors = [db.execute("select %s::int * 2", (n,)) for n in range(50)]
    assert [cursor.fetchone()[0] for cursor in cursors] == [2 * n for n in range(50)]


def blocks_and_savepoints(db):
    db.execute("delete from py_many where id >= 10")
    with db.transaction():
        db.execute("update py_many set v = 'one' where id = 1")
        try:
            with db.transaction():
                db.execute("update py_many set v = 'two' where id = 2")
                db.execute("insert into py_many values (1, 'there already')")
        except errors.UniqueViolation:
            pass
    assert db.execute("select v from py_many where id in (1, 2) order by id").fetchall() == [("one",), ("row 2",)]
    try:
        with db.transaction():
            db.execute("delete from py_many")
            raise RuntimeError
    except RuntimeError:
        pass
    assert db.execute("select count(*) from py_many").fetchone() == (10,)


def errors_by_their_class(db):
    for statement, error in [
        ("selec", errors.SyntaxError),
        ("select * from py_nowhere", errors.UndefinedTable),
        ("select nothing from py_many", errors.UndefinedColumn),
        ("select 1 / 0", errors.DivisionByZero),
        ("insert into py_many values (1, '')", errors.UniqueViolation),
        ("insert into py_many values (null, '')", errors.NotNullViolation),
        ("select 'x'::int", errors.InvalidTextRepresentation),
        ("select 2147483647 + 1", errors.NumericValueOutOfRange),
    ]:
        try:
            db.execute(statement)
        except error:
            continue
        raise AssertionError(f"{statement}: no {error.__name__}")


def a_statement_is_cancelled(db):
    # A cancel request that arrives before the statement cancels nothing, so it is repeated until
    # one has an effect.
    done = threading.Event()

    def cancel():
        while not done.wait(0.1):
            db.cancel()

    canceler = threading.Thread(target=cancel)
    canceler.start()
    try:
        db.execute("select pg_sleep(600)")
        raise AssertionError("it was not cancelled")
    except errors.QueryCanceled:
        pass
    finally:
        done.set()
        canceler.join()


with psycopg.connect(autocommit=True) as connection:
    values_both_ways(connection)
    prepared_statements_survive_changes_of_the_table(connection)
    cursors_of_the_server(connection)
    temporary_tables_are_a_sessions_own(connection)
    many_rows(connection)
    other_formats_of_copy(connection)
    pipelines(connection)
    blocks_and_savepoints(connection)
    errors_by_their_class(connection)
    a_statement_is_cancelled(connection)
    print(f"psycopg {psycopg.__version__}")
