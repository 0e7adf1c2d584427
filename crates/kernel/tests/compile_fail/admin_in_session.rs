//! A session that asks what only a principal may ask.

use custody_kernel::memory::rate::Limits;
use custody_kernel::record::AdminRequest;
use custody_kernel::state::SubmittedRequest;
use custody_log::SessionId;

fn unlimited(session: SessionId) -> SubmittedRequest {
    SubmittedRequest::Session(session, AdminRequest::SetLimits(Limits::UNLIMITED))
}

fn main() {}
