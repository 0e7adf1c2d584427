//! Facts as a request to Cedar.

use std::collections::{BTreeSet, HashSet};
use std::str::FromStr as _;
use std::sync::LazyLock;

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression,
};
use custody_arguments::Sink;

use crate::facts::{ArgumentFacts, CallFacts, Facts, Places, PrincipalFacts, ToolFacts, Values};
use crate::schema::SchemaVersion;
use crate::uses::Uses;

/// A question in Cedar's terms.
#[derive(Debug)]
pub(crate) struct CedarRequest {
    pub(crate) request: Request,
    pub(crate) entities: Entities,
}

/// Cedar rejected the facts. Their types rule it out, and a caller denies all the same.
pub(crate) type RequestError = Box<dyn std::error::Error>;

/// The names of the schema's entity types.
struct Names {
    principal: EntityTypeName,
    role: EntityTypeName,
    tool: EntityTypeName,
    group: EntityTypeName,
    effect: EntityTypeName,
    channel: EntityTypeName,
    sink: EntityTypeName,
    origin: EntityTypeName,
    arguments: EntityTypeName,
    call: EntityUid,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| Names {
    principal: type_name("Principal"),
    role: type_name("Role"),
    tool: type_name("Tool"),
    group: type_name("Group"),
    effect: type_name("Effect"),
    channel: type_name("Channel"),
    sink: type_name("Sink"),
    origin: type_name("Origin"),
    arguments: type_name("Arguments"),
    call: uid(&type_name("Action"), "call"),
});

fn type_name(name: &str) -> EntityTypeName {
    EntityTypeName::from_str(name).expect("one plain word")
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

impl CedarRequest {
    /// The request for `facts`, with the parts of the context that the policy `uses`, in the names of `schema`. It is
    /// not validated against the schema again; a test shows that it conforms.
    pub(crate) fn of(
        facts: Facts,
        uses: &Uses,
        schema: SchemaVersion,
    ) -> Result<Self, RequestError> {
        let Facts { principal, resource, mut context } = facts;
        let principal_uid = uid(&NAMES.principal, &principal.name);
        let tool_uid = uid(&NAMES.tool, &resource.name);
        let arguments_uid = uid(&NAMES.arguments, "");
        let mut entities = vec![
            principal_entity(principal_uid.clone(), principal)?,
            tool_entity(tool_uid.clone(), resource)?,
        ];
        if uses.has("arguments") {
            let arguments = std::mem::take(&mut context.arguments);
            entities.push(arguments_entity(arguments_uid.clone(), arguments, schema)?);
        }
        let context = Context::from_pairs(parts(context, arguments_uid, uses, schema)?)?;
        let request = Request::new(principal_uid, NAMES.call.clone(), tool_uid, context, None)?;
        Ok(Self { request, entities: Entities::from_entities(entities, None)? })
    }
}

fn principal_entity(uid: EntityUid, principal: PrincipalFacts) -> Result<Entity, RequestError> {
    let attributes = [
        field("trusted", RestrictedExpression::new_bool(principal.trusted)),
        field("tenant", RestrictedExpression::new_string(principal.tenant)),
    ];
    let role = self::uid(&NAMES.role, principal.role.as_str());
    Ok(Entity::new_with_tags(uid, attributes, [role], [])?)
}

fn tool_entity(uid: EntityUid, tool: ToolFacts) -> Result<Entity, RequestError> {
    let groups: HashSet<EntityUid> =
        tool.groups.iter().map(|group| self::uid(&NAMES.group, group)).collect();
    let attributes = [
        field("name", RestrictedExpression::new_string(tool.name)),
        field("effect", entity(&NAMES.effect, tool.effect.as_str())),
        field("known", RestrictedExpression::new_bool(tool.known)),
        field("text_leaves", RestrictedExpression::new_bool(tool.text_leaves)),
    ];
    Ok(Entity::new_with_tags(uid, attributes, groups, [])?)
}

fn arguments_entity(
    uid: EntityUid,
    arguments: ArgumentFacts,
    schema: SchemaVersion,
) -> Result<Entity, RequestError> {
    let ArgumentFacts { names, tags } = arguments;
    let attributes = [
        field("all", strings(names.all)),
        field(schema.not_from_user(), strings(names.not_from_user)),
    ];
    let tags = tags.into_iter().map(|(name, text)| (name, RestrictedExpression::new_string(text)));
    Ok(Entity::new_with_tags(uid, attributes, [], tags)?)
}

/// The parts of the context that the policy uses. The others are not built, because most policies use few.
fn parts(
    call: CallFacts,
    arguments: EntityUid,
    uses: &Uses,
    schema: SchemaVersion,
) -> Result<Vec<(String, RestrictedExpression)>, RequestError> {
    let channels = call.channels.iter().map(|channel| entity(&NAMES.channel, channel.as_str()));
    let origins = call.origins.iter().map(|origin| entity(&NAMES.origin, origin));
    let parts: [(&str, Part<'_>); 15] = [
        ("tainted", Box::new(|| Ok(RestrictedExpression::new_bool(call.tainted)))),
        ("intended", Box::new(|| Ok(RestrictedExpression::new_bool(call.intended)))),
        ("channels", Box::new(|| Ok(RestrictedExpression::new_set(channels)))),
        ("arguments", Box::new(|| Ok(RestrictedExpression::new_entity_uid(arguments)))),
        ("sinks", Box::new(|| sinks(&call.sinks, schema))),
        ("in_text", Box::new(|| sinks(&call.in_text, schema))),
        ("origins", Box::new(|| Ok(RestrictedExpression::new_set(origins)))),
        ("recipients", Box::new(|| places(call.recipients, schema))),
        ("urls", Box::new(|| places(call.urls, schema))),
        ("paths", Box::new(|| places(call.paths, schema))),
        ("accounts", Box::new(|| values(call.accounts, schema))),
        ("commands", Box::new(|| values(call.commands, schema))),
        ("ids", Box::new(|| values(call.ids, schema))),
        ("others", Box::new(|| values(call.others, schema))),
        ("amount", Box::new(|| Ok(RestrictedExpression::new_long(call.amount)))),
    ];
    let used = parts.into_iter().filter(|(name, _)| uses.has(name));
    used.map(|(name, part)| Ok(field(name, part()?))).collect()
}

/// One part of the context, built on demand.
type Part<'a> = Box<dyn FnOnce() -> Result<RestrictedExpression, RequestError> + 'a>;

fn field(name: &str, value: RestrictedExpression) -> (String, RestrictedExpression) {
    (name.to_owned(), value)
}

fn entity(kind: &EntityTypeName, id: &str) -> RestrictedExpression {
    RestrictedExpression::new_entity_uid(uid(kind, id))
}

fn strings(texts: BTreeSet<String>) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.into_iter().map(RestrictedExpression::new_string))
}

fn sink_set(sinks: &BTreeSet<Sink>) -> RestrictedExpression {
    RestrictedExpression::new_set(sinks.iter().map(|sink| entity(&NAMES.sink, sink.as_str())))
}

fn record<const N: usize>(
    fields: [(&str, RestrictedExpression); N],
) -> Result<RestrictedExpression, RequestError> {
    Ok(RestrictedExpression::new_record(fields.map(|(name, value)| (name.to_owned(), value)))?)
}

fn sinks(
    sinks: &Values<Sink>,
    schema: SchemaVersion,
) -> Result<RestrictedExpression, RequestError> {
    record([
        ("all", sink_set(&sinks.all)),
        (schema.not_from_user(), sink_set(&sinks.not_from_user)),
    ])
}

fn values(
    values: Values<String>,
    schema: SchemaVersion,
) -> Result<RestrictedExpression, RequestError> {
    record([("all", strings(values.all)), (schema.not_from_user(), strings(values.not_from_user))])
}

fn places(places: Places, schema: SchemaVersion) -> Result<RestrictedExpression, RequestError> {
    let Places { values, within } = places;
    record([
        ("all", strings(values.all)),
        (schema.not_from_user(), strings(values.not_from_user)),
        ("within", strings(within)),
    ])
}

#[cfg(test)]
mod tests {
    use cedar_policy::Schema;
    use custody_arguments::{Arguments, TextIndex, trace};
    use custody_kernel::label::{Channel, Taint};
    use custody_kernel::namespace::Tenant;
    use custody_kernel::principal::Role;

    use super::*;
    use crate::SCHEMA;
    use crate::question::{Caller, Question};
    use crate::{Manifests, Policy};

    /// A call with a value for every kind of sink.
    fn with_every_sink() -> (Manifests, Arguments) {
        let mut manifests = "groups.g = ['t', 'u']\n[tools.t]\neffect = 'writes'\n".to_owned();
        let mut arguments = serde_json::Map::new();
        for sink in Sink::ALL {
            let name = sink.as_str();
            manifests.push_str(&format!("arguments.{name} = {{ sink = '{name}' }}\n"));
            arguments.insert(name.to_owned(), serde_json::json!(["7", { "a": true }]));
        }
        arguments.insert("body".to_owned(), "https://a.example ann@example.com 123456".into());
        manifests.push_str("arguments.body = {}\n[tools.r]\neffect = 'reads'\n");
        let arguments = serde_json::Value::Object(arguments).to_string();
        (Manifests::parse(&manifests).unwrap(), Arguments::parse(&arguments).unwrap())
    }

    #[test]
    fn every_request_conforms_to_the_schema() {
        let (schema, warnings) = Schema::from_cedarschema_str(SCHEMA).unwrap();
        assert_eq!(warnings.count(), 0);
        let (manifests, arguments) = with_every_sink();
        let none = Arguments::parse("{}").unwrap();
        let channels = Channel::ALL.into_iter().collect();
        let mut texts = TextIndex::default();
        texts.add_user_text("Take 7.");
        texts.add_untrusted_text(custody_log::Seq(1), "https://a.example");
        let tenant = Tenant::main();
        for role in [Role::Owner, Role::Reviewer, Role::User, Role::Agent, Role::Service] {
            for (tool, arguments) in [("t", &arguments), ("u", &arguments), ("r", &none)] {
                let tool = manifests.tool(tool);
                let leaves = trace(tool.tool, arguments, &texts).into_recorded();
                let facts = Facts::of(&Question {
                    caller: Caller { name: "ada", role, trust: role.trust(), tenant: &tenant },
                    tool,
                    arguments,
                    leaves: &leaves,
                    taint: Taint::Clean,
                    channels: &channels,
                    is_intended: false,
                });
                let CedarRequest { request, entities } =
                    CedarRequest::of(facts, &Uses::All, SchemaVersion::Current).unwrap();
                Entities::from_entities(entities, Some(&schema)).unwrap();
                Request::new(
                    request.principal().unwrap().clone(),
                    request.action().unwrap().clone(),
                    request.resource().unwrap().clone(),
                    request.context().unwrap().clone(),
                    Some(&schema),
                )
                .unwrap();
            }
        }
    }

    #[test]
    fn the_shipped_policy_has_no_warnings() {
        assert_eq!(Policy::standard().warnings(), []);
        assert_eq!(uid(&NAMES.sink, "url").to_string(), "Sink::\"url\"");
    }
}
