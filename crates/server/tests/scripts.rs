//! Golden scripts: statements and the answers that clients see. Each script has its own server. A
//! prefix such as `a:` names a client; it connects as the user of this name, if there is one.
//!
//! ```text
//! a:> begin                           b: [later]> update t set v = 1      b:> select v from t
//! ---                                 ---                                 ---
//! a: BEGIN                            b: waits                            b: UPDATE 1
//!                                                                         b: 1
//! ```
//!
//! A statement shown as `[later]` runs in the background once it waits for other transactions; its
//! answer is shown before the client's next statement. `[crash]`: a server starts with the current
//! contents of the files. `[ended]`: the statement is sent after all reconfigurations have ended.

#![allow(clippy::disallowed_methods, reason = "a statement that waits has a thread of its own")]

use goldenscript::{Command, Context, Runner};
use isomer_cluster::Options;
use isomer_server::{
    Decider, Engine, Noted, Server, ServerOptions, Trust, note_events, write_history,
};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

struct Scripts {
    folder: TempDir,
    server: Server,
    engine: Arc<Engine>,
    clients: BTreeMap<String, Client>,
    /// Statements in the background.
    later: BTreeMap<String, JoinHandle<(Client, String)>>,
}

fn clock() -> i64 {
    1_700_000_000_000_000
}

impl Scripts {
    fn new() -> Scripts {
        Scripts::serve(TempDir::new().expect("a folder"))
    }

    fn serve(folder: TempDir) -> Scripts {
        let engine = Engine::open(Options::in_folder(folder.path(), 2), Decider::default(), None)
            .expect("a catalog");
        let listen = "127.0.0.1:0".parse().expect("an address");
        let trust = Trust::Loopback;
        let options =
            ServerOptions { trust, ..ServerOptions::new(listen, clock, |bytes| bytes.fill(7)) };
        let server = Server::start(engine.clone(), options).expect("a free port");
        Scripts { folder, server, engine, clients: BTreeMap::new(), later: BTreeMap::new() }
    }

    /// A server with a copy of the current files, while this one works.
    fn crash(&mut self) {
        // The program does this all the time.
        note_events(&self.engine, &mut Noted::default());
        while write_history(&self.engine, &Arc::default()).expect("it is written") {}
        let image = TempDir::new().expect("a folder");
        copy(self.folder.path(), image.path());
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(image.path(), own).expect("a folder of one's own");
        *self = Scripts::serve(image);
    }

    /// A client, as the user of this name, if there is one.
    fn connect(&self, name: &str) -> Client {
        let port = self.server.address().port();
        let config = |user: &str| format!("host=127.0.0.1 port={port} user={user} dbname=test");
        let own = (!name.is_empty()).then(|| Client::connect(&config(name), NoTls).ok()).flatten();
        let first = || Client::connect(&config("isomer"), NoTls).expect("the server answers");
        own.unwrap_or_else(first)
    }

    /// Waits until all statements in the background wait for other transactions or have ended.
    fn settle(&self) -> bool {
        loop {
            let working = self.later.values().filter(|later| !later.is_finished()).count();
            let waiting = self.engine.gateway().waiting()
                + self.engine.waiting_for_readers()
                + self.engine.held_up();
            if waiting >= working {
                return working > 0;
            }
            std::thread::yield_now();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir(&to).expect("a folder");
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).expect("a copy");
        }
    }
}

impl Runner for Scripts {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        if context.tags.contains("crash") {
            self.crash();
        }
        if context.tags.contains("ended") {
            let all = || self.engine.database().reconfigurations();
            while !all().iter().all(isomer_cluster::Reconfiguration::has_ended) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        let name = context.prefix.clone().unwrap_or_default();
        let mut shown = String::new();
        if let Some(later) = self.later.remove(&name) {
            let (client, result) = later.join().expect("no fault");
            self.clients.insert(name.clone(), client);
            shown = result;
        }
        let mut client = self.clients.remove(&name).unwrap_or_else(|| self.connect(&name));
        if context.tags.contains("later") {
            let text = command.name.clone();
            let work = move || {
                let result = show(client.simple_query(&text));
                (client, result)
            };
            self.later.insert(name, std::thread::spawn(work));
            if self.settle() {
                shown.push_str("waits\n");
            }
        } else {
            shown.push_str(&show(client.simple_query(&command.name)));
            self.clients.insert(name, client);
            self.settle();
        }
        Ok(shown)
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
            let more =
                [("detail", error.detail()), ("hint", error.hint()), ("context", error.where_())];
            for (what, more) in more {
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

/// Scripts wait for the disk most of the time, so several run at once.
const AT_ONCE: usize = 8;

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let paths = std::fs::read_dir(folder).expect("the folder of scripts");
    let paths = Mutex::new(paths.map(|entry| entry.expect("a file").path()));
    let next = || paths.lock().expect("no fault").next();
    let run = |path: &Path| {
        println!("script {}", path.display());
        goldenscript::run(&mut Scripts::new(), path).expect("it can be read and written");
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| std::iter::from_fn(next).for_each(|path| run(&path)));
        }
    });
}
