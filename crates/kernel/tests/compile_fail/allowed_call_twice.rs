//! A call that runs twice.

use custody_kernel::actions::call::AllowedCall;

fn run(_call: AllowedCall) {}

fn run_twice(call: AllowedCall) {
    run(call.clone());
    run(call);
}

fn main() {}
