//! A call, traced as in a session.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeSet;

use custody_arguments::{Arguments, RecordedArgument, TextIndex, trace};
use custody_kernel::label::{Channel, Label, Taint};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;
use custody_kernel::tool::call::{Permission, PolicyAnswer};
use custody_log::Seq;
use custody_policy::{Caller, Explanation, Manifests, Policy, Question};

/// A call of one tool.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) role: Role,
    pub(crate) arguments: Arguments,
    pub(crate) leaves: Vec<RecordedArgument>,
    pub(crate) taint: Taint,
    pub(crate) channels: BTreeSet<Channel>,
    pub(crate) manifests: Manifests,
}

impl Call {
    /// `tool` is called with `arguments` after `texts` entered the session.
    pub(crate) fn new(
        manifests: &str,
        texts: &[(Channel, &str)],
        tool: &str,
        arguments: &str,
    ) -> Self {
        Self::of(Role::User, manifests, texts, tool, arguments)
    }

    pub(crate) fn of(
        role: Role,
        manifests: &str,
        texts: &[(Channel, &str)],
        tool: &str,
        arguments: &str,
    ) -> Self {
        let manifests = Manifests::parse(manifests).expect("the test's manifests");
        let arguments = Arguments::parse(arguments).expect("the test's arguments");
        let mut index = TextIndex::default();
        let mut taint = if texts.is_empty() { Taint::Tainted } else { Taint::Clean };
        for (seq, (channel, text)) in (1..).map(Seq).zip(texts) {
            let label = Label::at_ingress(*channel, role.trust());
            taint = taint.max(label.taint());
            if label.is_tainted() {
                index.add_untrusted_text(seq, text);
            } else if *channel == Channel::User {
                index.add_user_text(text);
            }
        }
        let leaves = trace(manifests.tool(tool).tool, &arguments, &index).into_recorded();
        let channels = texts.iter().map(|(channel, _)| *channel).collect();
        Self { tool: tool.to_owned(), role, arguments, leaves, taint, channels, manifests }
    }

    pub(crate) fn answer(&self, policy: &Policy) -> PolicyAnswer {
        self.ask(|question| policy.answer(question))
    }

    pub(crate) fn explain(&self, policy: &Policy) -> Explanation {
        self.ask(|question| policy.explain(question))
    }

    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&Question<'_>) -> T) -> T {
        let tenant = Tenant::main();
        let caller =
            Caller { name: "ada", role: self.role, trust: self.role.trust(), tenant: &tenant };
        ask(&Question {
            caller,
            tool: self.manifests.tool(&self.tool),
            arguments: &self.arguments,
            leaves: &self.leaves,
            taint: self.taint,
            channels: &self.channels,
            is_intended: false,
        })
    }
}

/// The answer as a word, and the ids of the statements that decided.
pub(crate) fn outcome(answer: &PolicyAnswer) -> (&'static str, Vec<&str>) {
    let word = match (answer.answer, answer.waives_floor) {
        (Permission::Allow, false) => "allow",
        (Permission::Allow, true) => "allow, waived",
        (Permission::Ask, false) => "ask",
        (Permission::Deny, false) => "deny",
        (Permission::Ask | Permission::Deny, true) => "waived and yet not allowed",
    };
    (word, answer.by.iter().map(String::as_str).collect())
}
