//! Running the program as a shell does.

use std::process::Command;

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn isomer(args: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_isomer")).args(args).output();
    let output = output.expect("the program starts");
    Ended {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).expect("it writes text"),
        err: String::from_utf8(output.stderr).expect("it writes text"),
    }
}
