// Flyway: migrations in SQL with its own history table: migrate, validate, failures, repair,
// baseline, clean.

import java.nio.file.*;
import java.sql.*;
import java.util.*;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;

public class Main {
    static String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");

    static Flyway flyway(Path folder) {
        return Flyway.configure().dataSource(url, System.getenv("PGUSER"), "").schemas("flyway").createSchemas(true)
            .locations("filesystem:" + folder).cleanDisabled(false).baselineOnMigrate(false).load();
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) throw new AssertionError("found " + found + " instead of " + wanted);
    }

    static String value(String query) throws SQLException {
        try (Connection db = DriverManager.getConnection(url, System.getenv("PGUSER"), ""); ResultSet rows = db.createStatement().executeQuery(query)) {
            return rows.next() ? rows.getString(1) : null;
        }
    }

    static void fails(Runnable what) {
        try {
            what.run();
        } catch (FlywayException error) {
            return;
        }
        throw new AssertionError("nothing failed");
    }

    public static void main(String[] args) throws Exception {
        Path folder = Files.createTempDirectory("flyway");
        flyway(folder).clean();
        Files.writeString(folder.resolve("V1__tables.sql"), """
            create table fw_author (id serial primary key, name varchar(40) not null unique);
            create table fw_post (id bigint generated always as identity primary key, author_id int not null references fw_author on delete cascade, title text);
            comment on table fw_author is 'who writes; still';
            insert into fw_author (name) values ('Ann''s'), ('Bob');
            """);
        Files.writeString(folder.resolve("V1.1__more.sql"), """
            alter table fw_author add column born date, alter column name type varchar(80);
            create index fw_post_by_title on fw_post (title, author_id);
            insert into fw_post (author_id, title) select id, name from fw_author;
            """);
        Files.writeString(folder.resolve("R__titles.sql"), "create or replace view fw_titles as select title from fw_post;");
        same(flyway(folder).migrate().migrationsExecuted, 3);
        same(flyway(folder).migrate().migrationsExecuted, 0);
        same(value("select count(*) from flyway.fw_titles"), "2");
        Files.writeString(folder.resolve("R__titles.sql"), "create or replace view fw_titles as select title, id from fw_post;");
        same(flyway(folder).migrate().migrationsExecuted, 1);
        flyway(folder).validate();
        // A failed migration leaves nothing behind, because DDL is transactional.
        Path wrong = folder.resolve("V2__wrong.sql");
        Files.writeString(wrong, "create table fw_half (id int primary key);\ninsert into fw_half values (1), (1);\n");
        fails(() -> flyway(folder).migrate());
        same(value("select to_regclass('flyway.fw_half')"), null);
        Files.writeString(wrong, "create table fw_half (id int primary key);\ninsert into fw_half values (1);\n");
        same(flyway(folder).migrate().migrationsExecuted, 1);
        Files.writeString(wrong, "create table fw_half (id int primary key);\n");
        fails(() -> flyway(folder).validate());
        flyway(folder).repair();
        flyway(folder).validate();
        same(flyway(folder).info().applied().length, 6);
        same(flyway(folder).info().current().getVersion().getVersion(), "2");
        // Two at a time: one migrates, the other waits.
        Files.writeString(folder.resolve("V3__once.sql"), "insert into fw_half values (3);\n");
        Thread[] both = new Thread[2];
        List<Integer> made = Collections.synchronizedList(new ArrayList<>());
        for (int n = 0; n < 2; n++) (both[n] = new Thread(() -> made.add(flyway(folder).migrate().migrationsExecuted))).start();
        for (Thread one : both) one.join();
        Collections.sort(made);
        same(made, List.of(0, 1));
        flyway(folder).clean();
        same(value("select count(*) from information_schema.tables where table_schema = 'flyway'"), "0");
        System.out.println("Flyway");
    }
}
