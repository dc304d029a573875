//! The program `isomer`. The library of the same name has its commands.

use std::process::ExitCode;

/// Faster than the default for sessions, which allocate in many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    isomer::main()
}
