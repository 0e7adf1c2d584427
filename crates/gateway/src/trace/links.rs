//! Which call a tool result answers.

use std::collections::HashMap;

use super::message::{CallRef, Conversation, Message, MessageRole};

/// The calls of each conversation that nothing has answered yet.
#[derive(Debug, Default)]
pub(super) struct Links {
    open: HashMap<Conversation, HashMap<CallName, CallRef>>,
}

/// How a result names its call.
#[derive(Debug, PartialEq, Eq, Hash)]
enum CallName {
    Id(String),
    /// Older traces name the function.
    Function(String),
}

impl Links {
    /// Notes the calls that a message makes and returns the one it answers, if any.
    ///
    /// A call that takes the id of an open one takes its place.
    pub(super) fn follow(
        &mut self,
        conversation: &Conversation,
        step: u64,
        message: &Message,
    ) -> Option<CallRef> {
        let answered =
            answered_name(message).and_then(|name| self.open.get_mut(conversation)?.remove(&name));
        if !message.tool_calls.is_empty() {
            let open = self.open.entry(conversation.clone()).or_default();
            for (index, call) in message.tool_calls.iter().enumerate() {
                let name = match &call.id {
                    Some(id) => CallName::Id(id.clone()),
                    None => CallName::Function(call.name.clone()),
                };
                open.insert(name, CallRef { step, call: index });
            }
        }
        answered
    }

    /// Drops a conversation that can get no further message.
    pub(super) fn forget(&mut self, conversation: &Conversation) {
        self.open.remove(conversation);
    }
}

fn answered_name(message: &Message) -> Option<CallName> {
    if message.role != MessageRole::Tool {
        return None;
    }
    match (&message.tool_call_id, &message.name) {
        (Some(id), _) => Some(CallName::Id(id.clone())),
        (None, Some(function)) => Some(CallName::Function(function.clone())),
        (None, None) => None,
    }
}
