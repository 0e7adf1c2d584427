//! A tool call that nobody decided.

use custody_kernel::record::Value;
use custody_kernel::actions::call::AllowedCall;

fn skip_the_decision(tool: String, arguments: Value) -> AllowedCall {
    AllowedCall { tool, arguments }
}

fn main() {}
