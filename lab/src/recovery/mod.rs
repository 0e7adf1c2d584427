//! Recovery measured: histories with a known truth, and the published examples beside them.
//!
//! In reading order: [`history`] (a poisoned history, and what is true of every entry), `played` (the same on a real
//! store), `methods` (Custody, the papers' two and rollback by time, on the same record), `published` (the papers'
//! examples), `held` (the benign entries that Custody keeps in quarantine, and why), `obeyed` (an agent that did what
//! it read), `certificate` (a certificate with every byte flipped), `spellings` (what a search for a phrase finds),
//! `probes` (a language model that is asked for what was destroyed), [`overhead`] (what it all takes), [`agmi`] (a
//! store edited behind its back), [`suite`].

pub mod agmi;
mod certificate;
mod held;
pub mod history;
mod methods;
mod obeyed;
pub mod overhead;
mod played;
mod probes;
mod published;
mod spellings;
pub mod suite;
