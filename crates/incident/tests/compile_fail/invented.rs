//! A stage cannot be made up, and an answer that may be a refusal is not the next stage.

use custody_incident::stage::{Contained, Opened, Planned, Probed};
use custody_incident::{Incident, Incidents, Settings, StepResult};
use custody_log::IncidentId;
use custody_planner::Plan;

fn made_up(incidents: Incidents<'_>, id: IncidentId, plan: Plan) {
    let _ = Incident { incidents, id, stage: Probed { plan } };
    let _ = Opened(());
}

fn taken_for_granted(contained: StepResult<Incident<'_, Contained>>) -> Incident<'_, Planned> {
    contained.plan(Settings::default()).unwrap()
}

fn main() {}
