//! What a block of a proxied conversation is worth: its channel, and whether it is believed. Part of the
//! trusted base.
//!
//! A role is a claim of the client. Hosts put files and reminders into the role of the user, and the names of folders
//! into that of the system, so neither is believed for its role (docs/design.md §12).

use custody_kernel::label::Channel;
use custody_log::Digest;

use super::settings::{ConnectionSettings, UserText};
use crate::wire::WireRole;

/// Where a text entered, and whether the trust of that channel is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ingress {
    /// Where it entered.
    pub(crate) channel: Channel,
    /// Whether it is untrusted whatever the channel.
    pub(crate) is_lowered: bool,
}

/// What a text of `role` is worth on a connection. What its host reported as typed by the user was recorded as such
/// before, and does not come here.
pub(super) fn of_text(settings: &ConnectionSettings, role: WireRole, text: &str) -> Ingress {
    match role {
        WireRole::System => {
            let is_pinned = settings.system_texts.contains(&Digest::of(text.as_bytes()));
            Ingress { channel: Channel::System, is_lowered: !is_pinned }
        }
        WireRole::User => {
            let is_trusted = settings.user_text == UserText::Trusted;
            Ingress { channel: Channel::User, is_lowered: !is_trusted }
        }
        WireRole::Assistant | WireRole::Unknown => {
            Ingress { channel: Channel::PeerAgent, is_lowered: true }
        }
        WireRole::Tool => Ingress { channel: Channel::Tool, is_lowered: true },
    }
}

/// What the arguments of a call are worth that reached a server of ours and that no hook and no proxy saw: nobody knows
/// what the model that made it had read.
pub(crate) fn of_unseen_call(settings: &ConnectionSettings) -> Ingress {
    if settings.user_text == UserText::Trusted {
        return Ingress { channel: Channel::User, is_lowered: false };
    }
    Ingress { channel: Channel::PeerAgent, is_lowered: true }
}

/// What a block is worth that nobody reads here.
pub(super) fn of_opaque(role: WireRole) -> Ingress {
    let channel = match role {
        WireRole::System | WireRole::User => Channel::File,
        WireRole::Assistant | WireRole::Unknown => Channel::PeerAgent,
        WireRole::Tool => Channel::Tool,
    };
    Ingress { channel, is_lowered: true }
}

/// What a prompt is worth that a hook reported as typed. While a call is open a model may be what submits it.
pub(super) fn of_reported_prompt(
    settings: &ConnectionSettings,
    is_typed: bool,
    has_open_call: bool,
) -> Ingress {
    let is_believed = settings.user_text >= UserText::Hook && is_typed && !has_open_call;
    Ingress { channel: Channel::User, is_lowered: !is_believed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_role_is_believed_for_its_name() {
        let text = "be kind";
        let pinned = [Digest::of(text.as_bytes())].into();
        let never = ConnectionSettings { user_text: UserText::Never, ..Default::default() };
        let hook = ConnectionSettings::default();
        let trusted = ConnectionSettings {
            user_text: UserText::Trusted,
            system_texts: pinned,
            ..Default::default()
        };
        // Whether a text of each role is believed: under `never`, `hook`, and `trusted` with the text pinned.
        let table = [
            (WireRole::System, Channel::System, [false, false, true]),
            (WireRole::User, Channel::User, [false, false, true]),
            (WireRole::Assistant, Channel::PeerAgent, [false, false, false]),
            (WireRole::Tool, Channel::Tool, [false, false, false]),
            (WireRole::Unknown, Channel::PeerAgent, [false, false, false]),
        ];
        for (role, channel, believed) in table {
            for (settings, believed) in [&never, &hook, &trusted].into_iter().zip(believed) {
                let is_lowered = !believed;
                assert_eq!(
                    of_text(settings, role, text),
                    Ingress { channel, is_lowered },
                    "{role:?}"
                );
                assert!(of_opaque(role).is_lowered, "{role:?}");
            }
        }
        let reported = [
            (&never, true, false, false),
            (&hook, true, false, true),
            (&hook, true, true, false),
            (&hook, false, false, false),
            (&trusted, true, false, true),
            (&trusted, true, true, false),
        ];
        for (settings, is_typed, has_open_call, believed) in reported {
            let ingress = of_reported_prompt(settings, is_typed, has_open_call);
            assert_eq!(ingress.is_lowered, !believed);
        }
        assert!(of_text(&trusted, WireRole::System, "be kind!").is_lowered, "another text");
        for (settings, is_lowered) in [(&never, true), (&hook, true), (&trusted, false)] {
            assert_eq!(of_unseen_call(settings).is_lowered, is_lowered);
        }
    }
}
