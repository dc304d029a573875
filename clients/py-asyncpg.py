"""asyncpg: a driver with its own implementation of the protocol, in binary."""

import sys

try:
    import asyncpg
except ImportError:
    print("asyncpg is not installed (pip install asyncpg)")
    sys.exit(77)

import asyncio
import datetime
import decimal
import uuid


async def values_both_ways(db):
    await db.execute("drop table if exists async_types")
    await db.execute("""create table async_types (id serial primary key, i2 smallint, i4 int, i8 bigint,
        r real, f float8, n numeric, t text, c char(5), b boolean, d date, ts timestamp, tz timestamptz,
        u uuid, raw bytea)""")
    row = (-7, 2**31 - 1, -2**63, 0.5, 0.1, decimal.Decimal("-12345678901234567890.00123"), "naïve 日本", "ab   ",
        False, datetime.date(1066, 10, 14), datetime.datetime(1999, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), uuid.UUID(int=42), b"\x00\xff\\")
    columns = "i2, i4, i8, r, f, n, t, c, b, d, ts, tz, u, raw"
    marks = ", ".join(f"${n + 1}" for n in range(len(row)))
    insert = f"insert into async_types ({columns}) values ({marks}) returning id"
    number = await db.fetchval(insert, *row)
    found = await db.fetchrow(f"select {columns} from async_types where id = $1", number)
    assert tuple(found) == row, tuple(found)
    await db.execute(insert, *(None,) * len(row))
    assert tuple(await db.fetchrow(f"select {columns} from async_types where i4 is null")) == (None,) * len(row)


async def prepared_statements_and_cursors(db):
    await db.execute("drop table if exists async_many")
    await db.execute("create table async_many (id int primary key, v text)")
    await db.executemany("insert into async_many values ($1, $2)", [(n, f"row {n}") for n in range(1000)])
    statement = await db.prepare("select v from async_many where id between $1 and $2 order by id")
    assert [str(p.name) for p in statement.get_parameters()] == ["int4", "int4"]
    assert len(await statement.fetch(10, 19)) == 10
    async with db.transaction():
        seen = [row["id"] async for row in db.cursor("select id from async_many order by id", prefetch=64)]
    assert seen == list(range(1000))


async def transactions(db):
    try:
        async with db.transaction(isolation="repeatable_read"):
            await db.execute("delete from async_many")
            async with db.transaction():
                await db.execute("insert into async_many values (1, 'one'), (1, 'two')")
    except asyncpg.UniqueViolationError as error:
        assert error.sqlstate == "23505"
    assert await db.fetchval("select count(*) from async_many") == 1000


async def errors_and_timeouts(db):
    try:
        await db.execute("select nothing from async_many")
        raise AssertionError("no error")
    except asyncpg.UndefinedColumnError as error:
        assert error.position == "8", error.position
    try:
        await db.execute("select pg_sleep(30)", timeout=0.1)
        raise AssertionError("it was not cancelled")
    except asyncio.TimeoutError:
        pass
    assert await db.fetchval("select 1") == 1


async def a_pool():
    async with asyncpg.create_pool(min_size=2, max_size=8) as pool:
        async def add(n):
            async with pool.acquire() as db, db.transaction():
                await db.execute("update async_many set v = v || '.' where id = $1", n % 5)
        await asyncio.gather(*(add(n) for n in range(100)))
        dots = await pool.fetchval("select sum(length(v)) from async_many where id < 5")
    assert dots == 5 * len("row 0") + 100, dots


async def main():
    db = await asyncpg.connect()
    await values_both_ways(db)
    await prepared_statements_and_cursors(db)
    await transactions(db)
    await errors_and_timeouts(db)
    await db.close()
    await a_pool()
    print(f"asyncpg {asyncpg.__version__}")


asyncio.run(main())
