//! Passwords and encryption: who gets in, and what is refused.
//!
//! The client is a plain socket here, as the crate `postgres` proves passwords by itself; encryption is
//! tried with psql by `clients/tls`.

mod fixture;

use fixture::{Fixture, code, options};
use isomer_cluster::Options;
use isomer_server::{Engine, Server, ServerOptions};
use postgres::error::SqlState;
use postgres::{Client, NoTls};

#[test]
fn a_password_opens_the_door_and_another_one_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = || Options::in_folder(folder.path(), 2);
    let fixture = Fixture::serve(database(), options());
    let mut client = fixture.client();
    client.batch_execute("create user ada password 'naïve; secret'").expect("a user");
    client.batch_execute("create role nobody").expect("a user without a password");
    assert_eq!(code(client.batch_execute("create user ada")), SqlState::DUPLICATE_OBJECT);
    assert_eq!(code(client.batch_execute("drop user bob")), SqlState::UNDEFINED_OBJECT);
    client.batch_execute("drop user if exists bob").expect("nothing to do");
    drop((client, fixture));

    let fixture = Fixture::serve(database(), ServerOptions { passwords_always: true, ..options() });
    let port = fixture.server.address().port();
    let connect = |user: &str, password: &str| {
        let config =
            format!("host=127.0.0.1 port={port} user={user} password='{password}' dbname=d");
        Client::connect(&config, NoTls)
    };
    let mut ada = connect("ada", "naïve; secret").expect("it is the password");
    for (user, password) in
        [("ada", "naive; secret"), ("bob", "x"), ("nobody", "x"), ("nobody", "")]
    {
        let refused = connect(user, password).err().expect("a refusal");
        let refused = refused.code().cloned();
        assert!(
            refused.as_ref().is_none_or(|code| *code == SqlState::INVALID_PASSWORD),
            "{user} {refused:?}"
        );
    }
    ada.batch_execute("alter user ada with password 'other'").expect("a change");
    connect("ada", "other").expect("it is the password now");
    assert_eq!(code(connect("ada", "naïve; secret")), SqlState::INVALID_PASSWORD);
}

#[test]
fn other_machines_are_served_with_encryption_and_a_user_only() {
    let engine = Engine::open(Options::in_memory(1), None);
    let engine = engine.expect("a catalog");
    let listen = "0.0.0.0:0".parse().expect("an address");
    let refused = Server::start(engine, ServerOptions { listen, ..options() });
    let refused = refused.err().expect("a refusal").to_string();
    assert!(refused.contains("--tls-cert") && refused.contains("127.0.0.1"), "{refused}");
}
