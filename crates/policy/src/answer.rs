//! What a policy answers: the strictest word of all that hold.
//!
//! A statement that cannot be evaluated denies, whichever it is: what is unknown is not clean. Then a plain
//! `forbid` denies; then it takes a `permit`; then an asking `forbid` asks; then the call is allowed.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{Authorizer, PolicyId, PolicySet};
use custody_kernel::tool::call::{Permission, PolicyAnswer};

use crate::facts::Facts;
use crate::policy::{Policy, Says, Statement, UNANSWERED};
use crate::question::Question;
use crate::request::{Asked, Unasked};

/// What became of every statement.
#[derive(Debug, Default)]
pub(crate) struct Held {
    holding: HashSet<PolicyId>,
    failed: HashMap<PolicyId, String>,
}

impl Policy {
    /// Answers one question. Never panics, and never fails: what cannot be answered is denied.
    ///
    /// Source: docs/design.md §5.5.
    pub fn answer(&self, question: &Question<'_>) -> PolicyAnswer {
        self.answer_to(self.held(Facts::used(question, self.uses())).as_ref())
    }

    /// Evaluates every statement.
    pub(crate) fn held(&self, facts: Facts) -> Result<Held, Unasked> {
        let asked = Asked::of(facts, self.uses())?;
        let mut held = Held::default();
        held.evaluate(&asked, self.permits());
        held.evaluate(&asked, self.forbids());
        Ok(held)
    }

    /// The strictest word.
    pub(crate) fn answer_to(&self, held: Result<&Held, &Unasked>) -> PolicyAnswer {
        let version = self.version();
        let answer = |answer, by| PolicyAnswer {
            version,
            answer,
            waives_floor: false,
            extracts: Vec::new(),
            by,
        };
        let Ok(held) = held else {
            return answer(Permission::Deny, vec![UNANSWERED.to_owned()]);
        };
        let ids = |is_one: &dyn Fn(&Statement) -> bool| -> Vec<String> {
            let those = self.statements().iter().filter(|statement| is_one(statement));
            those.map(|statement| statement.id.clone()).collect()
        };
        let holding =
            |says: Says| ids(&|statement| statement.says == says && held.holds(statement));
        let failed = ids(&|statement| held.failure(statement).is_some());
        let denying = holding(Says::Deny);
        let asking = holding(Says::Ask);
        let permits = |statement: &Statement| matches!(statement.says, Says::Permit | Says::Waive);
        let permitting = ids(&|statement| permits(statement) && held.holds(statement));
        if !failed.is_empty() {
            answer(Permission::Deny, failed)
        } else if !denying.is_empty() || permitting.is_empty() {
            answer(Permission::Deny, denying)
        } else if !asking.is_empty() {
            PolicyAnswer { extracts: self.extracts(held), ..answer(Permission::Ask, asking) }
        } else {
            PolicyAnswer {
                waives_floor: !holding(Says::Waive).is_empty(),
                extracts: self.extracts(held),
                ..answer(Permission::Allow, permitting)
            }
        }
    }
}

impl Policy {
    /// The fields that the statements which hold let be taken out, in order.
    fn extracts(&self, held: &Held) -> Vec<String> {
        let holding = self.statements().iter().filter(|statement| held.holds(statement));
        let fields: BTreeSet<&String> = holding.flat_map(|one| &one.extracts).collect();
        fields.into_iter().cloned().collect()
    }
}

impl Held {
    fn evaluate(&mut self, asked: &Asked, statements: &PolicySet) {
        let response = Authorizer::new().is_authorized(&asked.request, statements, &asked.entities);
        let diagnostics = response.diagnostics();
        self.holding.extend(diagnostics.reason().cloned());
        for error in diagnostics.errors() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            self.failed.insert(error.policy_id().clone(), error.inner().to_string());
        }
    }

    /// Whether a statement is about this call.
    pub(crate) fn holds(&self, statement: &Statement) -> bool {
        self.holding.contains(&statement.key)
    }

    /// Why a statement could not be evaluated, if it could not.
    pub(crate) fn failure(&self, statement: &Statement) -> Option<&str> {
        self.failed.get(&statement.key).map(String::as_str)
    }
}
