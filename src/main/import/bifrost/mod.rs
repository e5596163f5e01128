//! Bifrost's `config.json`, versions 1 and 2: keys of providers become stored providers, their models names.
//!
//! `account` is a key's account, `models` which models it is for, `governance` virtual keys and routing rules, `keys` what becomes of every
//! key of the file. The versions differ in what an empty list means: all in 1, none in 2.

mod account;
mod governance;
pub mod keys;
mod models;
mod value;

use super::cursor::InputAt;
use super::import::Import;
use super::moved::{VariableUse, plain};
use super::tree::Tree;
use words::config::node::Node;

/// Whether a file is one of Bifrost's.
pub fn is_bifrost(root: &Node) -> bool {
    let at = InputAt::root(root, 0);
    let names = at.text_of("$schema").is_some_and(|schema| schema.contains("getbifrost"));
    let providers = at.member("providers").map(|providers| providers.entries()).unwrap_or_default();
    let has_keys = |at: &InputAt<'_>| at.member("keys").is_some_and(|keys| keys.node.items().is_some());
    names
        || providers.iter().any(|(_, at)| has_keys(at) || at.member("network_config").is_some())
        || at
            .member("governance")
            .is_some_and(|at| at.member("virtual_keys").is_some() || at.member("routing_rules").is_some())
}

/// Takes the files over.
pub fn import(import: &mut Import, files: &[InputAt<'_>]) {
    let mut providers = Vec::new();
    let empty_is_all = files.iter().any(|file| {
        let version = file.member("version");
        if let Some(at) = &version {
            import.findings.exact(at, "how empty lists of models are read");
        }
        version.and_then(|at| at.number()) == Some(1.0)
    });
    for file in files {
        import.reserve_references(file.node, value::reader);
    }
    for file in files {
        for (name, at) in file.member("providers").map(|providers| providers.entries()).unwrap_or_default() {
            if let Some(provider) = models::read(import, name, &at, empty_is_all) {
                models::note_rest(import, &at);
                providers.push(provider);
            }
        }
        if let Some(client) = file.member("client") {
            read_client(import, &client);
        }
    }
    for file in files {
        if let Some(governance) = file.member("governance") {
            governance::read_rules(import, &governance, &providers);
            governance::read_keys(import, &governance, &providers, empty_is_all);
        }
    }
    models::write(import, &providers);
    for file in files {
        close(import, file);
    }
    import.moved.comment(
        "models",
        "Clients of Bifrost send provider/model; what one provider alone lists has its plain name as well.",
    );
}

/// Where every client needs a key and the file has none that is active, a gateway without keys would be open: it gets one to set.
fn close(import: &mut Import, file: &InputAt<'_>) {
    let enforced = ["enforce_auth_on_inference", "enforce_governance_header", "is_vk_mandatory"];
    let client = file.member("client");
    let enforced = enforced.iter().filter_map(|name| client.as_ref()?.member(name));
    let enforced: Vec<InputAt<'_>> = enforced.filter(|at| at.flag() == Some(true)).collect();
    let governance = file.member("governance");
    let has_keys = governance.and_then(|governance| governance.member("virtual_keys")).is_some();
    if import.moved.has_keys() || (enforced.is_empty() && !has_keys) {
        return;
    }
    let variable = import.moved.new_variable("CLIENTS_KEY", VariableUse::Secret);
    import.moved.key(Tree::of([
        ("name", Tree::text("clients")),
        ("key", Tree::text(variable.clone())),
        ("scopes", Tree::List(vec![Tree::text("completions.write")])),
    ]));
    for at in enforced {
        let why =
            format!("auth.keys[clients]: the file has no active key with a value; set {variable} to one");
        import.findings.different(&at, why);
    }
}

/// `client`: logs, origins, sizes.
fn read_client(import: &mut Import, client: &InputAt<'_>) {
    let is_logging = client.member("enable_logging").map(|at| (at.clone(), at.flag() != Some(false)));
    if let Some((at, enabled)) = &is_logging {
        import.moved.set("logs", "enabled", Tree::Flag(*enabled));
        import.findings.exact(at, "logs.enabled");
    }
    if let Some(at) = client.member("disable_content_logging") {
        let payloads = if at.flag() == Some(true) { "off" } else { "all" };
        import.moved.set("logs", "payloads", Tree::text(payloads));
        import.findings.exact(&at, format!("logs.payloads: {payloads}"));
    }
    if let Some((at, days)) =
        client.member("log_retention_days").and_then(|at| Some((at.clone(), at.number()?)))
    {
        let days = format!("{}d", days.max(1.0).trunc());
        let retention = Tree::of([("payloads", Tree::text(days.clone())), ("rows", Tree::text(days))]);
        import.moved.set("logs", "retention", retention);
        import.findings.exact(&at, "logs.retention");
    }
    if let Some(at) = client.member("allowed_origins") {
        let origins: Vec<Tree> =
            at.items().iter().filter_map(InputAt::text).map(|text| Tree::Text(plain(&text))).collect();
        if !origins.is_empty() {
            import.moved.set("cors", "origins", Tree::List(origins));
        }
        import.findings.exact(&at, "cors.origins");
    }
    if let Some((at, size)) =
        client.member("max_request_body_size_mb").and_then(|at| Some((at.clone(), at.number()?)))
    {
        let bytes = (size.clamp(1.0, 4096.0) * 1_048_576.0).trunc();
        import.moved.set("limits", "max_body_bytes", Tree::number(bytes));
        import.findings.exact(&at, "limits.max_body_bytes");
    }
}
