//! Arguments whose origins somebody declares instead of tracing them.

use custody_arguments::{RecordedArgument, TracedArguments};

fn declare(arguments: Vec<RecordedArgument>) -> TracedArguments {
    TracedArguments(arguments)
}

fn main() {}
