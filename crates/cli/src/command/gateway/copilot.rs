//! What Copilot CLI needs in its environment for its requests to come by Custody: it has no file for that.
//!
//! Source: `copilot help providers`; tried with the version that [`AgentHost`](super::agent_host::AgentHost) names.

use super::service_address::ServiceAddress;

/// The variables with which its requests come to `address` with `key`, for a vendor that speaks as OpenAI does.
pub(super) fn variables(address: &ServiceAddress, key: &str) -> [(&'static str, String); 2] {
    [
        ("COPILOT_PROVIDER_BASE_URL", format!("{}/openai/v1", address.base_url())),
        ("COPILOT_PROVIDER_HEADERS", format!("x-custody-key: {key}")),
    ]
}
