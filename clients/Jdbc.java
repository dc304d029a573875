// pgJDBC: the calls of Java programs and BenchBase. Finds the server by PGHOST and related
// variables.

import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

public class Jdbc {
    public static void main(String[] args) throws Exception {
        try (Connection db = connect("")) {
            valuesBothWays(db);
            batchesAndGeneratedKeys(db);
            metadata(db);
            errors(db);
            cancel(db);
            pooled(db);
        }
        try (Connection db = connect("&reWriteBatchedInserts=true&prepareThreshold=1")) {
            valuesBothWays(db);
            batchesAndGeneratedKeys(db);
            transactions(db);
            cursor(db);
            System.out.println("pgJDBC " + db.getMetaData().getDriverVersion());
        }
    }

    static Connection connect(String options) throws SQLException {
        Map<String, String> env = System.getenv();
        String url = "jdbc:postgresql://" + env.getOrDefault("PGHOST", "127.0.0.1") + ":"
            + env.getOrDefault("PGPORT", "5433") + "/" + env.getOrDefault("PGDATABASE", "isomer");
        String password = env.containsKey("PGPASSWORD") ? "&password=" + env.get("PGPASSWORD") : "";
        return DriverManager.getConnection(url + "?user=" + env.getOrDefault("PGUSER", "isomer") + password + options);
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void valuesBothWays(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("drop table if exists jdbc_types");
            statement.execute("create table jdbc_types (id int primary key, i2 smallint, i8 bigint, r real, "
                + "f float8, n numeric(10, 2), t text, c char(5), b boolean, d date, ts timestamp, "
                + "tz timestamptz, u uuid, raw bytea)");
        }
        UUID uuid = new UUID(1, 2);
        LocalDateTime time = LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999_999_000);
        OffsetDateTime zoned = OffsetDateTime.of(2024, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC);
        String insert = "insert into jdbc_types values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        try (PreparedStatement statement = db.prepareStatement(insert)) {
            Object[] row = {(short) -7, Long.MIN_VALUE, 0.5f, 0.1, new BigDecimal("-1234.50"), "naïve 日本", "ab",
                true, LocalDate.of(2024, 2, 29), time, zoned, uuid, new byte[] {0, -1, 92}};
            for (int id = 0; id < 12; id++) {
                statement.setInt(1, id);
                for (int at = 0; at < row.length; at++) statement.setObject(at + 2, id == 11 ? null : row[at]);
                check(statement.executeUpdate() == 1, "one row is inserted");
            }
        }
        // After several runs the driver asks for binary values.
        try (PreparedStatement statement = db.prepareStatement("select * from jdbc_types where id = ?")) {
            for (int id = 0; id < 12; id++) {
                statement.setInt(1, id);
                try (ResultSet rows = statement.executeQuery()) {
                    check(rows.next(), "there is row " + id);
                    if (id == 11) {
                        for (int at = 2; at <= 14; at++) check(rows.getObject(at) == null, "NULL at " + at);
                        continue;
                    }
                    check(rows.getShort(2) == -7 && rows.getLong(3) == Long.MIN_VALUE, "whole numbers");
                    check(rows.getFloat(4) == 0.5f && rows.getDouble(5) == 0.1, "floats");
                    check(rows.getBigDecimal(6).equals(new BigDecimal("-1234.50")), "numeric");
                    check(rows.getString(7).equals("naïve 日本") && rows.getString(8).equals("ab   "), "texts");
                    check(rows.getBoolean(9) && rows.getObject(13).equals(uuid), "boolean, uuid");
                    check(rows.getObject(10, LocalDate.class).equals(LocalDate.of(2024, 2, 29)), "date");
                    check(rows.getObject(11, LocalDateTime.class).equals(time), "timestamp");
                    check(rows.getObject(12, OffsetDateTime.class).isEqual(zoned), "timestamptz");
                    check(Arrays.equals(rows.getBytes(14), new byte[] {0, -1, 92}), "bytea");
                }
            }
        }
    }

    static void batchesAndGeneratedKeys(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute("drop table if exists jdbc_rows cascade");
            statement.execute("create table jdbc_rows (id serial primary key, name varchar(20) not null, "
                + "score float8 default 0.5, constraint jdbc_name unique (name))");
            statement.execute("create index jdbc_score on jdbc_rows (score, name)");
        }
        try (PreparedStatement statement = db.prepareStatement("insert into jdbc_rows (name) values (?)")) {
            for (int n = 0; n < 300; n++) {
                statement.setString(1, "name " + n);
                statement.addBatch();
            }
            check(statement.executeBatch().length == 300, "300 rows");
        }
        String insert = "insert into jdbc_rows (name) values ('last')";
        try (PreparedStatement one = db.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            one.executeUpdate();
            try (ResultSet keys = one.getGeneratedKeys()) {
                check(keys.next() && keys.getInt("id") > 300, "a generated key");
            }
        }
        try (PreparedStatement any = db.prepareStatement("select count(*) from jdbc_rows where id = any (?)")) {
            any.setArray(1, db.createArrayOf("int4", new Integer[] {1, 2, 100_000}));
            try (ResultSet rows = any.executeQuery()) {
                check(rows.next() && rows.getInt(1) == 2, "two of three");
            }
        }
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> values = new ArrayList<>();
        while (rows.next()) values.add(rows.getString(name));
        rows.close();
        return values;
    }

    static void metadata(Connection db) throws SQLException {
        DatabaseMetaData meta = db.getMetaData();
        check(meta.getDatabaseMajorVersion() >= 12, "a version");
        List<String> tables = column(meta.getTables(null, "public", "jdbc_%", new String[] {"TABLE"}), "TABLE_NAME");
        check(tables.equals(List.of("jdbc_rows", "jdbc_types")), "tables: " + tables);
        check(column(meta.getSchemas(), "TABLE_SCHEM").contains("public"), "schemas");
        check(!column(meta.getCatalogs(), "TABLE_CAT").isEmpty(), "catalogs");
        check(column(meta.getTableTypes(), "TABLE_TYPE").contains("TABLE"), "types of tables");
        check(column(meta.getTypeInfo(), "TYPE_NAME").contains("int4"), "types");
        try (ResultSet columns = meta.getColumns(null, null, "jdbc_rows", null)) {
            check(columns.next() && columns.getString("COLUMN_NAME").equals("id"), "id");
            check(columns.getInt("DATA_TYPE") == Types.INTEGER && columns.getInt("NULLABLE") == 0, "its type");
            check(columns.next() && columns.getInt("COLUMN_SIZE") == 20, "varchar(20)");
            check(columns.next() && columns.getString("COLUMN_DEF").contains("0.5"), "a default");
            check(!columns.next(), "three columns");
        }
        List<String> key = column(meta.getPrimaryKeys(null, null, "jdbc_rows"), "COLUMN_NAME");
        check(key.equals(List.of("id")), "key: " + key);
        List<String> indexed = column(meta.getIndexInfo(null, null, "jdbc_rows", false, false), "COLUMN_NAME");
        Collections.sort(indexed);
        check(indexed.equals(List.of("id", "name", "name", "score")), "indexes: " + indexed);
        List<String> unique = column(meta.getIndexInfo(null, null, "jdbc_rows", true, false), "INDEX_NAME");
        Collections.sort(unique);
        check(unique.equals(List.of("jdbc_name", "jdbc_rows_pkey")), "unique: " + unique);
        check(column(meta.getImportedKeys(null, null, "jdbc_rows"), "FKTABLE_NAME").isEmpty(), "no references");
        check(column(meta.getExportedKeys(null, null, "jdbc_rows"), "FKTABLE_NAME").isEmpty(), "none to it");
        check(!column(meta.getBestRowIdentifier(null, null, "jdbc_rows", 0, true), "COLUMN_NAME").isEmpty(), "a row");
        column(meta.getProcedures(null, null, "%"), "PROCEDURE_NAME");
        column(meta.getFunctions(null, null, "%"), "FUNCTION_NAME");
        column(meta.getTablePrivileges(null, null, "jdbc_rows"), "GRANTEE");
        try (Statement statement = db.createStatement();
            ResultSet rows = statement.executeQuery("select id, name as n from jdbc_rows")) {
            ResultSetMetaData columns = rows.getMetaData();
            check(columns.isAutoIncrement(1) && !columns.isAutoIncrement(2), "serial");
            check(columns.getColumnName(2).equals("n") && columns.getPrecision(2) == 20, "an alias");
            check(columns.getTableName(2).equals("jdbc_rows"), "of which table");
            check(columns.isNullable(2) == ResultSetMetaData.columnNoNulls, "not null");
        }
    }

    static String state(Connection db, String sql) {
        try (Statement statement = db.createStatement()) {
            statement.execute(sql);
            return "none";
        } catch (SQLException error) {
            return error.getSQLState();
        }
    }

    static void errors(Connection db) {
        check(state(db, "selec").equals("42601"), "syntax");
        check(state(db, "select * from jdbc_nowhere").equals("42P01"), "table");
        check(state(db, "insert into jdbc_rows (name) values ('last')").equals("23505"), "unique");
        check(state(db, "insert into jdbc_rows (name) values (null)").equals("23502"), "not null");
        check(state(db, "insert into jdbc_rows (name) values ('" + "x".repeat(21) + "')").equals("22001"), "long");
    }

    static void cancel(Connection db) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.setQueryTimeout(1);
            statement.execute("select pg_sleep(30)");
            check(false, "it was not cancelled");
        } catch (SQLException error) {
            check(error.getSQLState().equals("57014"), error.toString());
        }
    }

    /** What pools do with a connection before they lend it. */
    static void pooled(Connection db) throws SQLException {
        check(db.isValid(1), "it is alive");
        db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        db.setReadOnly(true);
        db.setAutoCommit(false);
        check(state(db, "delete from jdbc_rows").equals("25006"), "read only");
        db.rollback();
        db.setAutoCommit(true);
        db.setReadOnly(false);
        db.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        check(db.getTransactionIsolation() == Connection.TRANSACTION_READ_COMMITTED, "isolation");
        db.setSchema("public");
        db.setNetworkTimeout(Runnable::run, 10_000);
        db.clearWarnings();
    }

    static void transactions(Connection db) throws SQLException {
        db.setAutoCommit(false);
        try (Statement statement = db.createStatement()) {
            statement.executeUpdate("update jdbc_rows set score = 1 where id <= 10");
            Savepoint savepoint = db.setSavepoint("before");
            statement.executeUpdate("delete from jdbc_rows");
            db.rollback(savepoint);
            db.commit();
            statement.executeUpdate("delete from jdbc_rows");
            db.rollback();
            try (ResultSet rows = statement.executeQuery("select count(*), sum(score) from jdbc_rows")) {
                check(rows.next() && rows.getInt(1) == 301 && rows.getDouble(2) == 155.5, "301 rows");
            }
        }
        db.commit();
        db.setAutoCommit(true);
    }

    static void cursor(Connection db) throws SQLException {
        db.setAutoCommit(false);
        try (PreparedStatement statement = db.prepareStatement("select id from jdbc_rows order by id")) {
            statement.setFetchSize(50);
            int count = 0;
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) count++;
            }
            check(count == 301, "301 rows in parts: " + count);
        }
        db.commit();
        db.setAutoCommit(true);
    }
}
