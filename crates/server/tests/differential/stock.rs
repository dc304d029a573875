//! A stock PostgreSQL, for as long as a test runs.

use postgres::{Client, NoTls};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// See the [module documentation](self). Dropping it stops the server.
pub(crate) struct Stock {
    process: Child,
    /// The loopback port of its listener.
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Stock {
    /// Starts a server.
    ///
    /// # Errors
    /// The missing program.
    pub(crate) fn start() -> Result<Stock, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/postgres");
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = Command::new(script);
        command.arg(folder.path()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let mut said = String::new();
        let lines = process.stdout.take().expect("it is piped");
        BufReader::new(lines).read_line(&mut said).map_err(|error| error.to_string())?;
        let port = said.trim().parse().map_err(|_| said.trim().to_owned())?;
        Ok(Stock { process, port, _folder: folder })
    }

    /// A client, once the server answers.
    #[allow(clippy::disallowed_methods, reason = "another program is waited for")]
    pub(crate) fn client(&self) -> Client {
        let config = format!("host=127.0.0.1 port={} user=postgres", self.port);
        for _ in 0..1200 {
            if let Ok(client) = Client::connect(&config, NoTls) {
                return client;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("the PostgreSQL at port {} does not answer", self.port);
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        // SIGINT: PostgreSQL's fast shutdown.
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}
