//! Facts as Cedar takes them.

use std::collections::{BTreeSet, HashSet};
use std::str::FromStr as _;
use std::sync::LazyLock;

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression,
};
use custody_arguments::Sink;

use crate::facts::{Arguments, Facts, Places, Told};
use crate::uses::Uses;

/// A question in Cedar's terms.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) entities: Entities,
}

/// Why facts cannot be put to Cedar. The types of [`Facts`] leave no room for it.
pub(crate) type Unasked = Box<dyn std::error::Error>;

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

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let name = |name| EntityTypeName::from_str(name).expect("one plain word");
    Names {
        principal: name("Principal"),
        role: name("Role"),
        tool: name("Tool"),
        group: name("Group"),
        effect: name("Effect"),
        channel: name("Channel"),
        sink: name("Sink"),
        origin: name("Origin"),
        arguments: name("Arguments"),
        call: uid(&name("Action"), "call"),
    }
});

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

impl Asked {
    /// Puts those of the `facts` that the policy `uses`, as the schema has them. They are not checked against it
    /// again: a test does.
    pub(crate) fn of(facts: Facts, uses: &Uses) -> Result<Self, Unasked> {
        let names = &*NAMES;
        let Facts { principal, resource, context } = facts;
        let caller = uid(&names.principal, &principal.name);
        let tool = uid(&names.tool, &resource.name);
        let mut entities = vec![
            Entity::new_with_tags(
                caller.clone(),
                [
                    field("trusted", RestrictedExpression::new_bool(principal.trusted)),
                    field("tenant", RestrictedExpression::new_string(principal.tenant)),
                ],
                [uid(&names.role, principal.role.as_str())],
                [],
            )?,
            Entity::new_with_tags(
                tool.clone(),
                [
                    field("name", RestrictedExpression::new_string(resource.name)),
                    field("effect", entity(&names.effect, resource.effect.as_str())),
                    field("known", RestrictedExpression::new_bool(resource.known)),
                    field("text_leaves", RestrictedExpression::new_bool(resource.text_leaves)),
                ],
                resource
                    .groups
                    .iter()
                    .map(|group| uid(&names.group, group))
                    .collect::<HashSet<_>>(),
                [],
            )?,
        ];
        let arguments = uid(&names.arguments, "");
        if uses.has("arguments") {
            entities.push(arguments_entity(arguments.clone(), context.arguments)?);
        }
        let channels =
            context.channels.iter().map(|channel| entity(&names.channel, channel.as_str()));
        let origins = context.origins.iter().map(|origin| entity(&names.origin, origin));
        let parts: [(&str, Part<'_>); 14] = [
            ("tainted", Box::new(|| Ok(RestrictedExpression::new_bool(context.tainted)))),
            ("channels", Box::new(|| Ok(RestrictedExpression::new_set(channels)))),
            ("arguments", Box::new(|| Ok(RestrictedExpression::new_entity_uid(arguments)))),
            ("sinks", Box::new(|| sinks(&context.sinks))),
            ("in_text", Box::new(|| sinks(&context.in_text))),
            ("origins", Box::new(|| Ok(RestrictedExpression::new_set(origins)))),
            ("recipients", Box::new(|| places(context.recipients))),
            ("urls", Box::new(|| places(context.urls))),
            ("paths", Box::new(|| places(context.paths))),
            ("accounts", Box::new(|| values(context.accounts))),
            ("commands", Box::new(|| values(context.commands))),
            ("ids", Box::new(|| values(context.ids))),
            ("others", Box::new(|| values(context.others))),
            ("amount", Box::new(|| Ok(RestrictedExpression::new_long(context.amount)))),
        ];
        let used = parts.into_iter().filter(|(name, _)| uses.has(name));
        let used = used
            .map(|(name, part)| Ok(field(name, part()?)))
            .collect::<Result<Vec<_>, Unasked>>()?;
        let request =
            Request::new(caller, names.call.clone(), tool, Context::from_pairs(used)?, None)?;
        Ok(Self { request, entities: Entities::from_entities(entities, None)? })
    }
}

/// One part of the context, made when it is needed.
type Part<'a> = Box<dyn FnOnce() -> Result<RestrictedExpression, Unasked> + 'a>;

fn arguments_entity(uid: EntityUid, arguments: Arguments) -> Result<Entity, Unasked> {
    let Arguments { names, tags } = arguments;
    let attributes = [field("all", strings(names.all)), field("unsaid", strings(names.unsaid))];
    let tags = tags.into_iter().map(|(name, text)| (name, RestrictedExpression::new_string(text)));
    Ok(Entity::new_with_tags(uid, attributes, [], tags)?)
}

fn field(name: &str, value: RestrictedExpression) -> (String, RestrictedExpression) {
    (name.to_owned(), value)
}

fn entity(kind: &EntityTypeName, id: &str) -> RestrictedExpression {
    RestrictedExpression::new_entity_uid(uid(kind, id))
}

fn strings(texts: BTreeSet<String>) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.into_iter().map(RestrictedExpression::new_string))
}

fn record<const N: usize>(
    fields: [(&str, RestrictedExpression); N],
) -> Result<RestrictedExpression, Unasked> {
    Ok(RestrictedExpression::new_record(fields.map(|(name, value)| (name.to_owned(), value)))?)
}

fn sinks(told: &Told<Sink>) -> Result<RestrictedExpression, Unasked> {
    let set = |sinks: &BTreeSet<Sink>| {
        RestrictedExpression::new_set(sinks.iter().map(|sink| entity(&NAMES.sink, sink.as_str())))
    };
    record([("all", set(&told.all)), ("unsaid", set(&told.unsaid))])
}

fn values(told: Told<String>) -> Result<RestrictedExpression, Unasked> {
    record([("all", strings(told.all)), ("unsaid", strings(told.unsaid))])
}

fn places(places: Places) -> Result<RestrictedExpression, Unasked> {
    let Places { values, within } = places;
    record([
        ("all", strings(values.all)),
        ("unsaid", strings(values.unsaid)),
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
    use crate::policy::SCHEMA;
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
    fn every_question_is_as_the_schema_says() {
        let (schema, warnings) = Schema::from_cedarschema_str(SCHEMA).unwrap();
        assert_eq!(warnings.count(), 0);
        let (manifests, arguments) = with_every_sink();
        let none = Arguments::parse("{}").unwrap();
        let channels = Channel::ALL.into_iter().collect();
        let mut heard = TextIndex::default();
        heard.add_user_text("Take 7.");
        heard.add_untrusted_text(custody_log::Seq(1), "https://a.example");
        let tenant = Tenant::main();
        for role in [Role::Owner, Role::Reviewer, Role::User, Role::Agent, Role::Service] {
            for (tool, arguments) in [("t", &arguments), ("u", &arguments), ("r", &none)] {
                let tool = manifests.tool(tool);
                let leaves = trace(tool.tool, arguments, &heard).into_recorded();
                let facts = Facts::of(&Question {
                    caller: Caller { name: "ada", role, trust: role.trust(), tenant: &tenant },
                    tool,
                    arguments,
                    leaves: &leaves,
                    taint: Taint::Clean,
                    channels: &channels,
                });
                let Asked { request, entities } = Asked::of(facts, &Uses::All).unwrap();
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
    fn what_ships_is_valid() {
        assert_eq!(Policy::standard().warnings(), []);
        assert_eq!(uid(&NAMES.sink, "url").to_string(), "Sink::\"url\"");
    }
}
