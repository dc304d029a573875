//! Golden scripts: statements and what clients see of them. Each script has a server of its own; a
//! prefix such as `a:` names a client.
//!
//! ```text
//! a:> begin
//! ---
//! a: BEGIN
//! ```

use goldenscript::{Command, Context, Runner};
use isomer_cluster::Options;
use isomer_server::{Engine, Server, ServerOptions};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

struct Scripts {
    server: Server,
    clients: BTreeMap<String, Client>,
}

fn clock() -> i64 {
    1_700_000_000_000_000
}

impl Scripts {
    fn new() -> Scripts {
        let engine = Engine::open(Options::in_memory(2), None).expect("a catalog");
        let listen = "127.0.0.1:0".parse().expect("an address");
        let options = ServerOptions::new(listen, clock, |bytes| bytes.fill(7));
        let server = Server::start(engine, options).expect("a free port");
        Scripts { server, clients: BTreeMap::new() }
    }
}

impl Runner for Scripts {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let name = context.prefix.clone().unwrap_or_default();
        let port = self.server.address().port();
        let connect = || {
            let config = format!("host=127.0.0.1 port={port} user=test dbname=test");
            Client::connect(&config, NoTls).expect("the server answers")
        };
        let client = self.clients.entry(name).or_insert_with(connect);
        Ok(show(client.simple_query(&command.name)))
    }
}

fn show(result: Result<Vec<SimpleQueryMessage>, postgres::Error>) -> String {
    let mut shown = String::new();
    let messages = match result {
        Ok(messages) => messages,
        Err(error) => {
            let Some(error) = error.as_db_error() else { return format!("{error}\n") };
            let _ = write!(shown, "{} {}", error.code().code(), error.message());
            if let Some(postgres::error::ErrorPosition::Original(at)) = error.position() {
                let _ = write!(shown, " @{at}");
            }
            let _ = writeln!(shown);
            for (what, more) in [("detail", error.detail()), ("hint", error.hint())] {
                if let Some(more) = more {
                    let _ = writeln!(shown, "  {what}: {more}");
                }
            }
            return shown;
        }
    };
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                let _ = writeln!(shown, "{}", values.collect::<Vec<_>>().join(" | "));
            }
            SimpleQueryMessage::CommandComplete(count) => {
                let _ = writeln!(shown, "({count})");
            }
            _ => {}
        }
    }
    shown
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of scripts")
        .map(|entry| entry.expect("a file").path())
        .collect();
    paths.sort();
    for path in paths {
        goldenscript::run(&mut Scripts::new(), &path).unwrap_or_else(|error| {
            panic!("{}: {error}", path.display());
        });
    }
}
