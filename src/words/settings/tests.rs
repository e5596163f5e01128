//! Whole settings files: the values read from them, and the problems of wrong ones.

use super::scopes::{KeyType, ScopeSet};
use super::*;
use proptest::prelude::*;
use std::time::Duration;

const SHIPPED: &str = include_str!("../../../conf/turnpike.yaml");

fn env(name: &str) -> Option<String> {
    match name {
        "CANARY" => Some("canary-value".to_owned()),
        "ALERT_SECRET" | "CONSOLE_CLIENT_SECRET" => Some("whsec".to_owned()),
        "SLACK_WEBHOOK" => Some("https://hooks.slack.com/services/T0/B0/token".to_owned()),
        "PROXY_PASSWORD" => Some("canary-proxy".to_owned()),
        "OTLP_AUTHORIZATION" => Some("Bearer canary-otlp".to_owned()),
        "OLD_STORE_KEY" => Some("ab".repeat(32)),
        "TURNPIKE_KEY" | "GROQ_API_KEY" => Some("from-the-environment".to_owned()),
        _ => None,
    }
}

fn credential(name: &str) -> Result<String, String> {
    match name {
        "canary" => Ok("canary-file\n".to_owned()),
        "service-key" | "openai" => Ok(format!("credential-{name}\n")),
        "smtp-password" => Ok("mail-secret\n".to_owned()),
        "store-key" => Ok(format!("{}\n", "cd".repeat(32))),
        "vertex" => Ok("{\"type\":\"service_account\",\"private_key\":\"canary-pem\"}\n".to_owned()),
        _ => Err("CREDENTIALS_DIRECTORY is not set".to_owned()),
    }
}

fn parse(text: &str) -> Result<Settings, Vec<Problem>> {
    let provider = |name: &str| match name {
        "openai" | "groq" | "vertex-ai" => Ok(()),
        _ => Err(format!("unknown provider {name}")),
    };
    let custom_host = |_: &str| Err("must not be called: the file's own hosts are trusted".to_owned());
    let checks =
        Checks { provider: &provider, account: &|_, _| Ok(()), custom_host: &custom_host, ..Checks::NONE };
    Settings::parse(text, &SecretSources { env: &env, credential: &credential }, &checks)
}

fn good(text: &str) -> Settings {
    parse(text).unwrap_or_else(|problems| panic!("{}", report("t", &problems)))
}

#[test]
fn an_empty_file_is_all_defaults() {
    for text in ["", "# nothing\n", "server:\nlisten:\nlimits:\nproviders:\naccess_log: {}\n"] {
        let settings = good(text);
        assert_eq!(settings.server, Server::default());
        assert_eq!(settings.listen, Listen::default());
        assert_eq!(settings.limits, Limits::default());
        assert_eq!(settings.access_log, AccessLog::Stdout);
        assert_eq!(settings.emulator.listen, None);
        assert_eq!(settings.header_prefixes, ["x-gateway-"]);
        assert_eq!(settings.default_config, None);
        assert!(settings.auth.keys.is_empty() && settings.providers.is_empty());
    }
    assert_eq!(good("").hash, "e3b0c44298fc");
}

#[test]
fn the_shipped_file_loads_and_serves_a_plain_client_on_loopback() {
    let settings = good(SHIPPED);
    assert_eq!(settings.listen, Listen::default());
    assert_eq!(settings.emulator.listen, Some("127.0.0.1:8790".parse().unwrap()));
    assert_eq!(settings.default_config, Some(DefaultConfig::Slug("emulator".to_owned())));
    assert!(settings.configs.contains_key("demo"));
    let stored = settings.providers.get("emulator").unwrap();
    assert_eq!(stored.provider, "openai");
    assert_eq!(stored.account.custom_host.as_deref(), Some("http://127.0.0.1:8790/v1"));
}

/// Removes the `# ` from every line that holds a setting and not prose.
fn uncommented(text: &str) -> String {
    let setting = |text: &str| {
        let text = text.trim_start().trim_start_matches("- ");
        let key = text.split(':').next().unwrap_or_default();
        key.len() < text.len()
            && !key.is_empty()
            && key.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let line = |line: &str| match line.split_once("# ") {
        Some((indent, rest)) if indent.trim().is_empty() && (setting(rest) || rest.starts_with("  - ")) => {
            format!("{indent}{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    let text = text.replace("  keys: []\n", "").replace("output: stdout", "output: file");
    text.lines().map(line).collect()
}

#[test]
fn commented_out_settings_of_the_shipped_file_are_valid_and_show_the_defaults() {
    let settings = good(&uncommented(SHIPPED));
    let shared = settings.limits.counting.shared.clone();
    assert!(shared.is_some());
    let limits = Limits {
        counting: Counting { shared, ..Counting::default() },
        max_held_bytes: Some(1 << 30),
        max_connections: Some(10_000),
        request_timeout: Some(Duration::from_secs(120)),
        ..Limits::default()
    };
    assert_eq!(settings.limits, limits);
    let drain = Some(Server::default().grace_period);
    let node = Some("gateway-1".to_owned());
    let server = Server { node, threads: Some(4), drain, ..Server::default() };
    assert_eq!(settings.server.state_dir.as_deref(), Some("/var/lib/turnpike".as_ref()));
    assert_eq!(Server { upgrade_sock: None, pid_file: None, state_dir: None, ..settings.server }, server);
    assert_eq!(settings.log, Log { format: Some(LogFormat::Json), ..Log::default() });
    assert_eq!(settings.access_log, AccessLog::File("/var/log/turnpike/access.log".into()));
    assert_eq!(settings.header_prefixes, ["x-gateway-", "x-portkey-"]);
    let cors = settings.cors.unwrap();
    assert!(cors.origins.allow("https://app.example.com") && cors.max_age == Duration::from_secs(600));
    assert_eq!(settings.custom_hosts.allow.len(), 4);
    assert_eq!(
        settings.outbound.described(),
        ["http://***@proxy.corp.example:3128 for http:// and https:// addresses (outbound.proxy)"]
    );
    assert_eq!(settings.listen.data.len(), 2);
    assert_eq!(settings.providers.len(), 4);
    let keys: Vec<_> =
        settings.auth.keys.iter().map(|k| (k.name.as_str(), k.key.text().unwrap().expose())).collect();
    assert_eq!(keys, [("team-a", "from-the-environment"), ("team-b", "credential-service-key")]);
    assert!(!settings.auth.saved_only);
    let otlp = settings.telemetry.otlp.unwrap();
    assert_eq!((otlp.endpoint.as_str(), otlp.sample), ("http://127.0.0.1:4318/v1/traces", 1.0));
    assert_eq!((otlp.headers.len(), otlp.service_name.as_str()), (1, "turnpike"));
    let store = settings.store;
    assert_eq!(store.url.unwrap().expose(), "sqlite:///var/lib/turnpike/turnpike.db");
    assert_eq!(store.encryption_key.unwrap().expose().trim(), "cd".repeat(32));
    assert_eq!(store.previous_encryption_keys.len(), 1);
    let url = settings.logs.url.as_ref().map(|url| url.expose().to_owned());
    assert_eq!(url.as_deref(), Some("sqlite:///var/lib/turnpike/logs.db"));
    let spool_dir = Some("/var/lib/turnpike/spool".into());
    assert_eq!(settings.logs, Logs { url: settings.logs.url.clone(), spool_dir, ..Logs::default() });
    let prices = settings.prices;
    assert_eq!(prices.overlay, Some("/etc/turnpike/prices.yaml".into()));
    assert_eq!(prices.catalogue, Some(CatalogueSource::File("/var/lib/turnpike/genai-prices.json".into())));
    assert_eq!(prices.sha256, Some("ab".repeat(32)));
    assert_eq!(prices.refresh_interval, PriceSettings::default().refresh_interval);
    let smtp = settings.alerts.smtp.unwrap();
    assert_eq!((smtp.host.as_str(), smtp.port, smtp.to.len()), ("smtp.example.com", 587, 1));
    assert_eq!(settings.alerts.webhooks[0].secret.as_ref().unwrap().expose(), "whsec");
}

#[test]
fn prices_and_alerts_that_contradict_themselves_are_refused() {
    for (text, expected) in [
        ("prices: {file: a.json, url: 'https://a'}", "not both"),
        ("prices: {url: 'ftp://a'}", "http"),
        ("prices: {refresh_hours: 0}", "refresh_hours"),
        ("prices: {file: a.json, sha256: abc}", "64 hex digits"),
        (
            "prices: {sha256: '0123456789012345678901234567890123456789012345678901234567890123'}",
            "needs the file or url",
        ),
        ("alerts: {smtp: {host: a}}", "from"),
        ("alerts: {smtp: {host: a, from: nobody}}", "e-mail address"),
        ("alerts: {smtp: {host: a, from: 'a@b', to: ['x <y']}}", "e-mail address"),
        ("alerts: {smtp: {host: a, from: 'a@b', username: u}}", "belong together"),
        ("alerts: {smtp: {host: a, from: 'a@b', tls: off, username: u, password: p}}", "unencrypted"),
        ("alerts: {webhooks: [{secret: s}]}", "url"),
    ] {
        let problems = parse(text).map(|_| ()).unwrap_err();
        assert!(report("t", &problems).contains(expected), "{text}: {}", report("t", &problems));
    }
    let settings = good("alerts: {smtp: {host: a, from: 'A <a@b>', tls: 'tls'}}");
    assert_eq!(settings.alerts.smtp.unwrap().port, 465);
}

#[test]
fn a_key_holds_the_scopes_that_it_is_given() {
    let settings = good(
        "auth:\n  saved_only: true\n  keys:\n  - {name: a, key: key-of-a-1}\n  - {name: b, key: key-of-b-1, workspace: team}\n\
         \x20 - {name: c, key: key-of-c-1, scopes: [completions.write, logs.read]}\n\
         \x20 - {name: d, key: key-of-d-1, scopes: [administration]}\n\
         \x20 - {name: e, key: key-of-e-1, scopes: [all], workspace: team}\n\
         \x20 - {name: f, key: key-of-f-1, scopes: []}\n",
    );
    assert!(settings.auth.saved_only);
    let scopes: Vec<_> = settings.auth.keys.iter().map(|key| key.scopes).collect();
    let named = |names: &[&str]| ScopeSet::parse(names.iter().copied()).0;
    let workspaces = KeyType::WorkspaceService.scopes();
    let administration = KeyType::OrganisationService.scopes();
    let wanted = [
        ScopeSet::all(),
        workspaces,
        named(&["completions.write", "logs.view"]),
        administration,
        workspaces,
        named(&[]),
    ];
    assert_eq!(scopes, wanted);
    let bound: Vec<_> = settings.auth.keys.iter().map(|key| key.workspace.as_deref()).collect();
    assert_eq!(bound, [None, Some("team"), None, None, Some("team"), None]);
}

#[test]
fn a_service_account_may_come_from_a_credential() {
    let settings = good(
        "providers:\n  v:\n    provider: vertex-ai\n    cloud_b_service_account_json: credential:vertex\n",
    );
    let account = &settings.providers.get("v").unwrap().account;
    let json = account.cloud_b.service_account_json.as_ref().unwrap();
    assert_eq!(json.expose(), r#"{"type":"service_account","private_key":"canary-pem"}"#);
}

/// Wrong files, each with all lines of its report.
const WRONG: &[(&str, &[&str])] = &[
    ("a: [", &["t:1:4: unclosed bracket '['"]),
    ("- a\n", &["t:1:1: must be an object, not an array"]),
    ("time_limits: {gap: 1}\n", &["t:1:15: time_limits.gap: unknown key"]),
    ("lmits: {}\n", &["t:1:1: lmits: unknown key; did you mean limits?"]),
    (
        "limits:\n  max_body_byte: 1\n  header_timeout_ms: 0\n  idle_timeout_ms: soon\nserver:\n  threads: 0\n",
        &[
            "t:2:3: limits.max_body_byte: unknown key; did you mean max_body_bytes?",
            "t:3:22: limits.header_timeout_ms: must be at least 1",
            "t:4:20: limits.idle_timeout_ms: must be an integer, not a string",
            "t:6:12: server.threads: must be at least 1",
        ],
    ),
    (
        "listen:\n  data: [8787, localhost:80, {address: '1.2.3.4:1', tls: {cert: a}}]\n",
        &[
            "t:2:10: listen.data[0]: must be an object, not a number",
            "t:2:16: listen.data[1]: must be IP:PORT, such as 127.0.0.1:8787, 0.0.0.0:8787 or [::]:8787",
            "t:2:58: listen.data[2].tls.key: is required",
        ],
    ),
    ("listen:\n  data: []\n", &["t:2:9: listen.data: must list at least one listener"]),
    (
        "listen:\n  data: [127.0.0.1:1, 0.0.0.0:1]\nemulator: {listen: 127.0.0.1:8788}\n",
        &[
            "t:2:23: listen.data[1]: clashes with listen.data[0]",
            "t:3:20: emulator.listen: clashes with listen.control, which is 127.0.0.1:8788 when not given",
        ],
    ),
    (
        "listen:\n  data: [{address: '127.0.0.1:1', proxy_protocol: true}]\n",
        &[
            "t:2:3: listen.trusted_proxies: is required with proxy_protocol: the addresses from which balancers connect",
        ],
    ),
    (
        "listen: {trusted_proxies: [10.0.0.1/8, gateway, '10.0.0.0/40']}\n",
        &[
            "t:1:28: listen.trusted_proxies[0]: has bits set behind its prefix; did you mean 10.0.0.0/8?",
            "t:1:40: listen.trusted_proxies[1]: must be an address or a range, such as 10.0.0.5, 10.0.0.0/24 or fd00::/8",
            "t:1:49: listen.trusted_proxies[2]: `10.0.0.0/40` is not a range of addresses such as 10.0.0.0/8",
        ],
    ),
    (
        "listen: {data: [{address: '127.0.0.1:1', tls: {cert: a, key: b, client_crl: c, client_certificates: optional}}]}\n",
        &[
            "t:1:77: listen.data[0].tls.client_crl: needs client_ca, the authorities of the clients' certificates",
            "t:1:101: listen.data[0].tls.client_certificates: needs client_ca, the authorities of the clients' certificates",
        ],
    ),
    (
        "auth: {keys: [{name: a, key: long-enough}], client_certificates: {x: a, y: b}}\n",
        &["t:1:76: auth.client_certificates.y: is not the name of a key in auth.keys"],
    ),
    (
        "listen: {data: ['127.0.0.1:8788']}\n",
        &["t:1:9: listen.control: is not given, and listen.data[0] takes its default 127.0.0.1:8788"],
    ),
    (
        "auth:\n  keys:\n  - {name: a, key: short}\n  - {name: b, key: long-enough}\n  - {name: b, key: long-enough}\n  - {key: 'with spaces'}\n",
        &[
            "t:3:20: auth.keys[0].key: must have at least 8 characters",
            "t:5:12: auth.keys[2].name: is the name of another key; names must differ",
            "t:5:20: auth.keys[2].key: is the same as another key; keys must differ",
            "t:6:5: auth.keys[3].name: is required",
            "t:6:11: auth.keys[3].key: must be visible ASCII characters without spaces: it travels in a header",
        ],
    ),
    (
        "auth:\n  keys:\n  - {name: a, sha256: abc}\n  - {name: b}\n  - {name: c, key: long-enough, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}\n\
         \x20 - {name: d, key: test-key}\n  - {name: e, sha256: 62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef}\n",
        &[
            "t:3:23: auth.keys[0].sha256: must be a SHA-256 in 64 hexadecimal digits",
            "t:4:5: auth.keys[1].key: is required, or sha256 in its place",
            "t:5:41: auth.keys[2].sha256: stands in place of key; give one of them",
            "t:7:23: auth.keys[4].sha256: is the same as another key; keys must differ",
        ],
    ),
    (
        "auth: {keys: [{name: a, sha256: 62af8704764faf8ea82fc61ce9c4c3908b6cb97d463a634e9e587d7c885db0ef}], client_certificates: {x: a}}\n",
        &[
            "t:1:126: auth.client_certificates.x: is the name of a key of which only the sha256 is given: a certificate stands for a key itself",
        ],
    ),
    (
        "auth:\n  saved_only: 1\n  keys:\n  - {name: a, key: long-enough, workspace: a b, scopes: [configs.lst, all, 1]}\n  - {name: b, key: long-enough-2, workspace: w, scopes: [audit_logs.list]}\n",
        &[
            "t:2:15: auth.saved_only: must be a boolean, not a number",
            "t:4:44: auth.keys[0].workspace: is no slug of a workspace: letters, digits, dots, dashes and underscores, at most 128",
            "t:4:58: auth.keys[0].scopes[0]: is no scope; docs/keys.md lists them",
            "t:4:76: auth.keys[0].scopes[2]: must be a string, not a number",
            "t:5:58: auth.keys[1].scopes[0]: is a scope of the whole organisation, which a key with a workspace cannot hold",
        ],
    ),
    (
        "providers:\n  a b: {provider: openai}\n  c: {}\n  d: {provider: '@c', api_kye: x}\n  e: {provider: nobody, custom_host: 'ftp://x', request_timeout: 0}\n  f: {provider: openai, forward_headers: ['a b', 1], override_params: []}\n",
        &[
            "t:2:8: providers.a b: a slug is made of letters, digits, dots, dashes and underscores, at most 128",
            "t:3:6: providers.c.provider: is required",
            "t:4:17: providers.d.provider: must be a provider, not the slug of another one",
            "t:4:23: providers.d.api_kye: unknown key; did you mean api_key?",
            "t:5:17: providers.e.provider: unknown provider nobody",
            "t:5:38: providers.e.custom_host: must be an http or https URL",
            "t:5:66: providers.e.request_timeout: must be at least 1",
            "t:6:43: providers.f.forward_headers[0]: must be a header name",
            "t:6:50: providers.f.forward_headers[1]: must be a string, not a number",
            "t:6:71: providers.f.override_params: must be an object, not an array",
        ],
    ),
    (
        "configs:\n  a: {provider: '@no', api_key: k}\n  b: {provider: openai, api_key: k, custom_host: 'http://10.0.0.1/v1'}\n",
        &["t:2:17: configs.a.provider: names the stored provider @no, but there is no providers.no"],
    ),
    (
        "configs:\n  a: {strategy: {mode: fallback}, targets: [{provider: '@x'}, {virtual_key: y}]}\n",
        &[
            "t:2:56: configs.a.targets[0].provider: names the stored provider @x, but there is no providers.x",
            "t:2:77: configs.a.targets[1].virtual_key: names the stored provider @y, but there is no providers.y",
        ],
    ),
    (
        "default_config: demo\n",
        &["t:1:17: default_config: names the saved config demo, but there is no configs.demo"],
    ),
    (
        "default_config: '@x'\n",
        &["t:1:17: default_config: names the stored provider @x, but there is no providers.x"],
    ),
    (
        "custom_hosts:\n  allow_private: yes\n  allow: [10.0.0.1/8, 'a b']\n",
        &[
            "t:2:18: custom_hosts.allow_private: must be a boolean, not a string",
            "t:3:11: custom_hosts.allow[0]: has bits set behind its prefix; did you mean 10.0.0.0/8?",
            "t:3:23: custom_hosts.allow[1]: `a b` is not a host name, an address or a range",
        ],
    ),
    (
        "header_prefixes: [X-A-, x-b, x-c-, x-c-]\n",
        &[
            "t:1:19: header_prefixes[0]: must be the lower-case beginning of header names, ending in a dash, such as x-gateway-",
            "t:1:25: header_prefixes[1]: must be the lower-case beginning of header names, ending in a dash, such as x-gateway-",
            "t:1:36: header_prefixes[3]: stands twice",
        ],
    ),
    (
        "access_log: {output: file}\nlog: {level: loud}\n",
        &[
            "t:1:13: access_log.path: is required",
            "t:2:14: log.level: must be one of: error, warn, info, debug, trace",
        ],
    ),
    (
        "store: {url: mysql://u:canary@h/d, encryption_key: abc, previous_encryption_keys: [1, AAAA]}\n",
        &[
            "t:1:14: store.url: must be sqlite:///PATH or postgres://USER:PASSWORD@HOST/DATABASE",
            "t:1:52: store.encryption_key: must be a key of 32 bytes: 64 hex digits, or 44 characters of base64 (openssl rand -hex 32)",
            "t:1:84: store.previous_encryption_keys[0]: must be a string, not a number",
            "t:1:87: store.previous_encryption_keys[1]: must be a key of 32 bytes: 64 hex digits, or 44 characters of base64 (openssl rand -hex 32)",
        ],
    ),
    (
        "store: {previous_encryption_keys: ['${OLD_STORE_KEY}']}\n",
        &[
            "t:1:35: store.previous_encryption_keys: is only used with encryption_key, the key that is used now",
        ],
    ),
    (
        "logs: {url: mysql://u:canary@h/d, payloads: some, retention: {rows: 30, payloads: 1m, metrics: 0d, audit: x, at: '24:00'}}\n",
        &[
            "t:1:13: logs.url: must be sqlite:///PATH or postgres://USER:PASSWORD@HOST/DATABASE",
            "t:1:45: logs.payloads: must be one of: off, errors, all",
            "t:1:69: logs.retention.rows: must be a number with a unit: hours (36h), days (30d) or weeks (4w), at least 1h; or forever",
            "t:1:83: logs.retention.payloads: must be a number with a unit: hours (36h), days (30d) or weeks (4w), at least 1h; or forever",
            "t:1:96: logs.retention.metrics: must be a number with a unit: hours (36h), days (30d) or weeks (4w), at least 1h; or forever",
            "t:1:107: logs.retention.audit: must be a number with a unit: hours (36h), days (30d) or weeks (4w), at least 1h; or forever",
            "t:1:114: logs.retention.at: must be a time of day in UTC, HH:MM, such as \"03:00\"",
        ],
    ),
    (
        "logs: {retention: {rows: 7d, payloads: 8d}}\n",
        &[
            "t:1:40: logs.retention.payloads: must not be longer than rows: the payload of a row that is gone cannot be found",
        ],
    ),
    ("access_log: {path: /x}\n", &["t:1:20: access_log.path: is only used with output: file"]),
    (
        "log:\n  level: info\n  level: loud\n  format: xml\n",
        &["t:3:3: the key level stands twice", "t:4:11: log.format: must be one of: json, text"],
    ),
    // A mistake is reported once, and resolved values are never repeated.
    (
        "providers:\n  a:\n    provider: ${CANARY}\n    api_key: ${MISSING}\n    custom_host: ${MISSING}\n",
        &[
            "t:3:15: providers.a.provider: unknown provider ***",
            "t:4:14: providers.a.api_key: the environment variable MISSING is not set; set it, or write $${ for a plain ${",
            "t:5:18: providers.a.custom_host: the environment variable MISSING is not set; set it, or write $${ for a plain ${",
        ],
    ),
    (
        "auth: {keys: [{name: a, key: credential:no}]}\ndefault_config: credential:canary\n",
        &[
            "t:1:30: auth.keys[0].key: the credential no cannot be read: CREDENTIALS_DIRECTORY is not set; give the systemd unit LoadCredential=no:FILE, or set CREDENTIALS_DIRECTORY to a directory with a file no",
            "t:2:17: default_config: names the saved config ***, but there is no configs.***",
        ],
    ),
];

#[test]
fn every_mistake_is_reported_with_its_place_and_path() {
    for (text, wanted) in WRONG {
        let reported = report("t", &parse(text).map(|_| ()).expect_err(text));
        assert_eq!(reported.lines().collect::<Vec<_>>(), *wanted, "{text}");
    }
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// A quadratic search for duplicates made a file of 30,000 service keys take half a minute.
#[test]
fn very_many_service_keys_are_read() {
    let count = 30_000;
    let keys = lines(count, |n| format!("    - {{name: n{n}, key: key-number-{n}}}\n"));
    let text = format!("auth:\n  keys:\n{keys}");
    assert_eq!(good(&text).auth.keys.len(), count);
    let last = count - 1;
    let twice =
        text.replace(&format!("name: n{last}, key: key-number-{last}"), "name: n0, key: key-number-1");
    let found: Vec<String> = parse(&twice).unwrap_err().iter().map(Problem::to_string).collect();
    let wanted = [
        format!("auth.keys[{last}].name: is the name of another key; names must differ"),
        format!("auth.keys[{last}].key: is the same as another key; keys must differ"),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn very_many_entries_are_read() {
    let count = 15_000;
    let text = format!(
        "providers:\n{}configs:\n{}header_prefixes:\n{}",
        lines(count, |n| format!("  p{n}: {{provider: openai, api_key: k}}\n")),
        lines(count, |n| format!("  c{n}: {{provider: \"@p{n}\"}}\n")),
        lines(count, |n| format!("  - x-p{n}-\n")),
    );
    let settings = good(&text);
    assert_eq!((settings.providers.len(), settings.configs.len()), (count, count));
    assert_eq!(settings.header_prefixes.len(), count);

    let last = count - 1;
    let wrong =
        text.replace(&format!("- x-p{last}-"), "- x-p0-").replace(&format!("@p{last}\""), "@absent\"");
    let found: Vec<String> = parse(&wrong).unwrap_err().iter().map(Problem::to_string).collect();
    let wanted = [
        format!(
            "configs.c{last}.provider: names the stored provider @absent, but there is no providers.absent"
        ),
        format!("header_prefixes[{last}]: stands twice"),
    ];
    assert_eq!(found, wanted);

    let unset = |n| format!("  p{n}: {{provider: openai, api_key: \"${{NO_{n}}}\", wrong: 1}}\n");
    let problems = parse(&format!("providers:\n{}", lines(count, unset))).unwrap_err();
    assert!(problems.len() > count, "{}", problems.len());
}

#[test]
fn no_secret_is_shown_by_debug() {
    let settings = good(concat!(
        "auth: {keys: [{name: a, key: '${CANARY}'}]}\n",
        "providers:\n",
        "  a: {provider: openai, api_key: canary-text, override_params: {user: canary-text}}\n",
        "  v: {provider: vertex-ai, cloud_b_service_account_json: credential:vertex}\n",
        "configs:\n",
        "  c: {provider: openai, api_key: credential:canary, override_params: {user: canary-text}}\n",
    ));
    let shown = format!("{settings:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

/// The shipped file with some characters removed, inserted or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (0..SHIPPED.len(), 0..40_usize, "[-:#{}\\[\\]&*!|>'\"@`$<,? \t\na-z0-9é]{0,12}");
    proptest::collection::vec(edit, 1..8).prop_map(|edits| {
        let mut text: Vec<char> = SHIPPED.chars().collect();
        for (at, cut, put) in edits {
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, put.chars());
        }
        text.into_iter().collect()
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "[-:#{}\\[\\]&*!|>'\"@`$<,? \t\na-z0-9]{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_change_to_the_shipped_file_makes_it_panic(text in mutated()) {
        if let Err(problems) = parse(&text) {
            prop_assert!(!problems.is_empty());
            prop_assert_eq!(report("t", &problems).lines().count(), problems.len());
        }
    }
}

#[test]
fn mistakes_of_newcomers_have_an_answer() {
    let problem = |text: &str| {
        let problems = parse(text).unwrap_err();
        assert_eq!(problems.len(), 1, "{}", report("t", &problems));
        problems.first().map(Problem::to_string).unwrap_or_default()
    };
    let foreign = problem("model_list: [{model_name: a, litellm_params: {model: b}}]");
    assert!(
        foreign.contains("turnpike import litellm") && foreign.contains("docs/moving/litellm.md"),
        "{foreign}"
    );
    let stored = "providers: {openai: {provider: openai, api_key: k}}\n";
    let target = format!(
        "{stored}configs: {{c: {{strategy: {{mode: single}}, targets: [{{provider: '@openai', model: m}}]}}}}"
    );
    assert!(
        problem(&target).contains("targets[0].model: unknown key; a target sets it with override_params")
    );
    for config in ["{provider: openai}", "{provider: openai, retry: {attempts: 1}}"] {
        let found = problem(&format!("{stored}configs: {{c: {config}}}"));
        assert!(
            found.starts_with("configs.c.provider: ") && found.contains("did you mean @openai"),
            "{found}"
        );
        // Of no stored provider of that name, the whole rule is said.
        let found = problem(&format!("configs: {{c: {config}}}"));
        assert!(!found.contains("@openai"), "{found}");
    }
    assert!(parse(&format!("{stored}configs: {{c: {{provider: openai, api_key: k}}}}")).is_ok());
}
