//! The `oxolm` binary: see [`oxolm::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    oxolm::cli::main()
}
