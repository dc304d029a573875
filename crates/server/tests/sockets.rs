//! Unix sockets: clients are accepted and refused as over TCP; the file exists as long as its
//! server.

mod fixture;

use fixture::{Fixture, code, options};
use isomer_cluster::Options;
use isomer_server::{ServerOptions, Trust};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A server, and the folder of its socket.
struct Local {
    fixture: Fixture,
    folder: TempDir,
    socket: PathBuf,
}

impl Local {
    fn serve(mut fixture: Fixture) -> Local {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = fixture.server.listen_in(folder.path()).expect("nothing is there");
        Local { fixture, folder, socket }
    }

    fn client(&self) -> Client {
        self.try_client().expect("the server answers")
    }

    fn try_client(&self) -> Result<Client, postgres::Error> {
        let port = self.fixture.server.address().port();
        let mut config = Config::new();
        config.host_path(self.folder.path()).port(port).user("isomer").dbname("test").connect(NoTls)
    }

    /// A bare socket with a session.
    fn session(&self) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).expect("the server listens");
        stream.write_all(b"\0\0\0\x15\0\x03\0\0user\0isomer\0\0").expect("it is read");
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.ends_with(b"Z\0\0\0\x05I") {
            stream.read_exact(&mut byte).expect("the session begins");
            said.extend(byte);
        }
        stream
    }
}

/// All that the server says until it ends the connection.
fn answer(mut stream: UnixStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("all is answered");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The path of a server's socket in a folder.
fn path_in(folder: &Path, fixture: &Fixture) -> PathBuf {
    folder.join(format!(".s.PGSQL.{}", fixture.server.address().port()))
}

fn refusal(fixture: &mut Fixture, folder: &Path) -> (ErrorKind, String) {
    let refused = fixture.server.listen_in(folder).expect_err("a refusal");
    (refused.kind(), refused.to_string())
}

#[test]
fn statements_work_as_over_tcp_and_the_file_goes_with_the_server() {
    let mut local = Local::serve(Fixture::new());
    assert_eq!(local.socket, path_in(local.folder.path(), &local.fixture));
    let mode = local.socket.metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = local.client();
    client.batch_execute("create table t (id int primary key, v text)").expect("a table");
    let rows = "insert into t select n, repeat('x', 100) from generate_series(1, 20000) n";
    assert_eq!(client.execute(rows, &[]).expect("rows"), 20_000);
    for client in [&mut client, &mut local.fixture.client()] {
        assert_eq!(client.query("select * from t", &[]).expect("rows").len(), 20_000);
    }
    drop(client);

    let silent = local.session();
    local.fixture.server.stop();
    assert!(answer(silent).contains("57P01"), "it was not told why its connection ended");
    assert!(!local.socket.exists());
    assert!(local.try_client().is_err());
}

#[test]
fn encryption_is_declined_and_a_password_is_asked_for_where_all_need_one() {
    let asking = ServerOptions { trust: Trust::Nobody, ..options() };
    let local = Local::serve(Fixture::serve(Options::in_memory(1), asking));
    let mut stream = UnixStream::connect(&local.socket).expect("the server listens");
    stream.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").expect("it is read");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"N");
    let config = format!(
        "host={} port={} user=ada password=x dbname=d",
        local.folder.path().display(),
        local.fixture.server.address().port()
    );
    assert_eq!(code(Client::connect(&config, NoTls)), SqlState::INVALID_PASSWORD);
}

#[test]
fn a_cancel_request_ends_a_wait() {
    let local = Local::serve(Fixture::new());
    fixture::cancel_a_wait(local.client(), local.client());
}

#[test]
fn silence_ends_a_connection() {
    let local = Local::serve(Fixture::with(&[("idle_session_timeout", "50ms")]));
    assert!(answer(local.session()).contains("57P05"));
}

#[test]
fn the_file_of_a_dead_server_is_replaced() {
    let mut fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(folder.path(), &fixture);
    drop(UnixListener::bind(&path).expect("nothing is there"));
    assert!(path.exists(), "as it would be after a kill");
    fixture.server.listen_in(folder.path()).expect("no server listens there");
    UnixStream::connect(&path).expect("the server listens");
}

#[test]
fn files_of_other_programs_stay() {
    let mut fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(folder.path(), &fixture);
    let other = UnixListener::bind(&path).expect("nothing is there");
    let (kind, refused) = refusal(&mut fixture, folder.path());
    assert_eq!(kind, ErrorKind::AddrInUse);
    assert!(refused.contains(&path.display().to_string()), "{refused}");
    assert!(refused.contains("a server listens there; stop it"), "{refused}");
    UnixStream::connect(&path).expect("the other listens as before");
    drop(other);

    std::fs::remove_file(&path).expect("a file");
    std::fs::write(&path, "a letter").expect("a file");
    let (_, refused) = refusal(&mut fixture, folder.path());
    assert!(refused.contains("something else has this name"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "a letter");
}

#[test]
fn places_that_cannot_be_are_named() {
    let mut fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (kind, refused) = refusal(&mut fixture, &folder.path().join("nowhere"));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(refused.contains("nowhere") && refused.contains("folder is missing"), "{refused}");
    let long = folder.path().join("a".repeat(100));
    std::fs::create_dir(&long).expect("a folder");
    let (_, refused) = refusal(&mut fixture, &long);
    assert!(refused.contains("too long") && refused.contains("shorter folder"), "{refused}");
    fixture.client().batch_execute("select 1").expect("it listens at its address");
}

/// An operator deletes the file, and another server starts there. The first one still stops, and
/// leaves the other alone.
#[test]
fn a_server_whose_file_was_taken_away_still_stops() {
    let mut local = Local::serve(Fixture::new());
    std::fs::remove_file(&local.socket).expect("a file");
    let _other = UnixListener::bind(&local.socket).expect("nothing is there");
    local.fixture.server.stop();
    assert!(local.socket.exists());
}
