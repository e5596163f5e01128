//! Kong's declarative files: the plugins `ai-proxy` and `ai-proxy-advanced` become configs.
//!
//! Paths of Kong's routes are not taken: clients here call the paths of OpenAI's API. All other plugins are Kong's.

use super::cursor::InputAt;
use super::import::Import;
use super::key_table::{Key, dropped};
use super::moved::{VariableUse, plain};
use super::report::Taken;
use super::tree::Tree;
use super::value::InputReference;
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
    for file in files {
        import.reserve_references(file.node, reader);
    }
    for plugin in files.iter().flat_map(plugins) {
        reserve(import, &plugin);
    }
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

/// Keeps the variable of a target without a key, so that it is given to no secret.
fn reserve(import: &mut Import, plugin: &AiPlugin<'_>) {
    let Some(config) = plugin.at.member("config") else { return };
    let targets = config.member("targets").map_or_else(|| vec![config.clone()], |targets| targets.items());
    for target in targets.iter().filter(|target| target.member("auth").is_none()) {
        let named = target.member("model").and_then(|model| model.text_of("provider"));
        if let Some(vendor) = named.and_then(|name| vendors::find(&name)) {
            import.moved.reserve(vendor.key);
        }
    }
}

/// Targets of `ai-proxy-advanced`.
fn group(import: &mut Import, config: &InputAt<'_>, items: &[InputAt<'_>]) -> (Option<Tree>, Vec<String>) {
    let mut weighed = Vec::new();
    let mut names = Vec::new();
    for item in items {
        let Some((target, name)) = target(import, item) else { continue };
        names.extend(name);
        let weight_at = item.member("weight");
        if let Some(at) = &weight_at {
            import.findings.exact(at, "weight");
        }
        // Kong's own where there is none.
        let weight = weight_at.and_then(|at| at.number()).unwrap_or(100.0);
        weighed.push((weight, target));
    }
    let is_balanced = weighed.len() > 1;
    let with_weight = |(weight, target): (f64, Tree)| match is_balanced {
        true => target.with("weight", Tree::number(weight)),
        false => target,
    };
    names.sort();
    names.dedup();
    let by_priority =
        config.member("balancer").and_then(|at| at.text_of("algorithm")).as_deref() == Some("priority");
    let mut targets: Vec<Tree> = match by_priority {
        true => levels(weighed),
        false => weighed.into_iter().map(with_weight).collect(),
    };
    if targets.len() == 1 {
        return (targets.pop(), names);
    }
    if targets.is_empty() {
        return (None, names);
    }
    let strategy = strategy(import, config.member("balancer").as_ref());
    (Some(Tree::of([("strategy", strategy), ("targets", Tree::List(targets))])), names)
}

/// How a group chooses.
fn strategy(import: &mut Import, balancer: Option<&InputAt<'_>>) -> Tree {
    let mut strategy = super::config_parts::balanced(None);
    let Some(balancer) = balancer else { return strategy };
    if let Some(at) = balancer.member("algorithm") {
        match at.text().as_deref() {
            Some("round-robin") => import.findings.exact(&at, "strategy.mode loadbalance, by weight"),
            Some("lowest-latency") => {
                strategy.set("by", Tree::text("least_latency"));
                import
                    .findings
                    .different(&at, "strategy.by least_latency: the faster of two that are drawn by weight");
            }
            Some("least-connections") => {
                strategy.set("by", Tree::text("least_busy"));
                import.findings.exact(&at, "strategy.by least_busy");
            }
            Some("priority") => {
                strategy = Tree::of([("mode", Tree::text("fallback"))]);
                import
                    .findings
                    .different(&at, "strategy.mode fallback, the greatest weight first; equal ones share");
            }
            _ => import
                .findings
                .different(&at, "strategy.mode loadbalance, by weight: nothing here chooses in that way"),
        }
    }
    if let Some((at, count)) = balancer.member("retries").and_then(|at| Some((at.clone(), at.number()?))) {
        import.findings.different(&at, format!("the other targets are tried, not {count} times"));
    }
    strategy
}

/// Targets by priority: those of the greatest weight first, equal ones in a balanced group.
fn levels(mut weighed: Vec<(f64, Tree)>) -> Vec<Tree> {
    weighed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut levels: Vec<Tree> = Vec::new();
    for chunk in weighed.chunk_by(|(a, _), (b, _)| a == b) {
        let targets: Vec<Tree> = chunk.iter().map(|(_, target)| target.clone()).collect();
        levels.push(match targets.as_slice() {
            [one] => one.clone(),
            _ => Tree::of([
                ("strategy", super::config_parts::balanced(None)),
                ("targets", Tree::List(targets)),
            ]),
        });
    }
    levels
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
        let written = import.written(name, reader, "MODEL", VariableUse::Text);
        params.set("model", Tree::Text(written.text));
        import.findings.exact(at, "override_params.model");
    }
    if let Some(options) = options {
        read_options(import, &options, &mut account, &mut params);
    }
    let is_blank = [
        "api_key",
        "cloud_a_access_key_id",
        "cloud_b_service_account_json",
        "cloud_c_auth_mode",
        "cloud_c_entra_client_secret",
    ]
    .iter()
    .all(|member| account.member(member).is_none());
    if vendor.needs_host && account.member("custom_host").is_none() {
        let host = import.moved.variable(&vendor.base_variable(), VariableUse::Url);
        account.set("custom_host", Tree::Text(host));
    }
    if is_blank && at.member("auth").is_none() {
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
        let of = match name {
            "gcp_service_account_json" => VariableUse::ServiceAccount,
            "azure_client_id" | "azure_tenant_id" => VariableUse::Text,
            _ => VariableUse::Secret,
        };
        let wanted = if member == "api_key" { key.to_owned() } else { name.to_uppercase() };
        take(import, &at, (bare, &wanted, of), member, account);
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

/// What a text refers to: `{vault://env/name}`, another vault, or deck's `${{ env "NAME" }}`.
fn reader(text: &str) -> Option<InputReference> {
    let bare = text.strip_prefix("Bearer ").unwrap_or(text).trim();
    if let Some(path) = bare.strip_prefix("{vault://").and_then(|text| text.strip_suffix('}')) {
        return Some(match path.strip_prefix("env/") {
            Some(name) => InputReference::Variable(name.to_uppercase().replace(['-', '/'], "_")),
            None => InputReference::Vault(path.to_owned()),
        });
    }
    let inner = bare.strip_prefix("${{")?.strip_suffix("}}")?.trim();
    let name = inner.strip_prefix("env")?.trim().trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| InputReference::Variable(name.to_owned()))
}

/// Takes a text into the account. `given`: it, a name for a variable, and what it is.
fn take(
    import: &mut Import,
    at: &InputAt<'_>,
    given: (&str, &str, VariableUse),
    member: &str,
    account: &mut Tree,
) {
    let (text, wanted, of) = given;
    let written = import.written(text, reader, wanted, of);
    account.set(member, Tree::Text(written.text));
    let text = format!("providers.*.{member}{}", written.more);
    match written.taken {
        Taken::Exact => import.findings.exact(at, text),
        _ => import.findings.different(at, text),
    }
}

fn plain_text(text: &str) -> (&str, &str, VariableUse) {
    (text, "VALUE", VariableUse::Text)
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
                let ends = [
                    "/chat/completions",
                    "/api/chat",
                    "/v1/messages",
                    "/completions",
                    "/embeddings",
                    "/responses",
                ];
                let host = ends.iter().find_map(|end| host.strip_suffix(end)).unwrap_or(host);
                take(import, &at, (host, "UPSTREAM_URL", VariableUse::Url), "custom_host", account);
            }
            "azure_deployment_id" => {
                let written = import.written(&text, reader, "MODEL", VariableUse::Text);
                params.set("model", Tree::Text(written.text));
                import.findings.exact(&at, "override_params.model");
            }
            "azure_instance" => take(import, &at, plain_text(&text), "resource_name", account),
            "azure_api_version" => take(import, &at, plain_text(&text), "api_version", account),
            "anthropic_version" => take(import, &at, plain_text(&text), "anthropic_version", account),
            "bedrock" | "gemini" => {
                for (from, to) in [
                    ("aws_region", "cloud_a_region"),
                    ("project_id", "cloud_b_project_id"),
                    ("location_id", "cloud_b_region"),
                ] {
                    if let Some(at) = at.member(from) {
                        take(import, &at, plain_text(&at.text().unwrap_or_default()), to, account);
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
