//! `models.<name>`: a name that works as `model`, what it stands for, and who may use it.
//!
//! In the settings and in the store the same. Not here: which name a request means, and what follows (`route::model_names`).

use super::model_pattern::{ModelPattern, RULE};
use super::values::is_id;
use crate::api::operation::Operation;
use crate::config::members::{self, MemberTable, MemberType, NON_EMPTY, list, non_empty};
use crate::config::read::Cursor;
use crate::config::{Checks, Config};
use crate::json::schema;
use serde_json::{Value, json};

/// One name of `models`.
#[derive(Debug, Clone)]
pub struct ModelEntry {
    /// The name, or with a `*` all names that it means.
    pub name: ModelPattern,
    pub route: ModelRoute,
    /// The model that is requested, in which `*` is what the `*` of the name stands for. `None`: the name that the client used.
    pub model: Option<ModelPattern>,
    /// The labels of the operations that it may be used for; `None`: all.
    pub operations: Option<Vec<&'static str>>,
    /// The keys that may use it, those of the settings by name, others by id; `None`: all.
    pub keys: Option<Vec<String>>,
    /// The slugs or ids of the workspaces whose keys may use it; `None`: all.
    pub workspaces: Option<Vec<String>>,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum ModelRoute {
    /// The slug of a stored provider, without the `@`.
    Provider(String),
    /// The id of a saved config.
    Saved(String),
    /// A config, or a target, of its own.
    Inline(Box<Config>),
}

impl ModelEntry {
    /// The names of its members.
    pub const MEMBERS: [&'static str; 5] = ["to", "model", "operations", "keys", "workspaces"];

    pub(super) const DOC: &'static str =
        "What a name stands for, and who may use it. A text is short for an object with `to`.";

    /// Reads the entry of this name. `None` where it has problems, which are reported.
    pub fn read(name: &str, at: &Cursor<'_>, checks: &Checks<'_>) -> Option<Self> {
        let before = at.problem_count();
        let found = ModelPattern::parse(name).filter(|found| !found.as_str().starts_with('@'));
        if found.is_none() {
            at.problem(format!("is the name of an entry, which {RULE}, and no @ at its beginning"));
        }
        let parts = match at.node.as_text() {
            Some(_) => Some(Parts { to: To { checks }.read(at), ..Parts::default() }),
            None => members::read(at, |table| Parts::members(table, checks)),
        };
        let entry = parts?.entry(found?, at)?;
        (at.problem_count() == before).then_some(entry)
    }

    /// The model that is requested where a client used `name`.
    pub fn model_for(&self, name: &str) -> String {
        match &self.model {
            Some(model) => model.with(self.name.found_in(name).unwrap_or_default()),
            None => name.to_owned(),
        }
    }

    /// The name that becomes this model, of an entry with a `*`; `None`: none does.
    pub fn name_of(&self, model: &str) -> Option<String> {
        match &self.model {
            Some(pattern) if !pattern.is_exact() => Some(self.name.with(pattern.found_in(model)?)),
            Some(_) => None,
            None => self.name.found_in(model).map(|_| model.to_owned()),
        }
    }

    /// Whether it may be used for an operation.
    pub fn is_for(&self, operation: Operation) -> bool {
        self.operations.as_ref().is_none_or(|labels| labels.contains(&operation.label()))
    }

    /// The schema of an entry.
    pub(super) fn schema() -> Value {
        let short = schema::non_empty("The same as `to`.");
        let whole = members::schema("", |table| Parts::members(table, &Checks::NONE));
        json!({"anyOf": [short, whole], "description": Self::DOC})
    }
}

/// The members of an entry.
#[derive(Default)]
struct Parts {
    /// With the model behind the slug, where it names one.
    to: Option<(ModelRoute, Option<String>)>,
    model: Option<String>,
    operations: Option<Vec<&'static str>>,
    keys: Option<Vec<String>>,
    workspaces: Option<Vec<String>>,
}

impl Parts {
    fn members(table: &mut MemberTable<'_>, checks: &Checks<'_>) -> Option<Self> {
        let model = "The model that is requested; * is what the * of the name stands for. Default: the name that the client used.";
        let keys = "The keys that may use it: those of the settings by name, others by id. Default: all.";
        let workspaces = "The slugs or ids of the workspaces whose keys may use it. Default: all.";
        let operations = "What it may be used for, by the names of docs/operations.md. Default: everything.";
        Some(Self {
            to: table.needed(
                "to",
                To { checks },
                "@slug, @slug/model, the id of a saved config, or a config or target.",
            ),
            model: table.get("model", NON_EMPTY, model),
            operations: table.get("operations", list(OperationName, "An operation."), operations),
            keys: table.get("keys", list(NON_EMPTY, "A key."), keys),
            workspaces: table.get("workspaces", list(NON_EMPTY, "A workspace."), workspaces),
        })
    }

    fn entry(self, name: ModelPattern, at: &Cursor<'_>) -> Option<ModelEntry> {
        let (route, of_slug) = self.to?;
        if of_slug.is_some() && self.model.is_some() {
            at.problem("names the model twice: behind the slug and as model");
        }
        let model = of_slug.or(self.model);
        let pattern = model.as_deref().map(ModelPattern::parse);
        if pattern == Some(None) {
            at.problem(format!("names a model that {RULE}"));
        }
        let pattern = pattern.flatten();
        if name.is_exact() && pattern.as_ref().is_some_and(|model| !model.is_exact()) {
            at.problem("has a * in its model and none in its name, so there is nothing that it stands for");
        }
        let Self { operations, keys, workspaces, .. } = self;
        Some(ModelEntry { name, route, model: pattern, operations, keys, workspaces })
    }
}

/// What a name stands for: `@slug`, `@slug/model`, a saved config, or a config.
struct To<'c> {
    checks: &'c Checks<'c>,
}

impl MemberType for To<'_> {
    type Value = (ModelRoute, Option<String>);

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        if at.node.is_object() {
            return Config::read(at, self.checks).map(|config| (ModelRoute::Inline(Box::new(config)), None));
        }
        let text = non_empty(at)?;
        let Some(rest) = text.strip_prefix('@') else {
            if !is_id(text) {
                at.problem("must be @slug, @slug/model, the id of a saved config, or a config");
            }
            return Some((ModelRoute::Saved(text.to_owned()), None));
        };
        let (slug, model) = match rest.split_once('/') {
            Some((slug, model)) => (slug, Some(model.to_owned())),
            None => (rest, None),
        };
        if !is_id(slug) || model.as_deref() == Some("") {
            at.problem("must be @slug or @slug/model");
        }
        Some((ModelRoute::Provider(slug.to_owned()), model))
    }

    fn schema(&self, doc: &str) -> Value {
        json!({"anyOf": [{"type": "string", "pattern": r"\S"}, {"$ref": "#/$defs/config"}], "description": doc})
    }
}

/// The label of an operation.
struct OperationName;

impl MemberType for OperationName {
    type Value = &'static str;

    fn read(&self, at: &Cursor<'_>) -> Option<&'static str> {
        let name = at.text()?;
        let found = Operation::labels().find(|label| *label == name);
        if found.is_none() {
            at.problem("is no operation; docs/operations.md lists them");
        }
        found
    }

    fn schema(&self, doc: &str) -> Value {
        schema::one_of(doc, Operation::labels())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::node::Node;
    use crate::config::read::Problems;

    fn entry(name: &str, json: &Value) -> Result<ModelEntry, Vec<String>> {
        let node = Node::from_json(json.to_string().as_bytes()).unwrap();
        let problems = Problems::default();
        let read = ModelEntry::read(name, &Cursor::root(&node, &problems), &Checks::NONE);
        read.ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_name_becomes_what_it_stands_for() {
        for (name, json, used, wanted) in [
            ("fast", json!("@openai/gpt-4o-mini"), "fast", "gpt-4o-mini"),
            ("claude-*", json!("@anthropic"), "claude-x", "claude-x"),
            ("openai/*", json!("@openai/*"), "openai/a/b", "a/b"),
            ("openai/*", json!({"to": "support", "model": "*"}), "openai/m", "m"),
            ("gpt-4o", json!({"to": {"provider": "@openai"}}), "gpt-4o", "gpt-4o"),
            ("a", json!({"to": "@p", "model": "m", "operations": ["chat"], "keys": ["k"]}), "a", "m"),
        ] {
            assert_eq!(entry(name, &json).unwrap().model_for(used), wanted, "{name} {json}");
        }
    }

    #[test]
    fn the_name_of_a_listed_model_is_found() {
        for (name, to, model, wanted) in [
            ("claude-*", "@a", "claude-x", Some("claude-x")),
            ("claude-*", "@a", "gpt", None),
            ("openai/*", "@a/*", "m", Some("openai/m")),
            ("x-*", "@a/ft:*-1", "ft:b-1", Some("x-b")),
            ("x-*", "@a/m", "m", None),
        ] {
            assert_eq!(entry(name, &json!(to)).unwrap().name_of(model).as_deref(), wanted, "{name} {model}");
        }
    }

    #[test]
    fn mistakes_are_reported() {
        for (name, json, wanted) in [
            ("@a", json!("@p/m"), "no @"),
            ("a b", json!("@p/m"), "without spaces"),
            ("a", json!("@p/*"), "none in its name"),
            ("a", json!("@/m"), "@slug or @slug/model"),
            ("a", json!("@p/"), "@slug or @slug/model"),
            ("a", json!("a config"), "id of a saved config"),
            ("a", json!({"model": "m"}), "is required"),
            ("a", json!({"to": "@p/m", "model": "n"}), "twice"),
            ("a", json!({"to": "@p", "operations": ["talk"]}), "is no operation"),
            ("a", json!({"to": "@p", "allow": 1}), "allow"),
            ("a", json!({"to": {"retry": 1}}), "retry"),
        ] {
            let problems = entry(name, &json).unwrap_err();
            assert!(problems.iter().any(|problem| problem.contains(wanted)), "{name} {json} {problems:?}");
        }
    }
}
