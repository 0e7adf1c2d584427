//! A principal that asks, outside any session, what only a session may ask.

use custody_kernel::principal::Authority;
use custody_kernel::record::SessionRequest;
use custody_kernel::state::SubmittedRequest;

fn close(authority: Authority) -> SubmittedRequest {
    SubmittedRequest::Admin(authority, SessionRequest::CloseSession)
}

fn main() {}
