//! Standard output, which its reader may close before the end: `isomer-lab sim | head` is no error.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

/// Prints a line.
pub fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints a line of a process that goes on, whether or not there is a reader.
pub fn tell(text: impl Display) {
    let mut out = stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints text without a newline, and flushes it.
pub fn print(text: impl Display) {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => {}
        // The reader has closed the pipe, so there is nothing left to do.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}
