//! Standard output, which may end before the program does: `isomer-lab sim | head` is no error.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

/// Prints a line.
pub fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints text as it is, and at once.
pub fn print(text: impl Display) {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => {}
        // Nobody reads any more, so there is nothing left to do.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}
