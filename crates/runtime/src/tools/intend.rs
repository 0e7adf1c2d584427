//! Declaring intents: the calls that a session means to make, said while its context is clean.

use custody_arguments::Intent;
use custody_kernel::record::{Answer, SessionRequest, Value};
use custody_kernel::tool::intent::{IntentDeclaration, IntentTerms};
use custody_store::{Content, Receipt, StoreError, Ticket};

use super::{Gate, GateError};
use crate::session::Session;

/// The most intents that are declared together.
pub const MAX_INTENTS: usize = 64;
/// How long intents may be used if their host does not say, in milliseconds: an hour.
pub const INTENT_MS: u64 = 60 * 60 * 1_000;

impl Session {
    /// Declares `intents` for the calls of `covered`: of this session, or of another one of the same principal that has
    /// read untrusted text since. They may be used for `for_ms` milliseconds, at most a day.
    ///
    /// The answer is a refusal when this session has read anything untrusted, or nothing at all.
    pub fn intend(
        &self,
        gate: &Gate,
        covered: &Self,
        intents: Vec<Intent>,
        for_ms: u64,
    ) -> Ticket<Receipt, GateError> {
        let (id, gate, target) = (self.id(), gate.clone(), covered.id());
        let traced = covered.traced();
        self.run(move |step| {
            check(&gate, &intents)?;
            let text = serde_json::to_string(&intents).map_err(|_| GateError::TooManyIntents)?;
            let content = Content::new(text)?;
            let expires = step.now().plus_ms(for_ms);
            let terms = intents.iter().map(|intent| IntentTerms { count: intent.count, expires });
            let declaration = IntentDeclaration {
                text: Value::New(content.commitment()),
                terms: terms.collect(),
                for_session: (target != id).then_some(target),
            };
            let request = SessionRequest::DeclareIntents(Box::new(declaration));
            let receipt = step.ask(id, request, Some(&content), Vec::new())?;
            if receipt.answer == Answer::Done {
                traced.known().intents.add(receipt.seq, intents);
            }
            Ok(receipt)
        })
    }

    /// The intents that calls of this session may use, with what is left of each.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn intents(&self) -> Result<Vec<(Intent, IntentTerms)>, StoreError> {
        let id = self.id();
        let open = self.store().state(|state| {
            let now = state.now();
            state.open_intents(id, now).collect::<std::collections::BTreeMap<_, _>>()
        })?;
        let traced = self.traced();
        let known = traced.known();
        let declared = known.intents.iter();
        Ok(declared
            .filter_map(|(named, intent)| Some((intent.clone(), *open.get(&named)?)))
            .collect())
    }
}

fn check(gate: &Gate, intents: &[Intent]) -> Result<(), GateError> {
    if intents.is_empty() || intents.len() > MAX_INTENTS {
        return Err(GateError::TooManyIntents);
    }
    intents.iter().try_for_each(|intent| gate.check_intent(intent))
}

impl Gate {
    /// Checks that an intent is for a tool that a manifest describes, and binds what a call of it does.
    ///
    /// # Errors
    /// The first problem.
    pub fn check_intent(&self, intent: &Intent) -> Result<(), GateError> {
        self.check_name(&intent.tool)?;
        let tool = self.tool(&intent.tool);
        if !tool.known {
            return Err(GateError::UnknownIntent(intent.tool.clone()));
        }
        Ok(intent.check(&tool.manifest)?)
    }
}
