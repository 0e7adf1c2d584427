//! The project's own chores: `cargo xtask test`, `tidy`, `ci`, `fuzz` and `reports`.

mod chores;
mod ci;
mod fuzz;
mod reports;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use chores::CHORES;

/// Exit codes: 0 fine, 1 findings or failed tests, 2 wrong usage or a chore that could not run.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(compiled) = fuzz::wrap_compiler(&arguments) {
        return compiled.unwrap_or_else(|error| {
            eprintln!("cargo xtask fuzz: {error:#}");
            ExitCode::from(2)
        });
    }
    let chore = arguments.first().and_then(|name| CHORES.iter().find(|chore| chore.name == *name));
    let Some(chore) = chore else {
        eprint!("{}", chores::usage());
        return ExitCode::from(2);
    };
    (chore.run)(&arguments[1..]).unwrap_or_else(|error| {
        eprintln!("cargo xtask {}: {error:#}", chore.name);
        ExitCode::from(2)
    })
}
