//! A decision that the state did not make.

use custody_log::{Seq, Timestamp};
use custody_kernel::label::Label;
use custody_kernel::record::{Answer, Author, Request};
use custody_kernel::monitor::Decided;

fn decide_alone(by: Author, request: Request, label: Label) -> Decided {
    Decided {
        seq: Seq(1),
        at: Timestamp(0),
        by,
        request,
        answer: Answer::Done,
        label,
        parents: Vec::new(),
        after: None,
    }
}

fn main() {}
