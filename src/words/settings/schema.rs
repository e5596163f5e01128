//! The JSON Schema of the settings file (draft 2020-12), for editors and for checks without the binary.
//!
//! It describes what `Settings` reads: keys, types, bounds, defaults. `schema/tests.rs` walks both and compares them: the two
//! know the same keys, and the schema refuses nothing that the reader takes. What only the reader sees (whether a slug
//! exists, addresses that clash, what a mode requires) is listed there. Names of providers are an argument.

mod account;
mod config_object;

#[cfg(test)]
mod tests;

use super::auth::SHORTHANDS;
use super::logs::PAYLOADS;
use super::scopes::Scope;
use super::{
    AccessLog, AlertSettings, BatchSettings, CacheSettings, Cors, CustomHosts, GuardrailSettings, Limits,
    Log, Logs, PriceSettings, SemanticCacheSettings, Server, StoreSettings, Telemetry, UpstreamTls,
    UsageSettings,
};
use crate::config::members::{self, MemberType as _};
use crate::config::policies::Policies;
use crate::json::schema::{
    self, flag, integer, list, millis, non_empty, object, one_of, or, pattern, see, text,
};
use serde_json::{Map, Value, json};

const ID: &str = "^[A-Za-z0-9._-]{1,128}$";

/// The schema; `providers` are all names of providers.
pub fn build(providers: &[&str]) -> Value {
    let mut schema = object("All settings of Turnpike, an AI gateway.", &[], sections());
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("title".to_owned(), "Turnpike settings".into());
        // An empty file is all defaults.
        members.insert("type".to_owned(), json!(["object", "null"]));
        members.insert("$defs".to_owned(), definitions(providers));
    }
    schema
}

fn definitions(providers: &[&str]) -> Value {
    let mut definitions = config_object::definitions(providers);
    let own = [
        (
            "reference",
            json!({
                "type": "string",
                "pattern": schema::REFERENCE,
                "description": "${NAME}: the environment variable NAME. credential:NAME: the file NAME in systemd's $CREDENTIALS_DIRECTORY.",
            }),
        ),
        (
            "address",
            pattern(
                "IP:PORT, or [IP]:PORT for IPv6.",
                "^[0-9.]+:[0-9]{1,5}$|^\\[[0-9A-Fa-f:.%]+\\]:[0-9]{1,5}$",
                &["0.0.0.0:8000", "127.0.0.1:8787", "[::]:8787"],
            ),
        ),
        ("listener", listener()),
        ("stored_provider", stored_provider(providers)),
    ];
    if let Value::Object(members) = &mut definitions {
        let all = own.into_iter().chain(Policies::definitions());
        members.extend(all.map(|(name, schema)| (name.to_owned(), schema)));
    }
    definitions
}

/// The definitions of a config object, which refer to each other as `prefix` and a name, and their names. The control API's document has
/// them.
pub fn of_configs(providers: &[&str], prefix: &str) -> Map<String, Value> {
    let mut definitions = definitions(providers);
    if let Value::Object(members) = &mut definitions {
        members.retain(|name, _| !matches!(name.as_str(), "address" | "listener" | "stored_provider"));
    }
    replace_references(&mut definitions, prefix);
    match definitions {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Has every `$ref` begin with `prefix`.
fn replace_references(schema: &mut Value, prefix: &str) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
                    Some(target) if name == "$ref" => *value = format!("{prefix}{target}").into(),
                    _ => replace_references(value, prefix),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_references(item, prefix)),
        _ => {}
    }
}

/// The top level, in the order of the shipped file.
fn sections() -> Vec<(&'static str, Value)> {
    vec![
        ("server", members::schema("The process.", Server::members)),
        ("listen", listen()),
        (
            "emulator",
            object(
                "The built-in provider for demos and tests. Not for production.",
                &[],
                vec![("listen", see("address", "Where it listens; off when absent."))],
            ),
        ),
        (
            "limits",
            members::schema(
                "Limits for one client, one request, one connection, and how usage is counted. Sizes in bytes, times in milliseconds.",
                Limits::members,
            ),
        ),
        (
            "time_limits",
            see(
                "time_limits",
                "Time limits of targets whose config sets none, in milliseconds; 0 is no limit.",
            ),
        ),
        ("auth", auth()),
        (
            "store",
            members::schema(
                "Where keys, workspaces, configs and the like of the control API are kept (docs/store.md).",
                StoreSettings::members,
            ),
        ),
        (
            "usage",
            members::schema(
                "How the gateway learns what requests used (docs/usage.md).",
                UsageSettings::members,
            ),
        ),
        (
            "guardrails",
            members::schema(
                "What holds for all hooks and guardrails (docs/guardrails.md).",
                GuardrailSettings::members,
            ),
        ),
        (
            "cache",
            members::schema(
                "Where responses are cached that configs cache (docs/cache.md).",
                CacheSettings::members,
            ),
        ),
        (
            "semantic_cache",
            members::schema(
                "What makes vectors of texts, for configs whose cache has the mode semantic (docs/cache.md).",
                SemanticCacheSettings::members,
            ),
        ),
        (
            "batches",
            members::schema(
                "Files that clients upload to the gateway, and the batches that it runs itself (docs/batches.md).",
                BatchSettings::members,
            ),
        ),
        (
            "prices",
            members::schema(
                "What models cost (docs/prices.md). Prices of many models come with the binary.",
                PriceSettings::members,
            ),
        ),
        (
            "alerts",
            members::schema(
                "Who gets a message when a limit is nearly or wholly used (docs/alerts.md).",
                AlertSettings::members,
            ),
        ),
        (
            "logs",
            members::schema(
                "What is kept of requests for logs, analytics and bills (docs/logs.md). Read at the start.",
                Logs::members,
            ),
        ),
        (
            "cors",
            members::schema(
                "Which web pages may call the data port from a browser. Without it, none may.",
                Cors::members,
            ),
        ),
        ("providers", named("Stored providers by slug: what @slug means.", "stored_provider")),
        ("configs", named("Saved configs by id, as named in x-gateway-config.", "config")),
        (
            "default_config",
            non_empty(
                "For requests that name no provider, config or custom host: the id of a saved config, or an @slug. \
                 Without it they are refused.",
            ),
        ),
        (
            "custom_hosts",
            members::schema("The hosts that clients may name in custom_host.", CustomHosts::members),
        ),
        ("header_prefixes", header_prefixes()),
        ("tls", members::schema("How the certificates of providers are verified.", UpstreamTls::members)),
        (
            "access_log",
            members::schema("One JSON line per request (docs/access-log.md).", AccessLog::members),
        ),
        ("log", members::schema("The log of the process itself, on standard error.", Log::members)),
        ("telemetry", members::schema("Traces (docs/telemetry.md).", Telemetry::members)),
    ]
}

/// An object with free names, each with a value of this definition.
fn named(description: &str, definition: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "propertyNames": {"pattern": ID},
        "additionalProperties": {"$ref": format!("#/$defs/{definition}")},
    })
}

fn listener() -> Value {
    let tls = object(
        "PEM files of the certificate chain and its key, which are reloaded when they change.",
        &["cert", "key"],
        vec![("cert", non_empty("The certificate chain.")), ("key", non_empty("The private key."))],
    );
    let keys = vec![
        ("address", see("address", "IP:PORT.")),
        ("tls", tls),
        ("h2", or(flag("HTTP/2: by ALPN with TLS, by prior knowledge without."), true)),
    ];
    let listener = object("An address with its options.", &["address"], keys);
    json!({"anyOf": [{"$ref": "#/$defs/address"}, listener]})
}

fn listen() -> Value {
    let mut data = list("The addresses for clients.", json!({"$ref": "#/$defs/listener"}));
    if let Value::Object(members) = &mut data {
        members.insert("minItems".to_owned(), 1.into());
    }
    let names =
        "Host names under which operators call the control port, besides addresses and names without a dot.";
    let name = pattern("A host name without scheme and port.", "^[A-Za-z0-9._-]+$", &["gateway.internal"]);
    let control = "/metrics, /livez, /readyz and the control API. The API requires a key; keep it on loopback or in a private network all the same.";
    object(
        "The addresses for clients (data) and for operators (control).",
        &[],
        vec![
            ("data", or(data, json!(["127.0.0.1:8787"]))),
            ("control", or(see("listener", control), "127.0.0.1:8788")),
            ("control_names", list(names, name)),
            (
                "metrics",
                or(
                    one_of(
                        "Whether /metrics needs no key, or one with the scope metrics.read.",
                        ["open", "key"],
                    ),
                    "open",
                ),
            ),
        ],
    )
}

fn auth() -> Value {
    let name = json!({
        "anyOf": [{"type": "string", "pattern": "\\S", "maxLength": 64}, {"$ref": "#/$defs/reference"}],
        "description": "In the access line; names must differ.",
        "examples": ["team-a"],
    });
    let secret = pattern(
        "At least 8 visible ASCII characters; keys must differ.",
        "^[!-~]{8,}$",
        &["${TURNPIKE_KEY}", "credential:service-key"],
    );
    let workspace = json!({
        "anyOf": [{"type": "string", "pattern": ID}, {"$ref": "#/$defs/reference"}],
        "description": "The slug of the workspace the key is bound to. Without it the key acts in the default workspace and may \
                        enter every other.",
        "examples": ["default"],
    });
    let scopes = scopes("What the key may do (docs/keys.md). Default: everything.");
    let keys = vec![
        ("name", name),
        ("key", secret),
        ("scopes", scopes),
        ("workspace", workspace),
        (
            "log_payloads",
            PAYLOADS.schema("Whose bodies are kept in the log. Default: as logs.payloads says."),
        ),
        ("usage_limits", usage_limits()),
        ("rate_limits", rate_limits()),
    ];
    let key = object("A client's key.", &["name", "key"], keys);
    let keys = list(
        "The keys with which clients may call. Without any, and without stored keys, everyone may.",
        key,
    );
    let saved_only = "Refuses configs, providers with the client's own key, custom hosts and forwarded headers in requests: only \
                      stored providers and saved configs may be used.";
    let sections = vec![("keys", keys), ("saved_only", or(flag(saved_only), false)), ("jwt", jwt())];
    object("Who may call.", &[], sections)
}

fn usage_limits() -> Value {
    let limit = object(
        "One limit.",
        &["credit_limit"],
        vec![
            ("type", one_of("What is counted. Default: cost.", ["cost", "tokens", "requests"])),
            ("credit_limit", amount("The most that may be used; dollars for `cost`. 0: nothing passes.")),
            ("alert_threshold", amount("Where an alert is sent; below `credit_limit`.")),
            ("periodic_reset", one_of("When the count starts anew. Default: never.", ["weekly", "monthly"])),
            ("periodic_reset_days", integer("Days until the count starts anew.", 1, Some(365))),
            (
                "next_usage_reset_at",
                text("With `periodic_reset_days`: a day from which the days count. Default: 2024-01-01."),
            ),
            ("hard", flag("Never exceeded: what a request can cost at most must fit. Default: false.")),
            ("fit", flag("With `hard`: `max_completion_tokens` is lowered to what is left. Default: false.")),
        ],
    );
    list("How much the key may use (docs/limits.md).", limit)
}

fn rate_limits() -> Value {
    let units = ["rps", "rpm", "rph", "rpd", "rpw"];
    let limit = object(
        "One limit.",
        &["unit", "value"],
        vec![
            ("type", one_of("What is counted. Default: requests.", ["requests", "tokens"])),
            ("unit", one_of("Per second, minute, hour, day or week.", units)),
            ("value", amount("The most in a unit of time.")),
            ("smooth", flag("The window before counts in part. Default: false.")),
        ],
    );
    list("How much the key may use in a unit of time (docs/limits.md).", limit)
}

/// An amount of a limit.
fn amount(description: &str) -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 9e15, "description": description})
}

fn jwt() -> Value {
    let audience = json!({
        "anyOf": [non_empty("An audience."), {"type": "array", "minItems": 1, "items": non_empty("An audience.")}],
        "description": "A token must be for one of these (aud).",
        "examples": ["turnpike"],
    });
    let claim =
        |what: &str| non_empty(&format!("{what} A name, or a JSON pointer such as /realm_access/roles."));
    let claims = object(
        "The claims that say something about the client.",
        &[],
        vec![
            (
                "workspace",
                claim("The workspace's slug. Default: workspace_slug, or a name that ends in _workspace."),
            ),
            ("user", claim("The user. Default: email_id, else sub, else uid.")),
            ("role", claim("admin, manager or member. Default: role.")),
            ("scopes", claim("A list, or a text with spaces. Default: scope, else scopes.")),
            ("defaults", claim("An object with config_id and metadata. Default: defaults.")),
        ],
    );
    let url = pattern(
        "Where the provider publishes its keys.",
        "^https?://[^/?#@]+[^?#]*$",
        &["https://id.example.com/jwks"],
    );
    let workspace = pattern("The slug of the workspace of tokens that name none.", ID, &["default"]);
    let keys = vec![
        ("jwks_url", url),
        ("jwks_file", non_empty("A file with the keys in place of jwks_url; read again on a reload.")),
        ("issuer", non_empty("The only issuer that counts (iss).")),
        ("audience", audience),
        ("claims", claims),
        ("default_scopes", scopes("The scopes of tokens that name none. Default: none.")),
        ("workspace", workspace),
    ];
    let description =
        "An identity provider whose tokens (JWT) count as service keys of a workspace (docs/keys.md).";
    object(description, &["issuer", "audience"], keys)
}

/// A list of scopes and their shorthands.
fn scopes(description: &str) -> Value {
    let names = SHORTHANDS.into_iter().chain(Scope::ALL.iter().map(|scope| scope.as_str()));
    // As `Scope::parse` reads it.
    list(description, one_of("A scope.", names.chain(["logs.read"])))
}

fn stored_provider(providers: &[&str]) -> Value {
    let provider = one_of("The provider (docs/providers.md).", providers.iter().copied());
    let mut keys = vec![("provider", provider)];
    keys.extend(Policies::schemas_in_provider());
    keys.extend(account::keys(false));
    object("A provider and the account to call it with.", &["provider"], keys)
}

fn header_prefixes() -> Value {
    let prefix = pattern("Lower-case, ending in a dash.", "^[a-z0-9_.-]+-$", &["x-gateway-"]);
    let description = "Prefixes of the gateway's own headers. The same headers work under each of them.";
    let mut prefixes = or(list(description, prefix), json!(["x-gateway-"]));
    if let Value::Object(members) = &mut prefixes {
        members.insert("minItems".to_owned(), 1.into());
    }
    prefixes
}
