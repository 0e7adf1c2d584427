//! The answer of a policy: the strictest of the statements that hold.
//!
//! A statement that cannot be evaluated denies, whatever its effect: unknown is not clean. Otherwise a plain `forbid`
//! denies, the absence of a `permit` denies, a `forbid` with `@answer("ask")` asks, and the call is allowed.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{Authorizer, PolicyId, PolicySet};
use custody_kernel::tool::call::{Permission, PolicyAnswer};

use crate::facts::Facts;
use crate::policy::Policy;
use crate::question::Question;
use crate::request::{CedarRequest, RequestError};
use crate::statement::{CEDAR, Statement, StatementEffect};

/// Which statements hold of a call, and which failed.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    holding: HashSet<PolicyId>,
    failed: HashMap<PolicyId, String>,
}

impl Policy {
    /// Answers one question. Never panics and never fails: a question that cannot be evaluated is denied.
    ///
    /// Source: docs/design.md §5.5.
    pub fn answer(&self, question: &Question<'_>) -> PolicyAnswer {
        self.answer_to(self.evaluate(Facts::used(question, self.uses())).as_ref())
    }

    /// Evaluates every statement.
    pub(crate) fn evaluate(&self, facts: Facts) -> Result<Evaluation, RequestError> {
        let request = CedarRequest::of(facts, self.uses(), self.schema())?;
        let mut evaluation = Evaluation::default();
        evaluation.add(&request, self.permits());
        evaluation.add(&request, self.forbids());
        Ok(evaluation)
    }

    /// The answer that follows from an evaluation.
    pub(crate) fn answer_to(&self, evaluation: Result<&Evaluation, &RequestError>) -> PolicyAnswer {
        use StatementEffect::{Ask, Deny, Permit, Waive};

        let Ok(evaluation) = evaluation else {
            return self.answer_by(Permission::Deny, vec![CEDAR.to_owned()]);
        };
        let failed = self.ids(|statement| evaluation.failure(statement).is_some());
        let denying = self.holding(evaluation, &[Deny]);
        let asking = self.holding(evaluation, &[Ask]);
        let permitting = self.holding(evaluation, &[Permit, Waive]);
        if !failed.is_empty() {
            self.answer_by(Permission::Deny, failed)
        } else if !denying.is_empty() || permitting.is_empty() {
            self.answer_by(Permission::Deny, denying)
        } else if !asking.is_empty() {
            let extracts = self.extracts(evaluation);
            PolicyAnswer { extracts, ..self.answer_by(Permission::Ask, asking) }
        } else {
            PolicyAnswer {
                waives_floor: !self.holding(evaluation, &[Waive]).is_empty(),
                extracts: self.extracts(evaluation),
                ..self.answer_by(Permission::Allow, permitting)
            }
        }
    }

    fn answer_by(&self, answer: Permission, by: Vec<String>) -> PolicyAnswer {
        let version = self.version();
        PolicyAnswer { version, answer, waives_floor: false, extracts: Vec::new(), by }
    }

    /// The ids of the statements with one of these effects that hold.
    fn holding(&self, evaluation: &Evaluation, effects: &[StatementEffect]) -> Vec<String> {
        self.ids(|statement| effects.contains(&statement.effect) && evaluation.holds(statement))
    }

    fn ids(&self, is_selected: impl Fn(&Statement) -> bool) -> Vec<String> {
        let selected = self.statements().iter().filter(|statement| is_selected(statement));
        selected.map(|statement| statement.id.clone()).collect()
    }

    /// The fields that the holding statements allow to be taken out of the output, in order.
    fn extracts(&self, evaluation: &Evaluation) -> Vec<String> {
        let holding = self.statements().iter().filter(|statement| evaluation.holds(statement));
        let fields: BTreeSet<&String> = holding.flat_map(|one| &one.extracts).collect();
        fields.into_iter().cloned().collect()
    }
}

impl Evaluation {
    fn add(&mut self, request: &CedarRequest, statements: &PolicySet) {
        let response =
            Authorizer::new().is_authorized(&request.request, statements, &request.entities);
        let diagnostics = response.diagnostics();
        self.holding.extend(diagnostics.reason().cloned());
        for error in diagnostics.errors() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            self.failed.insert(error.policy_id().clone(), error.inner().to_string());
        }
    }

    /// Whether the statement applies to this call.
    pub(crate) fn holds(&self, statement: &Statement) -> bool {
        self.holding.contains(&statement.key)
    }

    /// Why a statement could not be evaluated, if it could not.
    pub(crate) fn failure(&self, statement: &Statement) -> Option<&str> {
        self.failed.get(&statement.key).map(String::as_str)
    }
}
