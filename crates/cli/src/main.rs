//! The program `isomer`; the library of the same name holds its commands.

use std::process::ExitCode;

/// Each session has a thread that allocates and frees all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    isomer::main()
}
