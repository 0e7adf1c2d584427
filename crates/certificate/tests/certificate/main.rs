//! Recovery certificates: what is signed, what is refused, and with which reason.

mod agreement;
mod claims;
mod entries;
mod fixture;
mod golden;
mod holes;
mod hostile;
mod json;
mod schema;
