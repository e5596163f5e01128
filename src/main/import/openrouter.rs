//! OpenRouter's routing members of a request's body, or of a preset: a config that sends them there.
//!
//! The provider stays OpenRouter: its `models` and `provider` go with each request, so that clients need not send them.

use super::config_parts::add_params;
use super::cursor::InputAt;
use super::import::Import;
use super::key_table::{Key, dropped, read};
use super::moved::{VariableUse, plain};
use super::report::Taken;
use super::tree::Tree;
use super::value::InputReference;
use words::config::node::Node;

const REQUEST: &str = "is the request's own, which each client sends";
const OBJECT: &str = "is of OpenRouter's database";

pub const KEYS: &[Key] = &[
    read("model", Taken::Exact, "override_params.model"),
    read("models", Taken::Exact, "override_params.models"),
    read("provider.**", Taken::Exact, "override_params.provider"),
    read("route", Taken::Exact, "override_params.route"),
    read("transforms", Taken::Exact, "override_params.transforms"),
    read("plugins.**", Taken::Exact, "override_params.plugins"),
    read("preset", Taken::Exact, "override_params.preset"),
    dropped("messages[].**", REQUEST),
    dropped("prompt", REQUEST),
    dropped("stream", REQUEST),
    dropped("user", REQUEST),
    dropped("tools[].**", REQUEST),
    dropped("created_at", OBJECT),
    dropped("updated_at", OBJECT),
    dropped("id", OBJECT),
    dropped("description", OBJECT),
];

/// Members that say where a request goes.
const ROUTING: [&str; 7] = ["model", "models", "provider", "route", "transforms", "plugins", "preset"];
/// Parameters that a preset may have.
const PARAMS: [&str; 12] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "top_a",
    "max_tokens",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "reasoning",
    "verbosity",
];

/// Whether a file is a body with OpenRouter's routing.
pub fn is_openrouter(root: &Node) -> bool {
    let at = InputAt::root(root, 0);
    let provider = at.member("provider").filter(|at| at.node.is_object());
    let routes = [
        "order",
        "only",
        "ignore",
        "sort",
        "max_price",
        "allow_fallbacks",
        "quantizations",
        "data_collection",
    ];
    at.member("models").is_some_and(|at| at.node.items().is_some())
        || at.member("preset").is_some()
        || provider.is_some_and(|at| routes.iter().any(|name| at.member(name).is_some()))
}

/// OpenRouter's bodies refer to nothing.
fn reader(_: &str) -> Option<InputReference> {
    None
}

/// Takes the files over: a config for each.
pub fn import(import: &mut Import, files: &[InputAt<'_>]) {
    let key = import.moved.variable("OPENROUTER_API_KEY", VariableUse::Secret);
    let account = Tree::of([("provider", Tree::text("openrouter")), ("api_key", Tree::Text(key))]);
    let slug = import.moved.provider("openrouter", &account);
    let mut ids = Vec::new();
    for file in files {
        let mut params = Tree::map();
        let mut defaults = Tree::map();
        for (name, at) in file.entries() {
            if ROUTING.contains(&name) {
                params.set(name, import.copied(&at, reader, &format!("override_params.{name}")));
            } else if PARAMS.contains(&name) {
                defaults.set(name, import.default_param(&at, reader));
            }
        }
        // The config needs a model; the first of `models` is what OpenRouter takes.
        let first = file.member("models").and_then(|models| models.items().first()?.text());
        if let (None, Some(first)) = (params.member("model"), first) {
            params.set("model", Tree::Text(plain(&first)));
        }
        let mut config = Tree::of([("provider", Tree::Text(format!("@{slug}")))]);
        add_params(&mut config, params, &defaults);
        let name = file.text_of("slug").unwrap_or_else(|| import.file_name(file.file));
        let id = import.moved.config(&name, &config);
        import.moved.model(&id, Tree::text(id.clone()));
        for name in ["slug", "name"] {
            if let Some(at) = file.member(name) {
                import.findings.exact(&at, format!("configs.{id}, models.{id}"));
            }
        }
        ids.push(id);
    }
    if let [id] = ids.as_slice() {
        import.moved.set_section("default_config", Tree::text(id.clone()));
    }
}
