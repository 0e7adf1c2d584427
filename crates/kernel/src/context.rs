//! Contexts: what a model had read when it produced something, and what a proposal depends on.

use std::collections::{BTreeSet, HashSet};

use custody_log::Seq;

use crate::label::{Channel, Label, Trust};
use crate::memory::item::ContentRef;
use crate::memory::refusal::TaintSource;

/// The most entries that something produced names for its context. Whoever records joins a wider one first.
pub const MAX_CONTEXT_PARENTS: usize = 16;

/// What one session has read so far. Only grows.
///
/// A completion names as parents what came since the completion before it, and that one; since
/// contexts only grow, its ancestors are then the whole context, at a cost linear in the session. Where a host records
/// no completions, a [join](crate::actions) stands for what was read in the same way.
#[derive(Debug, Clone)]
pub struct SessionContext {
    label: Label,
    tainted_by: Option<Seq>,
    channels: BTreeSet<Channel>,
    parents: Vec<Seq>,
    contents: HashSet<ContentRef>,
}

impl Default for SessionContext {
    fn default() -> Self {
        // The identity of the join: a context that has read nothing adds nothing.
        let label = Label::at_ingress(Channel::Model, Trust::Trusted);
        Self {
            label,
            tainted_by: None,
            channels: BTreeSet::new(),
            parents: Vec::new(),
            contents: HashSet::new(),
        }
    }
}

impl SessionContext {
    /// The join of everything read (assumption A3).
    pub const fn label(&self) -> Label {
        self.label
    }

    /// The entry that first tainted it.
    pub const fn tainted_by(&self) -> Option<Seq> {
        self.tainted_by
    }

    /// The channels on which something that was read arrived.
    pub const fn channels(&self) -> &BTreeSet<Channel> {
        &self.channels
    }

    /// The direct parents of the next thing the model produces.
    pub fn parents(&self) -> &[Seq] {
        &self.parents
    }

    /// Whether it names more entries than something produced should.
    pub fn is_wide(&self) -> bool {
        self.parents.len() > MAX_CONTEXT_PARENTS
    }

    /// Whether `content` arrived in this session or was read in it. Only then can it be named: whoever
    /// could name any content of the store would read other sessions and other tenants by writing it.
    pub fn holds(&self, content: ContentRef) -> bool {
        self.contents.contains(&content)
    }

    /// What the model has read turned out to be bad.
    pub(crate) fn taint(&mut self, entry: Seq) {
        self.label = self.label.lowered();
        self.tainted_by.get_or_insert(entry);
    }

    /// `content` arrived, or was read.
    pub(crate) fn hold(&mut self, content: ContentRef) {
        self.contents.insert(content);
    }

    /// The model read `entry`.
    pub(crate) fn read(&mut self, entry: Seq, label: Label) {
        self.label = self.label.join(label);
        if label.is_tainted() && self.tainted_by.is_none() {
            self.tainted_by = Some(entry);
        }
        self.channels.insert(label.channel());
        self.parents.push(entry);
    }

    /// The model produced `entry` out of all this; from now on that one entry stands for it.
    pub(crate) fn produced(&mut self, entry: Seq) {
        self.parents.clear();
        self.parents.push(entry);
    }

    /// What a proposal made in this context depends on: all of it, and what the caller `added`.
    /// A caller can add dependencies and never remove any.
    pub(crate) fn dependencies(&self, added: Added) -> Dependencies {
        let tainted = self.tainted_by.map(TaintSource::Entry).or(added.source);
        let mut parents = self.parents.clone();
        parents.extend(added.parents);
        parents.sort_unstable();
        parents.dedup();
        let source = tainted.or(parents.is_empty().then_some(TaintSource::NoOrigin));
        Dependencies { parents, source }
    }
}

/// Dependencies that a caller named, looked up in the record.
#[derive(Debug, Default)]
pub(crate) struct Added {
    pub(crate) parents: Vec<Seq>,
    pub(crate) source: Option<TaintSource>,
}

impl Added {
    pub(crate) fn entry(&mut self, entry: Seq, label: Label) {
        if label.is_tainted() {
            self.taint_with(TaintSource::Entry(entry));
        }
        self.parents.push(entry);
    }

    /// The first one found is the one that is shown.
    pub(crate) fn taint_with(&mut self, source: TaintSource) {
        self.source.get_or_insert(source);
    }
}

/// What a proposal depends on. Made by [`SessionContext`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependencies {
    parents: Vec<Seq>,
    source: Option<TaintSource>,
}

impl Dependencies {
    /// The direct parents, ascending.
    pub fn parents(&self) -> &[Seq] {
        &self.parents
    }

    /// The first dependency that is not known to be clean: ∃ b ∈ deps with τ(b) = 1.
    pub fn taint_source(&self) -> Option<&TaintSource> {
        self.source.as_ref()
    }
}
