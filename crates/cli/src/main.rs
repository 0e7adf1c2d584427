//! The `custody` command; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    custody_cli::run()
}
