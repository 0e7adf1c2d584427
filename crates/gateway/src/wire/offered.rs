//! The model and the tools that a request names, in each dialect.
//!
//! The names are the client's and their servers' words: what they are good for is for manifests to say.

use serde_json::Value;

use super::text_of;

/// The model, where the body names it.
pub(super) fn model(body: &Value) -> Option<String> {
    text_of(body, "model").map(str::to_owned)
}

/// Of `tools`, each with its name.
pub(super) fn anthropic(body: &Value) -> Vec<String> {
    tools(body).filter_map(name).collect()
}

/// Of `tools`, each with its name in `function` or `custom`.
pub(super) fn chat(body: &Value) -> Vec<String> {
    let named = tools(body).filter_map(|tool| tool.get("function").or_else(|| tool.get("custom")));
    named.filter_map(name).collect()
}

/// Of `tools` and of the items that bring more, each with the name of its namespace before it.
pub(super) fn responses(body: &Value) -> Vec<String> {
    let items = body.get("input").and_then(Value::as_array).into_iter().flatten();
    let mut found = Vec::new();
    for listing in items.filter(|item| item.get("tools").is_some()).chain([body]) {
        for tool in tools(listing) {
            match (text_of(tool, "type"), name(tool)) {
                (Some("namespace"), Some(namespace)) => {
                    let within = tools(tool).filter_map(name);
                    found.extend(within.map(|name| in_namespace(&namespace, &name)));
                }
                (_, Some(name)) => found.push(name),
                // Those that have no name are called by their kind.
                (Some(kind), None) => found.push(kind.to_owned()),
                (None, None) => {}
            }
        }
    }
    found
}

/// The name of a tool, after that of its namespace. MCP servers are namespaces, too.
pub(super) fn in_namespace(namespace: &str, name: &str) -> String {
    match namespace {
        "" | "functions" => name.to_owned(),
        server if server.starts_with("mcp__") => {
            format!("{}__{name}", server.trim_end_matches('_'))
        }
        namespace => format!("{namespace}.{name}"),
    }
}

/// Of `tools`, each with the functions that it declares, in either spelling.
pub(super) fn gemini(body: &Value) -> Vec<String> {
    let listings = match body.get("tools") {
        Some(tool @ Value::Object(_)) => std::slice::from_ref(tool),
        tools => tools.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default(),
    };
    let spellings = ["functionDeclarations", "function_declarations"];
    let declared = listings.iter().flat_map(|tool| spellings.map(|name| tool.get(name)));
    let functions = declared.flatten().filter_map(Value::as_array).flatten();
    functions.filter_map(name).collect()
}

fn tools(listing: &Value) -> impl Iterator<Item = &Value> {
    listing.get("tools").and_then(Value::as_array).into_iter().flatten()
}

fn name(tool: &Value) -> Option<String> {
    text_of(tool, "name").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_are_named_as_calls_of_them_are() {
        let body = json!({ "tools": [{ "name": "Bash" }, { "type": "bash_20250124", "name": "bash" }, 7, {}] });
        assert_eq!(anthropic(&body), ["Bash", "bash"]);
        let body = json!({ "tools": [
            { "type": "function", "function": { "name": "send" } },
            { "type": "custom", "custom": { "name": "exec" } }, { "type": "function" },
        ] });
        assert_eq!(chat(&body), ["send", "exec"]);
        let body = json!({
            "tools": [
                { "type": "function", "name": "send" }, { "type": "local_shell" },
                { "type": "namespace", "name": "mail", "tools": [{ "type": "function", "name": "find" }] },
            ],
            "input": [{ "type": "additional_tools", "tools": [{ "type": "custom", "name": "exec" }] }, "text"],
        });
        assert_eq!(responses(&body), ["exec", "send", "local_shell", "mail.find"]);
        let body = json!({ "tools": [
            { "functionDeclarations": [{ "name": "a" }] }, { "function_declarations": [{ "name": "b" }] },
        ] });
        assert_eq!(gemini(&body), ["a", "b"]);
        assert_eq!(
            gemini(&json!({ "tools": { "functionDeclarations": [{ "name": "a" }] } })),
            ["a"]
        );
        for body in [json!({}), json!({ "tools": "send" }), json!([])] {
            assert!(anthropic(&body).is_empty() && chat(&body).is_empty());
            assert!(responses(&body).is_empty() && gemini(&body).is_empty());
        }
    }
}
