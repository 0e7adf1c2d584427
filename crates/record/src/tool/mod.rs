//! Tool calls as they are proposed, asked about and recorded (docs/design.md §5).
//!
//! In reading order: `call`, `basis` (the texts that a call is judged by), `asked` (calls that wait for a human),
//! `extract` (single values of closed kinds out of an output), `intent` (calls that were
//! declared beforehand). Where the values of a call came from is traced by
//! `custody-arguments`.

pub mod asked;
pub mod basis;
pub mod call;
pub mod extract;
pub mod intent;
