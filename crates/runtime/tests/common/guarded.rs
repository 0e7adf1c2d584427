//! A session whose calls go through the gate, in a scratch store.

use custody_arguments::Arguments;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Role};
use custody_keys::HumanKey;
use custody_log::EntryId;
use custody_policy::{Manifests, Policy, pin};
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::scratch::Scratch;
use custody_runtime::tools::{Decision, Gate, GateError, Granted, set_policy};

const MANIFESTS: &str = r#"
[tools.send_mail]
effect = "writes"
[tools.send_mail.arguments]
to = { sink = "recipient" }
body = {}

[tools.read_page]
effect = "reads"
[tools.read_page.arguments]
url = { sink = "url" }

[tools.post_page]
effect = "writes"
authors = []
[tools.post_page.arguments]
url = { sink = "url" }
content = {}

[tools.read_inbox]
effect = "reads"
authors = ["*.sender"]

[tools.list_files]
effect = "reads"
trusted_output = { "*.id" = "file" }

[tools.find_file]
effect = "reads"
trusted_output = { "only.id" = "file" }
[tools.find_file.arguments]
name = {}

[tools.delete_file]
effect = "writes"
[tools.delete_file.arguments]
file_id = { sink = "id" }

[tools.share_file]
effect = "writes"
[tools.share_file.arguments]
file_id = { sink = "id" }
email = { sink = "recipient" }

[tools.get_account]
effect = "reads"
closed_output.balance = { number = { min = 0, max = 1000, decimals = 2 } }
closed_output."owner.since" = { day = { from = "2000-01-01", to = "2040-12-31" } }
closed_output.status = { one_of = ["open", "closed"] }

[tools.pay]
effect = "writes"
arguments.amount = { sink = "amount" }

[tools.delete_event]
effect = "writes"
[tools.delete_event.arguments]
event_id = { sink = "id" }
"#;

pub struct Guarded {
    pub scratch: Scratch,
    pub user: Authority,
    pub token: Authority,
    pub gate: Gate,
    pub session: Session,
}

impl Guarded {
    pub fn new() -> Self {
        let scratch = Scratch::new(Limits::default(), Clock::System).unwrap();
        let key = HumanKey::generate();
        let new = NewPrincipal {
            name: "ada",
            role: Role::User,
            tenant: Tenant::main(),
            public_key: Some(key.public_key()),
            with_token: true,
        };
        let (_, token) = scratch.store.add_principal(&scratch.owner, new).unwrap();
        let token = scratch.store.authenticate_token(&token.unwrap()).unwrap();
        let user = scratch.store.authenticate("ada", &key).unwrap();
        let gate = Gate::new(Manifests::parse(MANIFESTS).unwrap(), None);
        let session = Session::open(&scratch.store, &token, None).unwrap();
        Self { scratch, user, token, gate, session }
    }

    /// The same, with the manifest of this tool pinned to its description.
    pub fn pins(self, tool: &serde_json::Value) -> Self {
        let name = tool["name"].as_str().unwrap();
        let pinned = format!("[tools.{name}]\ndescription_sha256 = \"{}\"\n", pin(tool));
        let manifests = MANIFESTS.replace(&format!("[tools.{name}]\n"), &pinned);
        Self { gate: Gate::new(Manifests::parse(&manifests).unwrap(), None), ..self }
    }

    pub fn hears(&self, channel: Channel, text: &str) {
        self.session.observe(Observation::message(channel, text)).wait().unwrap();
    }

    pub fn proposes(&self, tool: &str, arguments: &str) -> Decision {
        let arguments = Arguments::parse(arguments).unwrap();
        self.session.propose(&self.gate, tool, arguments).unwrap()
    }

    /// The word of the answer, or `refused` for a name that no tool may have.
    pub fn tries(&self, tool: &str, arguments: &str) -> &'static str {
        let arguments = Arguments::parse(arguments).unwrap();
        match self.session.propose(&self.gate, tool, arguments) {
            Ok(decision) => word(&decision),
            Err(GateError::ToolName(_) | GateError::Lookalike { .. }) => "refused",
            Err(error) => panic!("{error}"),
        }
    }

    pub fn approves(&self, proposal: EntryId) {
        let asked = self.scratch.store.state(|state| state.asked_call(proposal).cloned()).unwrap();
        let shown = asked.map(|asked| asked.arguments.commitment);
        let receipt = self.scratch.store.approve(&self.user, proposal, shown).unwrap();
        assert_eq!(receipt.answer.refusal(), None);
    }

    pub fn sets_policy(&self, text: &str) {
        let policy = Policy::parse(text).unwrap();
        let receipt = set_policy(&self.scratch.store, &self.scratch.owner, &policy).unwrap();
        assert_eq!(receipt.answer.refusal(), None);
    }
}

pub fn granted(decision: Decision) -> Granted {
    match decision {
        Decision::Allow(granted) => granted,
        other => panic!("it does not run: {other:?}"),
    }
}

pub fn asked(decision: &Decision) -> (EntryId, bool) {
    match decision {
        Decision::Ask(waiting) => (waiting.proposal, waiting.again),
        other => panic!("it is not asked about: {other:?}"),
    }
}

pub fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow(_) => "allow",
        Decision::Ask(_) => "ask",
        Decision::Deny { .. } => "deny",
    }
}
