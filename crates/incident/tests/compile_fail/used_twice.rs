//! A stage is consumed by the next: no plan is applied twice, and none is made of what was contained before.

use custody_incident::stage::{Opened, Planned};
use custody_incident::{Incident, Settings};
use custody_kernel::principal::Authority;

fn applied_twice(planned: Incident<'_, Planned>, owner: &Authority) {
    let _ = planned.apply(owner);
    let _ = planned.apply(owner);
}

fn planned_from_what_it_was(opened: Incident<'_, Opened>, owner: &Authority) {
    let _ = opened.contain(owner);
    let _ = opened.plan(Settings::default());
}

fn main() {}
