// pgx: values both ways in binary, CopyFrom, batches, its statement cache, pools, transactions in transactions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("found %#v instead of %#v", found, wanted))
	}
}

func run(db interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, statement string, args ...any) int64 {
	tag, err := db.Exec(ctx, statement, args...)
	if err != nil {
		panic(fmt.Errorf("%s: %w", statement, err))
	}
	return tag.RowsAffected()
}

type Row struct {
	I2      int16
	I8      int64
	F       float64
	N       pgtype.Numeric
	T       string
	B       bool
	D       time.Time
	Ts      time.Time
	Tz      time.Time
	U       pgtype.UUID
	Raw     []byte
	J       map[string]any
	A       []int32
	S       []string
	Took    time.Duration
	Nothing *int32
}

func valuesBothWays(db *pgx.Conn) {
	run(db, "drop table if exists gx_types")
	run(db, `create table gx_types (i2 smallint, i8 bigint, f float8, n numeric, t text, b boolean, d date, ts timestamp,
		tz timestamptz, u uuid, raw bytea, j jsonb, a int[], s text[], took interval, nothing int)`)
	var exact pgtype.Numeric
	must(exact.Scan("-12345678901234567890.00123"))
	row := Row{-7, -1 << 63, 0.1, exact, "naïve 日本", true, time.Date(1066, 10, 14, 0, 0, 0, 0, time.UTC),
		time.Date(1999, 12, 31, 23, 59, 59, 999999000, time.UTC), time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC),
		pgtype.UUID{Bytes: [16]byte{15: 42}, Valid: true}, []byte{0, 255, 92}, map[string]any{"a": []any{1.0, nil}}, []int32{1, -2}, []string{"it's", "\""},
		36 * time.Hour, nil}
	var args []any
	for at := range reflect.ValueOf(row).NumField() {
		args = append(args, reflect.ValueOf(row).Field(at).Interface())
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		run(db, "delete from gx_types")
		run(db, "insert into gx_types values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
			append([]any{mode}, args...)...)
		rows, err := db.Query(ctx, "select * from gx_types", mode)
		must(err)
		found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Row])
		must(err)
		found.Tz = found.Tz.UTC()
		same(found, row)
	}
	// Those that ask for no types.
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		var t string
		must(db.QueryRow(ctx, "select t || $1 from gx_types where i2 = $2", mode, "!", -7).Scan(&t))
		same(t, row.T+"!")
	}
}

func manyRows(db *pgx.Conn) {
	run(db, "drop table if exists gx_many")
	run(db, "create table gx_many (id int primary key, v text, n numeric(10, 2), at timestamptz, tags text[])")
	now := time.Now().Truncate(time.Microsecond)
	count, err := db.CopyFrom(ctx, pgx.Identifier{"gx_many"}, []string{"id", "v", "n", "at", "tags"},
		pgx.CopyFromSlice(20000, func(n int) ([]any, error) {
			if n%7 == 0 {
				return []any{n, nil, nil, now, []string{}}, nil
			}
			return []any{n, fmt.Sprintf("a\tb\\%d\n", n), fmt.Sprintf("%d.25", n), now, []string{"x", "it's"}}, nil
		}))
	must(err)
	same(count, int64(20000))
	var text, number string
	must(db.QueryRow(ctx, "select v, n::text from gx_many where id = 501").Scan(&text, &number))
	same([]string{text, number}, []string{"a\tb\\501\n", "501.25"})
	_, err = db.CopyFrom(ctx, pgx.Identifier{"gx_many"}, []string{"id"}, pgx.CopyFromRows([][]any{{20001}, {5}}))
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "23505" {
		panic(fmt.Sprintf("no unique violation: %v", err))
	}
	var rows int
	must(db.QueryRow(ctx, "select count(*) from gx_many").Scan(&rows))
	same(rows, 20000)
}

func batches(db *pgx.Conn) {
	batch := &pgx.Batch{}
	for n := range 100 {
		batch.Queue("update gx_many set v = $1 where id = $2 returning id", fmt.Sprint("row ", n), n).QueryRow(func(row pgx.Row) error {
			var id int
			err := row.Scan(&id)
			same(id, n)
			return err
		})
	}
	batch.Queue("select id from gx_many where id = any($1) order by id", []int32{3, 4}).Query(func(rows pgx.Rows) error {
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		same(ids, []int32{3, 4})
		return err
	})
	must(db.SendBatch(ctx, batch).Close())
	// One that fails undoes all of its batch.
	batch = &pgx.Batch{}
	batch.Queue("delete from gx_many")
	batch.Queue("select 1 / 0")
	if db.SendBatch(ctx, batch).Close() == nil {
		panic("no division by zero")
	}
	var rows int
	must(db.QueryRow(ctx, "select count(*) from gx_many where v = 'row 7'").Scan(&rows))
	same(rows, 1)
}

func transactions(db *pgx.Conn) {
	must(pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		run(tx, "insert into gx_many (id) values (30000)")
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "insert into gx_many (id) values (30001), (1)")
			return err
		})
		if err == nil {
			panic("no unique violation")
		}
		return nil
	}))
	var rows int
	must(db.QueryRow(ctx, "select count(*) from gx_many where id >= 30000").Scan(&rows))
	same(rows, 1)
	// A statement that is prepared stays right when its table changes.
	run(db, "alter table gx_many add column later int default 7")
	must(db.QueryRow(ctx, "select count(*) from gx_many where id >= 30000").Scan(&rows))
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	lonely, err := pgx.Connect(ctx, "")
	must(err)
	if _, err := lonely.Exec(short, "select pg_sleep(60)"); !errors.Is(err, context.DeadlineExceeded) {
		panic(fmt.Sprintf("it was not cancelled: %v", err))
	}
}

func pools() {
	pool, err := pgxpool.New(ctx, "pool_max_conns=8")
	must(err)
	defer pool.Close()
	run(pool, "update gx_many set v = '0' where id = 0")
	var all sync.WaitGroup
	for range 40 {
		all.Add(1)
		go func() {
			defer all.Done()
			must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				var v string
				if err := tx.QueryRow(ctx, "select v from gx_many where id = 0 for update").Scan(&v); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "update gx_many set v = ($1::int + 1)::text where id = 0", v)
				return err
			}))
		}()
	}
	all.Wait()
	var v string
	must(pool.QueryRow(ctx, "select v from gx_many where id = 0").Scan(&v))
	same(v, "40")
}

func main() {
	defer func() {
		if wrong := recover(); wrong != nil {
			fmt.Println(wrong)
			os.Exit(1)
		}
	}()
	db, err := pgx.Connect(ctx, "")
	must(err)
	for _, part := range []func(*pgx.Conn){valuesBothWays, manyRows, batches, transactions} {
		part(db)
	}
	pools()
	run(db, "drop table gx_types, gx_many")
	fmt.Println("pgx v5")
}
