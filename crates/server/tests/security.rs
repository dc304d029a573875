//! Access control: passwords, encryption, users, and connections that try to keep others out.
//!
//! The client is a bare socket here, because the crate `postgres` handles passwords by itself;
//! `clients/tls` tests encryption with psql.

mod fixture;

use fixture::{Fixture, code, options, wait_for};
use isomer_cluster::Options;
use isomer_server::{Decider, Engine, Server, ServerOptions, Tls, Trust};
use postgres::error::SqlState;
use postgres::{Client, NoTls};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Connects over TCP.
fn connect(fixture: &Fixture, user: &str, password: &str) -> Result<Client, postgres::Error> {
    let port = fixture.server.address().port();
    let config = format!("host=127.0.0.1 port={port} user={user} password='{password}' dbname=d");
    Client::connect(&config, NoTls)
}

/// All that the server says until it ends the connection.
fn answer(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("all is answered");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The error of a statement.
fn refusal(result: Result<(), postgres::Error>) -> String {
    let error = result.expect_err("a refusal");
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

#[test]
fn a_right_password_logs_in_and_a_wrong_one_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = || Options::in_folder(folder.path(), 2);
    let fixture = Fixture::serve(database(), options());
    let mut client = fixture.client();
    client.batch_execute("create user ada password 'naïve; secret' superuser").expect("a user");
    client.batch_execute("create user nobody").expect("a user without a password");
    client.batch_execute("create role locked password 'x'").expect("one that may not connect");
    assert_eq!(code(client.batch_execute("create user ada")), SqlState::DUPLICATE_OBJECT);
    assert_eq!(code(client.batch_execute("drop user bob")), SqlState::UNDEFINED_OBJECT);
    client.batch_execute("drop user if exists bob").expect("nothing to do");
    drop((client, fixture));

    // The server trusts clients of its Unix socket only, not of this port.
    let fixture = Fixture::serve(database(), ServerOptions { trust: Trust::Owner, ..options() });
    let mut ada = connect(&fixture, "ada", "naïve; secret").expect("it is the password");
    for (user, password) in
        [("ada", "naive; secret"), ("bob", "x"), ("nobody", "x"), ("nobody", ""), ("isomer", "x")]
    {
        let refused = connect(&fixture, user, password).err().expect("a refusal");
        let refused = refused.code().cloned();
        assert!(
            refused.as_ref().is_none_or(|code| *code == SqlState::INVALID_PASSWORD),
            "{user} {refused:?}"
        );
    }
    let locked = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
    assert_eq!(code(connect(&fixture, "locked", "x")), locked);
    ada.batch_execute("alter user ada with password 'other'").expect("a change");
    connect(&fixture, "ada", "other").expect("it is the password now");
    assert_eq!(code(connect(&fixture, "ada", "naïve; secret")), SqlState::INVALID_PASSWORD);
    ada.batch_execute("alter user ada superuser").expect("a change of something else");
    connect(&fixture, "ada", "other").expect("it still is the password");
}

#[test]
fn other_machines_are_served_with_encryption_and_a_user_only() {
    let engine = Engine::open(Options::in_memory(1), Decider::default(), None);
    let engine = engine.expect("a catalog");
    let listen = "0.0.0.0:0".parse().expect("an address");
    let refused = Server::start(engine, ServerOptions { listen, ..options() });
    let refused = refused.err().expect("a refusal").to_string();
    assert!(refused.contains("--tls-cert") && refused.contains("127.0.0.1"), "{refused}");
}

#[test]
fn a_key_that_others_can_read_is_refused_with_what_mends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("cert"), folder.path().join("key"));
    std::fs::write(&certificate, "").expect("a file");
    std::fs::write(&key, "").expect("a file");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("a mode");
    let refused = Tls::open(&certificate, &key).expect_err("a refusal").to_string();
    assert!(refused.contains("chmod 0600") && refused.contains("0644"), "{refused}");
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("a mode");
    let refused = Tls::open(&certificate, &key).expect_err("there is nothing in it").to_string();
    assert!(!refused.contains("chmod"), "{refused}");
}

#[test]
fn superusers_manage_users_and_the_others_themselves() {
    let fixture = Fixture::new();
    let mut root = fixture.client();
    root.batch_execute("create user ada password 'a'; create user bob password 'b'").expect("two");
    let as_user = |user: &str| connect(&fixture, user, "").expect("it is trusted");
    let mut ada = as_user("ada");
    for refused in [
        "alter user bob password 'mine'",
        "drop user bob",
        "drop user isomer",
        "create user eve",
        "alter user ada superuser",
        "alter system set autopilot = auto",
    ] {
        let refusal = code(ada.batch_execute(refused));
        assert_eq!(refusal, SqlState::INSUFFICIENT_PRIVILEGE, "{refused}");
    }
    ada.batch_execute("alter user ada password 'new'").expect("her own password");
    let shown = |client: &mut Client| -> String {
        client.query_one("show is_superuser", &[]).expect("one row").get(0)
    };
    assert_eq!([shown(&mut root), shown(&mut ada)], ["on", "off"]);

    // There is always a superuser left to repair mistakes.
    for last in ["alter user isomer nosuperuser", "alter user isomer nologin"] {
        let refused = refusal(root.batch_execute(last));
        assert!(refused.contains("last superuser"), "{refused}");
    }
    assert_eq!(code(root.batch_execute("drop user isomer")), SqlState::OBJECT_IN_USE);
    root.batch_execute("alter user ada superuser").expect("another one");
    let roles = "select rolname, rolsuper, rolcanlogin from pg_roles where rolname !~ '^pg_' and rolname <> 'isomer_design' order by 1";
    let rows = root.query(roles, &[]).expect("rows");
    let rows: Vec<(String, bool, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let role = |name: &str, superuser| (name.to_owned(), superuser, true);
    assert_eq!(rows, [role("ada", true), role("bob", false), role("isomer", true)]);
    // The change takes effect at once, also in existing sessions.
    ada.batch_execute("drop user isomer; create user eve nologin").expect("she may now");
    let refused = connect(&fixture, "eve", "");
    assert_eq!(code(refused), SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
}

#[test]
fn a_dropped_user_is_disconnected() {
    let fixture = Fixture::new();
    let mut root = fixture.client();
    root.batch_execute(
        "create table t (id int primary key); grant insert on t to public; create user bob",
    )
    .expect("a user");
    let mut idle = connect(&fixture, "bob", "").expect("it is trusted");
    let mut busy = connect(&fixture, "bob", "").expect("it is trusted");
    idle.batch_execute("begin; insert into t values (1)").expect("a row");
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || code(busy.batch_execute("insert into t values (1)")));
        wait_for("a wait", || (fixture.engine.gateway().waiting() > 0).then_some(()));
        root.batch_execute("drop user bob").expect("it goes");
        assert_eq!(waits.join().expect("no panic"), SqlState::ADMIN_SHUTDOWN);
    });
    // It may have received the reason before: then it only reports that the connection is closed.
    let refused = idle.simple_query("commit").expect_err("it has been sent away");
    assert!(refused.is_closed() || refused.code() == Some(&SqlState::ADMIN_SHUTDOWN), "{refused}");
    root.batch_execute("insert into t values (1)").expect("nothing is left of them");
    assert_eq!(code(connect(&fixture, "bob", "")), SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
}

#[test]
fn databases_from_before_there_were_superusers_keep_their_users_as_such() {
    use isomer_design::{Column, ColumnType, Key, Schema, SiteId, Value};
    let folder = tempfile::tempdir().expect("a folder");
    let database = || Options::in_folder(folder.path(), 1);
    let verifier = {
        let fixture = Fixture::serve(database(), options());
        let columns =
            vec![Column::new("name", ColumnType::Text), Column::new("verifier", ColumnType::Text)];
        let schema = Schema::new("isomer_users", columns, &["name"]).expect("a schema");
        let db = fixture.engine.database();
        let table = db.create_table(schema.clone(), &[(Key::min(), SiteId(1))]).expect("a table");
        // The verifier of the password `pencil` from RFC 7677.
        let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let (key, row) =
            schema.encode_row(&[Value::from("ada"), Value::from(verifier)]).expect("a row");
        let footprint = isomer_design::Footprint::new().write(table, key.clone());
        db.run(&mut db.session(), &footprint, |txn| txn.put(table, &key, &row)).expect("a row");
        verifier
    };
    assert!(verifier.starts_with("SCRAM"));
    let fixture = Fixture::serve(database(), ServerOptions { trust: Trust::Nobody, ..options() });
    let mut ada = connect(&fixture, "ada", "pencil").expect("her password");
    ada.batch_execute("create user bob").expect("she is a superuser");
    assert!(fixture.engine.database().table("isomer_users").is_err());
}

/// A database whose relations have no owner, as before the introduction of rights.
#[test]
fn databases_from_before_there_were_rights_are_open_until_they_are_closed() {
    use isomer_design::Value;
    let folder = tempfile::tempdir().expect("a folder");
    let database = || Options::in_folder(folder.path(), 1);
    {
        let fixture = Fixture::serve(database(), options());
        let definitions = "create user ada; create table t (id serial primary key, v int)";
        fixture.client().batch_execute(definitions).expect("as it was");
        let oids = "select 'relation ' || oid from pg_class where relname in ('t', 't_id_seq')";
        let rows = fixture.client().query(oids, &[]).expect("rows");
        let db = fixture.engine.database();
        let (table, schema) = db.table("isomer_catalog").expect("it is there");
        let public = "schema 2200".to_owned();
        for name in rows.iter().map(|row| row.get(0)).chain([public]) {
            let none = [Value::Int64(0), Value::Int64(0), Value::from("10"), Value::Bool(false)];
            let mut row = vec![Value::from("rights"), Value::from(name.as_str())];
            row.extend(none.into_iter().chain([Value::from("")]));
            let (key, _) = schema.encode_row(&row).expect("a row");
            let footprint = isomer_design::Footprint::new().write(table, key.clone());
            db.run(&mut db.session(), &footprint, |txn| txn.delete(table, &key).map(drop))
                .expect("a deleted row");
        }
    }
    let fixture = Fixture::serve(database(), options());
    let mut ada = connect(&fixture, "ada", "").expect("it is trusted");
    ada.batch_execute(
        "insert into t (v) values (1); update t set v = 2; delete from t; create table own (a int)",
    )
    .expect("everybody may");
    assert_eq!(code(ada.batch_execute("drop table t")), SqlState::INSUFFICIENT_PRIVILEGE);
    let lists = "select relname || ' ' || coalesce(relacl::text, '') from pg_class \
                 where relname in ('t', 'own') order by 1";
    let mut root = fixture.client();
    let shown: Vec<String> =
        root.query(lists, &[]).expect("rows").iter().map(|row| row.get(0)).collect();
    assert_eq!(shown, ["own ", "t {=arwdDxt/isomer,isomer=arwdDxt/isomer}"]);
    root.batch_execute(
        "revoke all on all tables in schema public from public; \
         revoke create on schema public from public",
    )
    .expect("it is closed");
    assert_eq!(code(ada.batch_execute("select * from t")), SqlState::INSUFFICIENT_PRIVILEGE);
    let refused = code(ada.batch_execute("create table more (a int)"));
    assert_eq!(refused, SqlState::INSUFFICIENT_PRIVILEGE);
    ada.batch_execute("select * from own").expect("it is hers");
}

/// Clients that never finish logging in, on all places, with a byte from each now and then. A real
/// client from the same address can still log in.
#[test]
fn slow_logins_keep_no_client_out() {
    let few = ServerOptions { logins_max: 8, connections_max: 4, ..options() };
    let fixture = Fixture::serve(Options::in_memory(1), few);
    let dawdle = || {
        let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
        stream.write_all(b"\0").expect("it is read");
        stream
    };
    let mut slow: Vec<TcpStream> = (0..40).map(|_| dawdle()).collect();
    for _ in 0..10 {
        // The previous client may still be connected.
        let mut client = wait_for("a place", || fixture.try_client().ok());
        client.batch_execute("select 1").expect("the server answers");
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"\0")));
        slow.extend((0..8).map(|_| dawdle()));
    }
    // Displaced connections get the reason.
    let first = answer(slow.remove(0));
    assert!(first.contains("53300") && first.contains("too many clients"), "{first}");
    // The remaining connections do not count as clients.
    let client = |_| wait_for("a place", || fixture.try_client().ok());
    let _clients: Vec<Client> = (0..4).map(client).collect();
    assert_eq!(code(fixture.try_client()), SqlState::TOO_MANY_CONNECTIONS);
}

/// The whole login has one deadline, even if bytes keep arriving.
#[test]
fn a_login_has_one_deadline() {
    let quick = ServerOptions {
        login_timeout: Duration::from_millis(300),
        trust: Trust::Nobody,
        ..options()
    };
    let fixture = Fixture::serve(Options::in_memory(1), quick);
    // One client sends a byte of a long first message now and then, and one never sends its
    // password.
    for begun in [&b"\0\0\x20"[..], b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0p\0\0"] {
        let mut stream = TcpStream::connect(fixture.server.address()).expect("the server listens");
        stream.write_all(begun).expect("it is read");
        let mut bytes = [0; 512];
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a limit");
        let mut said = Vec::new();
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => said.extend(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    drop(stream.write_all(b"\0"));
                }
                Err(_) => break,
            }
        }
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty() || said.contains("57014") || said.contains("SCRAM"), "{said}");
    }
    fixture.wait_for_clients(0);
}

#[test]
fn the_last_places_are_for_superusers() {
    let few = ServerOptions { connections_max: 5, ..options() };
    let fixture = Fixture::serve(Options::in_memory(1), few);
    fixture.client().batch_execute("create user ada").expect("a user");
    fixture.wait_for_clients(0);
    let ada = || connect(&fixture, "ada", "");
    let _two = (ada().expect("a place"), ada().expect("a place"));
    let refused = ada().err().expect("a refusal");
    let refused = refused.as_db_error().expect("words of the server");
    assert_eq!(*refused.code(), SqlState::TOO_MANY_CONNECTIONS);
    assert!(refused.message().contains("superusers"), "{}", refused.message());
    let _three = [(); 3].map(|()| fixture.client());
    assert_eq!(code(fixture.try_client()), SqlState::TOO_MANY_CONNECTIONS);
}

#[test]
fn wrong_passwords_are_throttled_and_other_clients_do_not_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let asking = ServerOptions { trust: Trust::Nobody, ..options() };
    let database = || Options::in_folder(folder.path(), 1);
    Fixture::serve(database(), options())
        .client()
        .batch_execute("create user ada password 'a'; create user bob password 'b'")
        .expect("two users");
    let mut fixture = Fixture::serve(database(), asking);
    let socket = fixture.server.listen_in(folder.path()).expect("a socket");
    #[allow(clippy::disallowed_methods, reason = "how long guesses take is what is measured")]
    let begun = Instant::now();
    let mut answered = 0;
    // Ten are answered at once, then each takes seconds.
    std::thread::scope(|scope| {
        let guess = |_| scope.spawn(|| code(connect(&fixture, "ada", "wrong")));
        let guesses: Vec<_> = (0..10).map(guess).collect();
        for guess in guesses {
            assert_eq!(guess.join().expect("no panic"), SqlState::INVALID_PASSWORD);
            answered += 1;
        }
        let guesses: Vec<_> = (0..20).map(guess).collect();
        connect(&fixture, "ada", "a").expect("the right password does not wait");
        connect(&fixture, "bob", "b").expect("another user does not wait");
        let near = format!(
            "host={} port={} user=ada password=a dbname=d",
            folder.path().display(),
            fixture.server.address().port()
        );
        Client::connect(&near, NoTls).expect("nor does the same one elsewhere");
        let ended = guesses.into_iter().map(|guess| guess.join().expect("no panic"));
        answered += ended.count();
    });
    assert!(socket.exists());
    assert_eq!(answered, 30);
    assert!(begun.elapsed() > Duration::from_secs(2), "they were answered at once");
}

#[test]
fn rights_that_are_not_kept_are_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.batch_execute("create user ada; create table t (id int)").expect("a user");
    for refused in [
        "grant connect on database d to ada",
        "revoke usage on type int4 from public",
        "grant execute on function f to ada",
        "grant select on t to ada granted by isomer",
        "alter default privileges grant select on tables to ada",
        "create user eve noinherit",
        "alter user ada createrole",
        "drop owned by ada",
    ] {
        let error = client.batch_execute(refused).expect_err("a refusal");
        let error = error.as_db_error().expect("words of the server");
        assert_eq!(*error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{refused}");
    }
    client
        .batch_execute("reset role; set role none; reset session authorization")
        .expect("as it is");
}
