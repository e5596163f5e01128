//! Dynamic routes of Cloudflare's AI Gateway: a graph of elements becomes a config.
//!
//! Conditions, shares and models with their fallbacks are taken; limits of a branch are not, and its way where there is room is.

use super::blank_account;
use super::cursor::InputAt;
use super::import::Import;
use super::key_table::{Key, dropped, read};
use super::moved::{id_of, plain};
use super::report::Taken;
use super::tree::Tree;
use words::config::node::Node;

const OBJECT: &str = "is of Cloudflare's database";
const RATE: &str = "a limit of a branch: policies limit by metadata, key or model (docs/limits.md); the way where there is room is taken";

pub const KEYS: &[Key] = &[
    read("elements[].id", Taken::Exact, "the structure of the config"),
    read("elements[].type", Taken::Exact, "the structure of the config"),
    read("elements[].outputs.**", Taken::Exact, "the structure of the config"),
    read("elements[].properties.conditions.**", Taken::Exact, "strategy.conditions"),
    read("elements[].properties.condition.**", Taken::Exact, "strategy.conditions"),
    read("elements[].properties.provider", Taken::Exact, "provider"),
    read("elements[].properties.model", Taken::Exact, "override_params.model"),
    read("elements[].properties.retries", Taken::Exact, "retry.attempts"),
    read("elements[].properties.timeout", Taken::Exact, "request_timeout"),
    dropped("elements[].properties.**", RATE),
    read("name", Taken::Exact, "models, configs"),
    dropped("id", OBJECT),
    dropped("gateway_id", OBJECT),
    dropped("account_tag", OBJECT),
    dropped("created_at", OBJECT),
    dropped("modified_at", OBJECT),
    dropped("version.**", OBJECT),
    dropped("deployment.**", OBJECT),
];

/// The deepest way through a graph: configs are at most 16 levels deep.
const MAX_DEPTH: usize = 12;

/// How many elements of a graph are followed: the ways through one may be more than its elements.
const MAX_STEPS: usize = 1000;

/// Whether a file is a dynamic route.
pub fn is_cloudflare(root: &Node) -> bool {
    let elements =
        InputAt::root(root, 0).member("elements").map(|elements| elements.items()).unwrap_or_default();
    elements.iter().any(|element| element.text_of("type").as_deref() == Some("start"))
}

/// Takes the files over: a config for each, and the name that clients send.
pub fn import(import: &mut Import, files: &[InputAt<'_>]) {
    let mut ids = Vec::new();
    for file in files {
        let elements = file.member("elements").map(|elements| elements.items()).unwrap_or_default();
        let mut route = DynamicRoute { import, elements: &elements, steps: 0 };
        let start = elements.iter().find(|element| element.text_of("type").as_deref() == Some("start"));
        let config = start.and_then(|start| {
            route.note(start);
            route.output(start, "next", 0)
        });
        let Some(config) = config else {
            import.findings.not_taken(file, "no way through it ends at a model");
            continue;
        };
        let named = file.member("name");
        let name = named.as_ref().and_then(InputAt::text).unwrap_or_else(|| import.file_name(file.file));
        let id = import.moved.config(&name, &config);
        let model = format!("dynamic/{}", id_of(&name));
        import.moved.model(&model, Tree::text(id.clone()));
        if let Some(at) = named {
            import.findings.exact(&at, format!("configs.{id}, models.{model}"));
        }
        ids.push(id);
    }
    if let [id] = ids.as_slice() {
        import.moved.set_section("default_config", Tree::text(id.clone()));
    }
}

struct DynamicRoute<'i, 'e, 'n> {
    import: &'i mut Import,
    elements: &'e [InputAt<'n>],
    /// How many elements were followed.
    steps: usize,
}

impl DynamicRoute<'_, '_, '_> {
    fn note(&mut self, element: &InputAt<'_>) {
        for name in ["id", "type", "outputs"] {
            if let Some(at) = element.member(name) {
                self.import.findings.whole(&at, Taken::Exact, "the structure of the config");
            }
        }
    }

    /// What is behind an output; `None`: the end.
    fn output(&mut self, element: &InputAt<'_>, name: &str, depth: usize) -> Option<Tree> {
        let id = element.member("outputs")?.member(name)?.text_of("elementId")?;
        self.element(&id, depth + 1)
    }

    fn element(&mut self, id: &str, depth: usize) -> Option<Tree> {
        let found = self.elements.iter().find(|element| element.text_of("id").as_deref() == Some(id))?;
        let element = found.clone();
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            let why = "the way to it is longer than a config may be deep, or there are too many";
            self.import.findings.whole(&element, Taken::Not, why);
            return None;
        }
        self.note(&element);
        let properties = element.member("properties");
        match element.text_of("type")?.as_str() {
            "conditional" => self.conditional(&element, properties.as_ref()?, depth),
            "percentage" => self.shares(&element, depth),
            "model" => self.model(&element, properties.as_ref()?, depth),
            "rate" | "rate_limit" | "budget" | "budget_limit" => {
                self.import.findings.not_taken(properties.as_ref().unwrap_or(&element), RATE);
                self.output(&element, "success", depth)
            }
            "end" => None,
            _ => {
                self.import.findings.not_taken(&element, "an element that is not known here");
                None
            }
        }
    }

    fn conditional(&mut self, element: &InputAt<'_>, properties: &InputAt<'_>, depth: usize) -> Option<Tree> {
        let conditions = properties.member("conditions").or_else(|| properties.member("condition"))?;
        self.import.findings.whole(&conditions, Taken::Exact, "strategy.conditions");
        let query = query(&conditions);
        let then = self.output(element, "true", depth)?.with("name", Tree::text("then"));
        let otherwise = self.output(element, "false", depth)?.with("name", Tree::text("otherwise"));
        let condition = Tree::of([("query", query), ("then", Tree::text("then"))]);
        let strategy = Tree::of([
            ("mode", Tree::text("conditional")),
            ("conditions", Tree::List(vec![condition])),
            ("default", Tree::text("otherwise")),
        ]);
        Some(Tree::of([("strategy", strategy), ("targets", Tree::List(vec![then, otherwise]))]))
    }

    /// Outputs named `10%` and `else`.
    fn shares(&mut self, element: &InputAt<'_>, depth: usize) -> Option<Tree> {
        let outputs: Vec<&str> =
            element.member("outputs")?.entries().into_iter().map(|(name, _)| name).collect();
        let share = |name: &str| name.trim_end_matches('%').trim().parse::<f64>().ok();
        let given: f64 = outputs.iter().filter_map(|name| share(name)).sum();
        let mut targets = Vec::new();
        for name in outputs {
            let weight = share(name).unwrap_or((100.0 - given).max(0.0));
            if let Some(target) = self.output(element, name, depth) {
                targets.push(target.with("weight", Tree::number(weight)));
            }
        }
        let strategy = Tree::of([("mode", Tree::text("loadbalance"))]);
        (!targets.is_empty()).then(|| Tree::of([("strategy", strategy), ("targets", Tree::List(targets))]))
    }

    fn model(&mut self, element: &InputAt<'_>, properties: &InputAt<'_>, depth: usize) -> Option<Tree> {
        let provider_at = properties.member("provider")?;
        let model_at = properties.member("model")?;
        let vendor = our_id(&provider_at.text()?).to_owned();
        if knowledge::provider::find(&vendor).is_none() {
            self.import
                .findings
                .not_taken(element, format!("there is no provider {vendor} here (docs/providers.md)"));
            return self.output(element, "fallback", depth);
        }
        if !self.import.moved.has_provider(&vendor) {
            let account = blank_account::of(self.import, &vendor, &vendor);
            self.import.moved.set("providers", &vendor, account);
        }
        let text = format!("providers.{vendor}: keys are not in a route; fill its variables");
        self.import.findings.exact(&provider_at, text);
        self.import.findings.exact(&model_at, "override_params.model");
        let params = Tree::of([("model", Tree::Text(plain(&model_at.text()?)))]);
        let mut target =
            Tree::of([("provider", Tree::Text(format!("@{vendor}"))), ("override_params", params)]);
        if let Some((at, count)) =
            properties.member("retries").and_then(|at| Some((at.clone(), at.number()?)))
        {
            if count >= 1.0 {
                target.set("retry", Tree::of([("attempts", Tree::number(count.trunc()))]));
            }
            self.import.findings.exact(&at, "retry.attempts");
        }
        if let Some((at, time)) = properties.member("timeout").and_then(|at| Some((at.clone(), at.number()?)))
            && time >= 1.0
        {
            target.set("request_timeout", Tree::number(time.trunc()));
            self.import.findings.exact(&at, "request_timeout");
        }
        let Some(next) = self.output(element, "fallback", depth) else { return Some(target) };
        let strategy = Tree::of([("mode", Tree::text("fallback"))]);
        Some(Tree::of([("strategy", strategy), ("targets", Tree::List(vec![target, next]))]))
    }
}

/// A condition: members of the body are `params` here.
fn query(at: &InputAt<'_>) -> Tree {
    match at.entries().as_slice() {
        [] => Tree::from_node(at.node, &mut |text| plain(text)),
        entries => entries.iter().fold(Tree::map(), |made, (name, below)| {
            let ours = match name.strip_prefix("body.") {
                Some(rest) => format!("params.{rest}"),
                None => (*name).to_owned(),
            };
            let value = match below.items().as_slice() {
                [] => Tree::from_node(below.node, &mut |text| plain(text)),
                items if items.iter().all(|item| item.node.is_object()) => {
                    Tree::List(items.iter().map(query).collect())
                }
                _ => Tree::from_node(below.node, &mut |text| plain(text)),
            };
            made.with(&ours, value)
        }),
    }
}

/// Cloudflare's name of a provider.
fn our_id(name: &str) -> &str {
    match name {
        "google-ai-studio" => "google",
        "google-vertex-ai" => "vertex-ai",
        "aws-bedrock" => "bedrock",
        "grok" => "x-ai",
        "mistral" => "mistral-ai",
        "perplexity" => "perplexity-ai",
        other => other,
    }
}
