//! A recorded call put to a store again, with the origins that its record claims.

use custody_kernel::state::SubmittedRequest;
use custody_kernel::tool::call::Call;
use custody_log::SessionId;

fn again(session: SessionId, call: Call) -> SubmittedRequest {
    SubmittedRequest::Call(session, Box::new(call))
}

fn main() {}
