//! Kong's declarative files: the plugins `ai-proxy` and `ai-proxy-advanced` become configs.
//!
//! Paths of Kong's routes are not taken: clients here call the paths of OpenAI's API. All other plugins are Kong's.

use super::cursor::InputAt;
use super::import::Import;
use super::key_table::{Key, dropped};
use super::moved::{VariableUse, plain};
use super::report::Taken;
use super::tree::Tree;
use super::vendors;
use words::config::node::Node;

const ROUTE: &str =
    "clients call the paths of OpenAI's API here, and name the model or the config (docs/operations.md)";
const BALANCER: &str = "a balanced group has no such key (docs/config.md)";
const PLUGIN: &str = "has no counterpart in a config (docs/config.md)";

pub const KEYS: &[Key] = &[
    dropped("_format_version", "is of Kong's format"),
    dropped("_transform", "is of Kong's format"),
    dropped("_info.**", "is of Kong's format"),
    dropped("_konnect.**", "is of Kong's format"),
    dropped("plugins[].config.**", PLUGIN),
    dropped("plugins[].**", PLUGIN),
    dropped("services[].plugins[].config.balancer.**", BALANCER),
    dropped("services[].plugins[].**", PLUGIN),
    dropped("services[].routes[].plugins[].config.balancer.**", BALANCER),
    dropped("services[].routes[].plugins[].**", PLUGIN),
    dropped("routes[].plugins[].**", PLUGIN),
    dropped("services[].**", ROUTE),
    dropped("routes[].**", ROUTE),
    dropped("consumers[].**", "consumers are service keys here (docs/keys.md)"),
    dropped("consumer_groups[].**", "consumers are service keys here (docs/keys.md)"),
    dropped("upstreams[].**", ROUTE),
    dropped("vaults[].**", "secrets are variables and credentials of systemd (docs/commands.md)"),
];

/// A plugin, and what the config is called after.
struct AiPlugin<'n> {
    at: InputAt<'n>,
    name: String,
}

fn plugins<'n>(root: &InputAt<'n>) -> Vec<AiPlugin<'n>> {
    let mut found = Vec::new();
    collect(root, "ai", &mut found);
    for service in root.member("services").map(|list| list.items()).unwrap_or_default() {
        let name = service.text_of("name").unwrap_or_else(|| "service".to_owned());
        collect(&service, &name, &mut found);
        routes(&service, &mut found);
    }
    routes(root, &mut found);
    found
}

fn routes<'n>(at: &InputAt<'n>, found: &mut Vec<AiPlugin<'n>>) {
    for route in at.member("routes").map(|list| list.items()).unwrap_or_default() {
        let name = route.text_of("name").unwrap_or_else(|| "route".to_owned());
        collect(&route, &name, found);
    }
}

fn collect<'n>(at: &InputAt<'n>, name: &str, found: &mut Vec<AiPlugin<'n>>) {
    for plugin in at.member("plugins").map(|list| list.items()).unwrap_or_default() {
        if matches!(plugin.text_of("name").as_deref(), Some("ai-proxy" | "ai-proxy-advanced")) {
            let name = plugin.text_of("instance_name").unwrap_or_else(|| name.to_owned());
            found.push(AiPlugin { at: plugin, name });
        }
    }
}

/// Whether a file is one of Kong's with such a plugin, or with Kong's format.
pub fn is_kong(root: &Node) -> bool {
    let at = InputAt::root(root, 0);
    at.member("_format_version").is_some() || !plugins(&at).is_empty()
}

/// Takes the files over: a config for each plugin.
pub fn import(import: &mut Import, files: &[InputAt<'_>]) {
    let mut ids = Vec::new();
    for plugin in files.iter().flat_map(plugins) {
        let Some(config_at) = plugin.at.member("config") else { continue };
        if let Some(name) = plugin.at.member("name") {
            import.findings.exact(&name, "a config");
        }
        let targets_at = config_at.member("targets").map(|targets| targets.items());
        let (config, names) = match targets_at {
            Some(items) => group(import, &config_at, &items),
            None => match target(import, &config_at) {
                Some((target, name)) => (Some(target), name.into_iter().collect()),
                None => (None, Vec::new()),
            },
        };
        let Some(config) = config else { continue };
        let id = import.moved.config(&plugin.name, &config);
        if let [name] = names.as_slice() {
            import.moved.model(name, Tree::text(id.clone()));
        }
        if let Some(at) = plugin.at.member("instance_name") {
            import.findings.exact(&at, format!("configs.{id}"));
        }
        ids.push(id);
    }
    if let [id] = ids.as_slice() {
        import.moved.set_section("default_config", Tree::text(id.clone()));
    }
}

/// Targets of `ai-proxy-advanced`.
fn group(import: &mut Import, config: &InputAt<'_>, items: &[InputAt<'_>]) -> (Option<Tree>, Vec<String>) {
    let mut targets = Vec::new();
    let mut names = Vec::new();
    for item in items {
        let Some((target, name)) = target(import, item) else { continue };
        names.extend(name);
        let weight = item.member("weight").and_then(|at| Some((at.clone(), at.number()?)));
        if let Some((at, _)) = &weight {
            import.findings.exact(at, "weight");
        }
        targets.push(target.with_some("weight", weight.map(|(_, weight)| Tree::number(weight))));
    }
    names.sort();
    names.dedup();
    if let [single] = targets.as_slice() {
        return (Some(single.clone()), names);
    }
    if targets.is_empty() {
        return (None, names);
    }
    let mut strategy = super::config_parts::balanced(None);
    if let Some(balancer) = config.member("balancer") {
        if let Some(at) = balancer.member("algorithm") {
            match at.text().as_deref() {
                Some("round-robin") => import.findings.exact(&at, "strategy.mode loadbalance, by weight"),
                Some("lowest-latency") => {
                    strategy.set("by", Tree::text("least_latency"));
                    import.findings.different(
                        &at,
                        "strategy.by least_latency: the faster of two that are drawn by weight",
                    );
                }
                Some("priority") => {
                    strategy = Tree::of([("mode", Tree::text("fallback"))]);
                    import.findings.different(&at, "strategy.mode fallback, in the order of the file");
                }
                _ => import
                    .findings
                    .different(&at, "strategy.mode loadbalance, by weight: nothing here chooses in that way"),
            }
        }
        if let Some((at, count)) = balancer.member("retries").and_then(|at| Some((at.clone(), at.number()?)))
        {
            import.findings.different(&at, format!("the other targets are tried, not {count} times"));
        }
    }
    (Some(Tree::of([("strategy", strategy), ("targets", Tree::List(targets))])), names)
}

/// `model` and `auth`: a target, and the name of its model.
fn target(import: &mut Import, at: &InputAt<'_>) -> Option<(Tree, Option<String>)> {
    let model = at.member("model")?;
    let provider_at = model.member("provider")?;
    let named = provider_at.text()?;
    let Some(vendor) = vendors::find(&named) else {
        import.findings.not_taken(at, format!("there is no provider {named} here (docs/providers.md)"));
        return None;
    };
    import.findings.exact(&provider_at, format!("provider: {}", vendor.id));
    if let Some(at) = at.member("route_type") {
        import.findings.exact(&at, "the path of the request says it");
    }
    let mut account = Tree::of([("provider", Tree::text(vendor.id))]);
    if let Some(auth) = at.member("auth") {
        read_auth(import, &auth, vendor.key, &mut account);
    }
    let options = model.member("options");
    let mut params = Tree::map();
    let name = model.member("name").and_then(|at| Some((at.clone(), at.text()?)));
    if let Some((at, name)) = &name {
        params.set("model", Tree::Text(plain(name)));
        import.findings.exact(at, "override_params.model");
    }
    if let Some(options) = options {
        read_options(import, &options, &mut account, &mut params);
    }
    if account == Tree::of([("provider", Tree::text(vendor.id))]) {
        let key = import.moved.variable(vendor.key, VariableUse::Secret);
        account.set("api_key", Tree::Text(key));
    }
    let slug = import.moved.provider(&named, &account);
    let target = Tree::of([("provider", Tree::Text(format!("@{slug}")))]);
    let target = if params.is_empty() { target } else { target.with("override_params", params) };
    Some((target, name.map(|(_, name)| name)))
}

fn read_auth(import: &mut Import, auth: &InputAt<'_>, key: &str, account: &mut Tree) {
    for (name, member) in [
        ("header_value", "api_key"),
        ("param_value", "api_key"),
        ("aws_access_key_id", "cloud_a_access_key_id"),
        ("aws_secret_access_key", "cloud_a_secret_access_key"),
        ("azure_client_id", "cloud_c_entra_client_id"),
        ("azure_client_secret", "cloud_c_entra_client_secret"),
        ("azure_tenant_id", "cloud_c_entra_tenant_id"),
        ("gcp_service_account_json", "cloud_b_service_account_json"),
    ] {
        let Some(at) = auth.member(name) else { continue };
        let given = at.text().unwrap_or_default();
        let bare = given.strip_prefix("Bearer ").unwrap_or(&given).trim();
        let of = if name == "gcp_service_account_json" {
            VariableUse::ServiceAccount
        } else {
            VariableUse::Secret
        };
        match reference(bare) {
            Some(variable) => {
                let text = import.moved.variable(&variable, of);
                account.set(member, Tree::Text(text));
                import.findings.exact(&at, format!("providers.*.{member}"));
            }
            None => {
                let wanted = if member == "api_key" { key.to_owned() } else { name.to_uppercase() };
                let text = import.moved.secret(bare, &wanted);
                import.moved.use_as(&text, of);
                let variable = text.trim_start_matches("${").trim_end_matches('}').to_owned();
                account.set(member, Tree::Text(text));
                import.findings.different(&at, format!("providers.*.{member}: set {variable} to the secret that is written here, which is not copied"));
            }
        }
    }
    for name in
        ["header_name", "param_name", "param_location", "allow_override", "azure_use_managed_identity"]
    {
        let Some(at) = auth.member(name) else { continue };
        match name {
            "header_name" | "param_name" | "param_location" => {
                import.findings.exact(&at, "the provider's own way is used");
            }
            "azure_use_managed_identity" if at.flag() == Some(true) => {
                account.set("cloud_c_auth_mode", Tree::text("managed"));
                import.findings.exact(&at, "cloud_c_auth_mode: managed");
            }
            _ => import.findings.not_taken(&at, PLUGIN),
        }
    }
}

/// The variable of `{vault://env/name}`, or of deck's `${{ env "NAME" }}`.
fn reference(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("{vault://").and_then(|text| text.strip_suffix('}')) {
        let name = path.rsplit('/').next()?;
        return Some(name.to_uppercase().replace('-', "_"));
    }
    let inner = text.strip_prefix("${{")?.strip_suffix("}}")?.trim();
    let name = inner.strip_prefix("env")?.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

fn read_options(import: &mut Import, options: &InputAt<'_>, account: &mut Tree, params: &mut Tree) {
    for (name, at) in options.entries() {
        let text = at.text().unwrap_or_default();
        match name {
            "max_tokens" | "temperature" | "top_p" | "top_k" => {
                params.set(name, Tree::from_node(at.node, &mut |text| plain(text)));
                import
                    .findings
                    .different(&at, "override_params: sent always, also where the request sets it");
            }
            "upstream_url" => {
                let host = text.trim_end_matches('/');
                let host = host
                    .strip_suffix("/chat/completions")
                    .or_else(|| host.strip_suffix("/api/chat"))
                    .unwrap_or(host);
                account.set("custom_host", Tree::Text(plain(host)));
                import.findings.exact(&at, "providers.*.custom_host, without the path of the operation");
            }
            "azure_instance" => {
                account.set("resource_name", Tree::Text(plain(&text)));
                import.findings.exact(&at, "providers.*.resource_name");
            }
            "azure_deployment_id" => {
                params.set("model", Tree::Text(plain(&text)));
                import.findings.exact(&at, "override_params.model");
            }
            "azure_api_version" => {
                account.set("api_version", Tree::Text(plain(&text)));
                import.findings.exact(&at, "providers.*.api_version");
            }
            "anthropic_version" => {
                account.set("anthropic_version", Tree::Text(plain(&text)));
                import.findings.exact(&at, "providers.*.anthropic_version");
            }
            "bedrock" | "gemini" => {
                for (from, to) in [
                    ("aws_region", "cloud_a_region"),
                    ("project_id", "cloud_b_project_id"),
                    ("location_id", "cloud_b_region"),
                ] {
                    if let Some(at) = at.member(from) {
                        account.set(to, Tree::Text(plain(&at.text().unwrap_or_default())));
                        import.findings.exact(&at, format!("providers.*.{to}"));
                    }
                }
            }
            "input_cost" | "output_cost" => {
                import.findings.not_taken(
                    &at,
                    "dollars per million tokens: write it into prices.overlay (docs/prices.md)",
                );
            }
            _ => import.findings.whole(&at, Taken::Not, PLUGIN),
        }
    }
}
