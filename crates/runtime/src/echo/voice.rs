//! Whose text an entry holds, and how it is read for comparison.

use std::ops::Range;

use custody_kernel::label::{Channel, Label, Trust};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::PrincipalClaim;
use custody_kernel::record::{Author, ObservationKind, Record, Request, SessionRequest};
use custody_kernel::state::State;
use custody_log::PrincipalId;
use custody_store::{StoreError, View, content_of};
use custody_text::{CanonicalText, Rendering, own_words};

use super::MAX_COMPARED_BYTES;

/// Whose text it is. Texts of no voice (of models, of memory, released or extracted values) neither taint nor discount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Voice {
    /// Of an untrusted source: what repeats it is untrusted.
    Untrusted,
    /// The operator's, in a session of somebody who is trusted.
    System,
    /// Typed by this principal.
    User(PrincipalId),
}

/// The voice of the text that arrived with `record`, and the tenant in which it speaks. `state` holds the session.
pub fn voice_of<'s>(state: &'s State, record: &Record) -> Option<(&'s Tenant, Voice)> {
    let Author::Session(session) = record.by else { return None };
    let Request::Session(request) = &record.request else { return None };
    let session = state.session(session)?;
    let voice = match request {
        SessionRequest::Observe { kind, channel, .. } => {
            voice_in(&session.who, *kind, *channel, record.label)
        }
        SessionRequest::Withhold { .. } => Some(Voice::Untrusted),
        SessionRequest::CloseSession
        | SessionRequest::Read { .. }
        | SessionRequest::List { .. }
        | SessionRequest::Write { .. }
        | SessionRequest::Delete { .. }
        | SessionRequest::Promote { .. }
        | SessionRequest::Route(_)
        | SessionRequest::Extract(_)
        | SessionRequest::DeclareIntents(_)
        | SessionRequest::JoinContext
        | SessionRequest::RecordBasis(_) => None,
    };
    voice.map(|voice| (&session.who.tenant, voice))
}

/// The voice of something that a session of `who` observed.
pub(crate) fn voice_in(
    who: &PrincipalClaim,
    kind: ObservationKind,
    channel: Channel,
    label: Label,
) -> Option<Voice> {
    if label.trust() == Trust::Untrusted {
        return Some(Voice::Untrusted);
    }
    let is_vouched_for = label.is_good() && who.role.trust() == Trust::Trusted;
    match (kind, channel) {
        (ObservationKind::Message, Channel::System) if is_vouched_for => Some(Voice::System),
        (ObservationKind::Message, Channel::User) if is_vouched_for => {
            who.principal.map(Voice::User)
        }
        _ => None,
    }
}

/// Whether the text of `record` is of `voice` in `tenant`, as far as that is known after its session was closed.
pub(super) fn is_of(state: &State, record: &Record, tenant: &Tenant, voice: Voice) -> bool {
    let Request::Session(request) = &record.request else { return false };
    let is_untrusted = record.label.trust() == Trust::Untrusted;
    let is_of = match voice {
        Voice::Untrusted => {
            let is_observed = matches!(request, SessionRequest::Observe { .. });
            (is_observed && is_untrusted) || matches!(request, SessionRequest::Withhold { .. })
        }
        Voice::System => is_message(record, Channel::System),
        Voice::User(_) => is_message(record, Channel::User),
    };
    is_of && state.tenant_of(record.seq) == Some(tenant)
}

fn is_message(record: &Record, of: Channel) -> bool {
    let Request::Session(request) = &record.request else { return false };
    matches!(request, SessionRequest::Observe { kind: ObservationKind::Message, channel, .. }
        if *channel == of && record.label.is_good())
}

/// How far one piece of a long text reaches into the next, so that no run is cut.
const OVERLAP: usize = 4096;

/// The byte ranges of `text` that are read on their own. Of a user's text, what they typed themselves.
fn pieces(text: &str, voice: Voice) -> Vec<Range<usize>> {
    match voice {
        Voice::User(_) => own_words(text),
        Voice::Untrusted | Voice::System => {
            let starts = (0..text.len().max(1)).step_by(MAX_COMPARED_BYTES);
            starts
                .map(|start| {
                    let end = (start + MAX_COMPARED_BYTES + OVERLAP).min(text.len());
                    text.floor_char_boundary(start)..text.ceil_char_boundary(end)
                })
                .collect()
        }
    }
}

/// Every reading of `text`, with its number.
pub(super) fn forms(text: &str, voice: Voice) -> impl Iterator<Item = (u32, CanonicalText)> + '_ {
    let pieces = pieces(text, voice).into_iter().filter_map(|piece| text.get(piece));
    let readings = pieces.flat_map(|piece| Rendering::ALL.map(|rendering| (piece, rendering)));
    (0_u32..)
        .zip(readings)
        .filter_map(|(number, (piece, rendering))| Some((number, rendering.of(piece)?)))
}

/// The reading of `text` with this number.
pub(super) fn form(text: &str, voice: Voice, number: u32) -> Option<CanonicalText> {
    let number = usize::try_from(number).ok()?;
    let count = Rendering::ALL.len();
    let piece = pieces(text, voice).into_iter().nth(number / count)?;
    Rendering::ALL.get(number % count)?.of(text.get(piece)?)
}

/// The text that arrived with this very record; `None` if there is none, or it was destroyed.
///
/// # Errors
/// [`StoreError::Tampered`] when it is not the one that was recorded.
pub(super) fn arrived_text(view: View<'_>, record: &Record) -> Result<Option<String>, StoreError> {
    let content = content_of(record).filter(|content| content.arrival == record.seq);
    let Some(content) = content else { return Ok(None) };
    let bytes = view.any_content(content)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}
