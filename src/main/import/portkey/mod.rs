//! Portkey's configs, and what its API exports: lists of configs, virtual keys, guardrails, keys, prompts.
//!
//! `config` takes a config over, `providers` makes the providers that it names, `service_key` keys of clients, `prompts` what is made in the
//! store. Exports have no secrets.

mod config;
pub mod keys;
mod prompts;
mod providers;
mod service_key;

use super::cursor::InputAt;
use super::import::Import;
use super::moved::id_of;
use super::tree::Tree;
use providers::Slugs;
use words::config::node::{Node, NodeKind};

/// What an object of an export is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exported {
    Config,
    VirtualKey,
    Guardrail,
    Key,
    Prompt,
}

/// Configs in an export are JSON in a text: they are read as what they say.
pub fn prepare(root: &mut Node) {
    match &mut root.kind {
        NodeKind::Map(entries) => {
            for entry in entries {
                let parsed = match &entry.value.kind {
                    NodeKind::Text(text) if entry.name == "config" && text.trim_start().starts_with('{') => {
                        Node::from_json(text.as_bytes()).ok()
                    }
                    _ => None,
                };
                match parsed {
                    Some(parsed) => entry.value.kind = parsed.kind,
                    None => prepare(&mut entry.value),
                }
            }
        }
        NodeKind::List(items) => items.iter_mut().for_each(prepare),
        _ => {}
    }
}

/// Whether a file is one of Portkey's.
pub fn is_portkey(root: &Node) -> bool {
    let at = InputAt::root(root, 0);
    config::is_config(&at) || objects(&at).iter().any(|object| kind(object).is_some())
}

/// The objects of an export: of a list, of its `data`, or the file itself.
fn objects<'n>(root: &InputAt<'n>) -> Vec<InputAt<'n>> {
    if root.node.items().is_some() {
        return root.items();
    }
    match root.member("data") {
        Some(data) => data.items(),
        None => vec![root.clone()],
    }
}

fn kind(at: &InputAt<'_>) -> Option<Exported> {
    let has = |name: &str| at.member(name).is_some();
    if at.member("config").is_some_and(|config| config.node.is_object()) {
        return Some(Exported::Config);
    }
    if has("slug") && (has("ai_provider_name") || has("ai_provider_id") || has("model_config")) {
        return Some(Exported::VirtualKey);
    }
    if has("checks") && at.member("checks").is_some_and(|checks| checks.node.items().is_some()) {
        return Some(Exported::Guardrail);
    }
    if has("scopes") && has("name") {
        return Some(Exported::Key);
    }
    (has("string") && has("slug")).then_some(Exported::Prompt)
}

/// Takes the files over.
pub fn import(import: &mut Import, files: &[InputAt<'_>]) {
    let mut slugs = Slugs::default();
    for file in files {
        for object in objects(file) {
            match kind(&object) {
                Some(Exported::VirtualKey) => virtual_key(import, &mut slugs, &object),
                Some(Exported::Guardrail) => guardrail(import, &mut slugs, &object),
                Some(Exported::Key) => service_key::read(import, &object),
                _ => {}
            }
        }
    }
    // The providers of an export are what they are, whichever file has them.
    for file in files {
        for object in objects(file) {
            if kind(&object) == Some(Exported::Prompt) {
                prompts::read(import, &mut slugs, &object);
            }
        }
    }
    let mut ids = Vec::new();
    for file in files {
        if config::is_config(file) {
            let config = config::level(import, &mut slugs, file);
            let name = import.file_name(file.file);
            ids.push(import.moved.config(&name, &config));
            continue;
        }
        for object in objects(file).iter().filter(|object| kind(object) == Some(Exported::Config)) {
            let named = ["slug", "id", "name"].iter().find_map(|name| object.member(name));
            let Some(at) = object.member("config") else { continue };
            let config = config::level(import, &mut slugs, &at);
            let id = named.as_ref().and_then(InputAt::text).unwrap_or_else(|| import.file_name(file.file));
            let id = import.moved.config(&id, &config);
            for at in named.iter().chain(object.member("name").iter()) {
                import.findings.exact(at, format!("configs.{id}"));
            }
            ids.push(id);
        }
    }
    if let [id] = ids.as_slice() {
        import.moved.set_section("default_config", Tree::text(id.clone()));
    }
    // Portkey's libraries send their headers under this prefix.
    let prefixes = ["x-gateway-", "x-portkey-"].map(Tree::text).to_vec();
    import.moved.set_section("header_prefixes", Tree::List(prefixes));
    import.moved.comment("configs", "The ids are the slugs that clients name in x-portkey-config.");
}

fn virtual_key(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>) {
    let Some(slug_at) = at.member("slug") else { return };
    let slug = slug_at.text().unwrap_or_default();
    let vendor = ["ai_provider_name", "ai_provider_id"].iter().find_map(|name| at.member(name));
    if let Some(vendor) = &vendor {
        slugs.export(&slug, &vendor.text().unwrap_or_default());
        import.findings.exact(vendor, format!("providers.{}.provider", id_of(&slug)));
    }
    let id = slugs.provider(import, &slug_at, &slug, None);
    if let Some(name) = at.member("name") {
        import.findings.different(&name, format!("the slug is the name here: providers.{id}"));
    }
}

/// A guardrail, whose checks configs get that name it.
fn guardrail(import: &mut Import, slugs: &mut Slugs, at: &InputAt<'_>) {
    let Some(checks) = at.member("checks") else { return };
    let tree = import.copied(&checks, config::reader, "checks of the guardrail in configs that name it");
    let mut actions = Tree::map();
    for (name, at) in at.member("actions").map(|actions| actions.entries()).unwrap_or_default() {
        let is_flag = at.flag().is_some() && matches!(name, "deny" | "async");
        if is_flag || (matches!(name, "on_fail" | "on_success") && at.node.is_object()) {
            let text = format!("{name} of the guardrail in configs that name it");
            actions.set(name, import.copied(&at, config::reader, &text));
        }
    }
    let ids: Vec<InputAt<'_>> = ["id", "slug"].iter().filter_map(|name| at.member(name)).collect();
    for id in &ids {
        let text = id.text().unwrap_or_default();
        let mut guardrail = Tree::of([("id", Tree::text(id_of(&text))), ("checks", tree.clone())]);
        if let Tree::Map(members) = &actions {
            members.iter().for_each(|member| guardrail.set(&member.name, member.value.clone()));
        }
        slugs.export_guardrail(&text, guardrail);
        import.findings.exact(id, "the guardrail of configs that name it");
    }
    if let Some(name) = at.member("name") {
        import.findings.different(&name, "results of a guardrail have its id");
    }
}
