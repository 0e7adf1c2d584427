//! Single values out of an output that the model does not get to read.

use custody_arguments::{ClosedShape, ShapedValue};
use custody_kernel::record::{Answer, SessionRequest, Value as Recorded};
use custody_kernel::state::AskError;
use custody_kernel::tool::basis::BasisKind;
use custody_kernel::tool::extract::Extract;
use custody_log::{EntryId, SessionId};
use custody_store::{Content, Receipt, StoreError, Ticket, Transaction};
use serde_json::Value;

use super::decide::{allowed, record_output};
use super::{Gate, GateError, Output};
use crate::echo::Fingerprints;
use crate::session::Session;

/// One field that was asked for.
#[derive(Debug, Clone)]
pub struct Extracted {
    /// Its path.
    pub field: String,
    /// What to show the model: the value in its one spelling; nothing if it is not there or of another kind, or if
    /// it was refused.
    pub value: Option<String>,
    /// The decision.
    pub receipt: Receipt,
}

impl Session {
    /// Records what a call brought back without showing it to the model, and takes single `fields` out of it: paths
    /// of names, each with a closed kind in the tool's manifest and named by the policy that the owner signed. The
    /// host shows the model what comes back, and nothing else of the output; where that is not enough, the whole of
    /// it is still [`Session::result`]'s to record.
    ///
    /// Nothing is recorded unless the manifest has a kind for every field.
    pub fn extract(
        &self,
        gate: &Gate,
        decision: EntryId,
        output: impl Into<Output>,
        fields: Vec<String>,
    ) -> Ticket<Vec<Extracted>, GateError> {
        let (id, gate, traced) = (self.id(), gate.clone(), self.traced());
        let Output { text, structured } = output.into();
        let advice = self.advice_on_output(&text, structured.as_ref());
        let fingerprints = Fingerprints::of_untrusted(self.store(), id, &text);
        self.run(move |step| {
            let (call, asked) = allowed(step, id, decision)?;
            let tool = gate.tool(&asked.tool).manifest;
            let shapes = fields.into_iter().map(|field| match tool.closed_output.get(&field) {
                Some(shape) => Ok((shape.clone(), field)),
                None => Err(GateError::NoShape(field)),
            });
            let shapes: Vec<(ClosedShape, String)> = shapes.collect::<Result<_, _>>()?;
            let mut known = traced.known();
            if known.answered.contains(&decision) {
                return Err(AskError::UnknownEntry(call).into());
            }
            let content = Content::new(text.as_str())?;
            let request =
                SessionRequest::Withhold { call, content: Recorded::New(content.commitment()) };
            let advice = advice.into_iter().collect();
            let withheld = step.ask(id, request, Some(&content), advice)?;
            fingerprints?.keep(step, withheld.seq)?;
            if let Some(structured) = &structured {
                let of = BasisKind::Output { call, texts: vec![withheld.seq] };
                record_output(step, id, of, structured)?;
            }
            let mut extracted = Vec::with_capacity(shapes.len());
            for (shape, field) in shapes {
                let taken = structured.as_ref().and_then(|output| take_out(output, &field, &shape));
                let asked = Extract { call, output: withheld.seq, field, shape, value: None };
                let one = take(step, id, asked, taken.as_ref())?;
                if let Some(value) = one.value.clone() {
                    known.note(move |texts| texts.add_extracted(withheld.seq, &value));
                }
                extracted.push(one);
            }
            Ok(extracted)
        })
    }
}

/// Asks for one field, with what was found there.
fn take(
    step: &mut Transaction<'_>,
    session: SessionId,
    mut extract: Extract,
    taken: Option<&ShapedValue>,
) -> Result<Extracted, StoreError> {
    let content = taken.map(|taken| Content::new(taken.as_str())).transpose()?;
    extract.value = content.as_ref().map(|content| Recorded::New(content.commitment()));
    let field = extract.field.clone();
    let request = SessionRequest::Extract(Box::new(extract));
    let receipt = step.ask(session, request, content.as_ref(), Vec::new())?;
    let taken = taken.filter(|_| receipt.answer == Answer::Done);
    Ok(Extracted { field, value: taken.map(|taken| taken.as_str().to_owned()), receipt })
}

/// The value of `shape` at the end of `path`, names with dots between them. `None` if there is none.
pub fn take_out(output: &Value, path: &str, shape: &ClosedShape) -> Option<ShapedValue> {
    let found = path.split('.').try_fold(output, |value, name| value.as_object()?.get(name))?;
    shape.take(found)
}
