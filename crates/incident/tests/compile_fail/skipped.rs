//! Neither applied without a plan, nor certified without having been applied and looked after.

use custody_incident::Incident;
use custody_incident::stage::{Applied, Contained, Opened, Planned};
use custody_kernel::principal::Authority;
use custody_keys::HumanKey;

fn applied_without_a_plan(opened: Incident<'_, Opened>, owner: &Authority) {
    let _ = opened.apply(owner);
}

fn examined_before_it_is_applied(contained: Incident<'_, Contained>) {
    let _ = contained.skip_probes();
}

fn certified_before_it_is_applied(planned: Incident<'_, Planned>, owner: &Authority, key: &HumanKey) {
    let _ = planned.certify(owner, key, "custody");
}

fn certified_before_it_was_examined(applied: Incident<'_, Applied>, owner: &Authority, key: &HumanKey) {
    let _ = applied.certify(owner, key, "custody");
}

fn main() {}
