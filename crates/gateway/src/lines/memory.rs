//! The operations on memory: read, list, search, write, promote, delete. Each is decided and recorded by the monitor,
//! so that whatever a model is shown of memory has an edge to what it makes of that.

use custody_kernel::key::Key;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::{Namespace, Scope};
use custody_kernel::record::Answer;
use custody_log::SessionId;
use custody_runtime::Session;
use custody_runtime::session::Write;
use custody_runtime::session::reading::{Listing, Reading};
use custody_runtime::session::search::{FOUND_AT_ONCE, FoundItem, SearchMethod};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::answer::{Failure, decided_change, failed, refused, taint};
use super::object;
use super::request::{RequestError, WriteLine, read};

/// How many items a search finds, unless the host says otherwise.
pub(crate) const FOUND_BY_DEFAULT: usize = 8;

/// What a host asks of memory, and in which session.
pub(super) struct MemoryRequest {
    pub(super) session: SessionId,
    what: MemoryOperation,
}

/// An operation on memory.
pub(crate) enum MemoryOperation {
    Read { key: Key, shared: bool },
    List { shared: bool, after: Option<Key> },
    Search { query: String, limit: usize },
    Write(WriteLine),
    Promote { key: Key },
    Delete { key: Key, shared: bool },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemLine {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    session: SessionId,
    key: Key,
    #[serde(default)]
    shared: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListLine {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    session: SessionId,
    #[serde(default)]
    shared: bool,
    after: Option<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchLine {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    session: SessionId,
    query: String,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeLine {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    session: SessionId,
    key: Key,
    text: String,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    queue: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PromoteLine {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    session: SessionId,
    key: Key,
}

/// The request of a line whose operation is `op`.
pub(super) fn request(line: &str, op: &str) -> Result<MemoryRequest, RequestError> {
    let (session, what) = match op {
        "list" => {
            let ListLine { session, shared, after, .. } = parse(line)?;
            (session, MemoryOperation::List { shared, after })
        }
        "search" => {
            let SearchLine { session, query, limit, .. } = parse(line)?;
            let limit = limit.unwrap_or(FOUND_BY_DEFAULT);
            if !(1..=FOUND_AT_ONCE).contains(&limit) {
                return Err(RequestError::Limit);
            }
            (session, MemoryOperation::Search { query, limit })
        }
        "write" => {
            let ChangeLine { session, key, text, shared, queue, .. } = parse(line)?;
            (session, MemoryOperation::Write(WriteLine { shared, key, text, queue }))
        }
        "promote" => {
            let PromoteLine { session, key, .. } = parse(line)?;
            (session, MemoryOperation::Promote { key })
        }
        "delete" => {
            let ItemLine { session, key, shared, .. } = parse(line)?;
            (session, MemoryOperation::Delete { key, shared })
        }
        _ => {
            let ItemLine { session, key, shared, .. } = parse(line)?;
            (session, MemoryOperation::Read { key, shared })
        }
    };
    Ok(MemoryRequest { session, what })
}

fn parse<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, RequestError> {
    read(line).map_err(RequestError::Json)
}

impl MemoryOperation {
    /// Asks for the operation in `session`. Whatever goes wrong is an answer too.
    pub(crate) fn answer(self, session: &Session) -> Map<String, Value> {
        operate(session, self).unwrap_or_else(|failure| failed(&failure))
    }
}

/// Asks for `request` in `session`.
pub(super) fn perform(
    session: &Session,
    request: MemoryRequest,
) -> Result<Map<String, Value>, Failure> {
    operate(session, request.what)
}

fn operate(session: &Session, operation: MemoryOperation) -> Result<Map<String, Value>, Failure> {
    match operation {
        MemoryOperation::Read { key, shared } => {
            let reading = match shared {
                true => session.read(Scope::Shared, key).wait()?,
                false => session.read_visible(key).wait()?,
            };
            Ok(read_answer(&reading))
        }
        MemoryOperation::List { shared, after } => Ok(listed(&session.list(shared, after).wait()?)),
        MemoryOperation::Search { query, limit } => {
            let result = session.search(&query, limit)?;
            let by = match result.by {
                SearchMethod::Meaning => "meaning",
                SearchMethod::Text => "text",
            };
            let found: Vec<Value> = result.found.iter().map(found_answer).collect();
            let not_searched = result.not_searched;
            Ok(object(json!({ "by": by, "found": found, "not_searched": not_searched })))
        }
        MemoryOperation::Write(write) => self::write(session, write),
        MemoryOperation::Promote { key } => {
            let receipt = session.promote(session.id(), key.clone()).wait()?;
            let mode = mode_of(session, Scope::Shared, &key)?;
            Ok(decided_change("promotion", &receipt, mode))
        }
        MemoryOperation::Delete { key, shared } => {
            let scope = scope_of(session, shared);
            let receipt = session.delete(scope, key.clone()).wait()?;
            Ok(decided_change("deletion", &receipt, mode_of(session, scope, &key)?))
        }
    }
}

/// Proposes a write; memory of its own is what a session writes to, unless it says otherwise.
pub(super) fn write(session: &Session, write: WriteLine) -> Result<Map<String, Value>, Failure> {
    let WriteLine { shared, key, text, queue } = write;
    let scope = scope_of(session, shared);
    let receipt = session.write(Write { queue, ..Write::new(scope, key.clone(), text) }).wait()?;
    Ok(decided_change("write", &receipt, mode_of(session, scope, &key)?))
}

fn scope_of(session: &Session, shared: bool) -> Scope {
    if shared { Scope::Shared } else { Scope::Session(session.id()) }
}

/// How the item under `key` may change, or that of the shared one that it would hide.
fn mode_of(session: &Session, scope: Scope, key: &Key) -> Result<Mode, Failure> {
    let own = session.namespace();
    let namespaces =
        [Namespace { tenant: own.tenant.clone(), scope }, Namespace::shared(own.tenant)];
    Ok(session.store().state(|state| {
        let items = namespaces.iter().filter_map(|namespace| state.item(namespace, key));
        items.map(|item| item.mode).max().unwrap_or_default()
    })?)
}

fn read_answer(reading: &Reading) -> Map<String, Value> {
    match &reading.receipt.answer {
        Answer::Refused(_) => refused("read", &reading.receipt),
        Answer::Value { .. } | Answer::NotFound | Answer::Done | Answer::Pending { .. } => {
            object(json!({
                "entry": reading.receipt.id,
                "taint": taint(&reading.receipt),
                "value": reading.value.as_deref().map(String::from_utf8_lossy),
                "version": reading.version,
                "shared": reading.scope == Scope::Shared,
                "mode": reading.mode,
            }))
        }
    }
}

fn found_answer(found: &FoundItem) -> Value {
    let mut answer = read_answer(&found.reading);
    answer.insert("key".into(), json!(found.key));
    answer.insert("similarity".into(), json!(found.similarity));
    Value::Object(answer)
}

fn listed(listing: &Listing) -> Map<String, Value> {
    let items = listing
        .items
        .iter()
        .map(|item| json!({ "key": item.key, "version": item.version, "mode": item.mode }));
    object(json!({
        "entry": listing.receipt.id,
        "taint": taint(&listing.receipt),
        "items": items.collect::<Vec<Value>>(),
        "more": listing.more,
    }))
}
