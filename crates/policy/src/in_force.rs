//! The policies that are in force together: the owner's, and a second one that can forbid more and permit nothing more.

use std::cmp::Ordering;

use custody_kernel::tool::call::{Permission, PolicyAnswer};
use custody_log::Digest;

use crate::described::DescribedTool;
use crate::policy::Policy;
use crate::question::Question;
use crate::statement::CHANGED;

/// The policies that a call is judged by.
#[derive(Debug, Clone, Copy)]
pub struct InForce<'a> {
    /// The one that the store's owner signed, else the one that ships.
    pub base: &'a Policy,
    /// The operator's own, from a file.
    pub local: Option<&'a Policy>,
}

impl InForce<'_> {
    /// The version under which calls are answered by a policy of version `base`, and by a `local` one if there is one.
    pub fn version_of(base: Digest, local: Option<Digest>) -> Digest {
        match local {
            Some(local) => Digest::of(&[base.0, local.0].concat()),
            None => base,
        }
    }

    /// Answers `question`, which is about a call of `tool`: the stricter answer counts, and a tool whose description
    /// changed is asked about whatever they allow.
    pub fn answer(&self, tool: &DescribedTool, question: &Question<'_>) -> PolicyAnswer {
        let answer = self.base.answer(question);
        let answer = match self.local {
            Some(local) => stricter(answer, local.answer(question)),
            None => answer,
        };
        if tool.changed { about_changed(answer) } else { answer }
    }
}

/// The answer for a tool that is no longer the one that was described: a human looks at it first, whatever was read
/// before.
fn about_changed(answer: PolicyAnswer) -> PolicyAnswer {
    let by = match answer.answer {
        Permission::Allow => vec![CHANGED.to_owned()],
        Permission::Ask => answer.by.iter().cloned().chain([CHANGED.to_owned()]).collect(),
        Permission::Deny => return answer,
    };
    PolicyAnswer { answer: Permission::Ask, waives_floor: false, by, ..answer }
}

/// The stricter of both answers, under a version of its own, so that an approval holds for both. What only
/// the owner can grant, a waived floor or a field that may be taken out, falls away: the other is not theirs.
fn stricter(base: PolicyAnswer, local: PolicyAnswer) -> PolicyAnswer {
    let version = InForce::version_of(base.version, Some(local.version));
    let by = match base.answer.cmp(&local.answer) {
        Ordering::Less => local.by,
        Ordering::Greater => base.by,
        Ordering::Equal => [base.by, local.by].concat(),
    };
    let answer = Permission::max(base.answer, local.answer);
    PolicyAnswer { version, answer, waives_floor: false, extracts: Vec::new(), by }
}
