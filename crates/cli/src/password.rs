//! The password of a client, found as libpq does: in `PGPASSWORD`, then in the file `PGPASSFILE` or
//! `~/.pgpass`.
//!
//! A line of the file is `host:port:database:user:password`; `*` matches anything, and a backslash
//! escapes a colon or a backslash. A file that other users can read is ignored.

use postgres::Config;
use postgres::config::Host;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The password for a connection, if there is one.
pub(crate) fn of(config: &Config) -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(password) = variable("PGPASSWORD") {
        return Some(password);
    }
    let own = || variable("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
    let path = variable("PGPASSFILE").map(PathBuf::from).or_else(own)?;
    if fs::metadata(&path).ok()?.permissions().mode() & 0o077 != 0 {
        return None;
    }
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    find(&fs::read_to_string(path).ok()?, [&host, &port, database, user])
}

/// The password of the first line that matches.
fn find(file: &str, wanted: [&str; 4]) -> Option<String> {
    file.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line);
        let fits = fields.len() >= 5
            && fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fits.then(|| fields.swap_remove(4))
    })
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut letters) = (vec![String::new()], line.chars());
    while let Some(letter) = letters.next() {
        match letter {
            ':' => fields.push(String::new()),
            '\\' => fields.iter_mut().rev().take(1).for_each(|field| field.extend(letters.next())),
            letter => fields.iter_mut().rev().take(1).for_each(|field| field.push(letter)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let file = "# passwords\nnorth:5433:*:ada:first\n*:*:*:ada:se\\:cond\n*:1:x:bob:third\n";
        let found = |wanted| find(file, wanted);
        assert_eq!(found(["north", "5433", "isomer", "ada"]).as_deref(), Some("first"));
        assert_eq!(found(["south", "5433", "isomer", "ada"]).as_deref(), Some("se:cond"));
        assert_eq!(found(["south", "1", "x", "bob"]).as_deref(), Some("third"));
        assert_eq!(found(["south", "2", "x", "bob"]), None);
    }
}
