//! Advice: what a detector found in a text, recorded beside the entry and read by no decision.
//!
//! The runtime has no detector of its own. A host that has one gives it to a session as an [`Advisor`].

use std::fmt;

use custody_kernel::label::Channel;

pub use custody_kernel::advice::{
    Advice, ClaimedTokens, Coverage, DryRun, ExchangeCoverage, ExchangeUsage, NotScreened,
    Screening, Version1, WouldDecide,
};

/// Says something about a text that enters, for whoever reads the record later.
pub trait Advisor: Send + Sync {
    /// Advice about `text`, which entered on `channel`; `None` when there is none to give. A text that could not be
    /// looked at is said to be so: silence is no clearance.
    fn advise(&self, text: &str, channel: Channel) -> Option<Advice>;
}

impl fmt::Debug for dyn Advisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Advisor")
    }
}
