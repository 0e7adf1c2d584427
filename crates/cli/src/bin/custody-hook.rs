//! `custody hook run` as a program of its own, which starts in less time: hosts wait for it before every call.

use std::process::ExitCode;

fn main() -> ExitCode {
    custody_cli::run_hook()
}
