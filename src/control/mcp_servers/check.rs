//! How an MCP server is called, as a request saves it: URL, transport, authentication, headers; all problems at once.
//!
//! Secrets stay with their host: where an update names another one, headers that were saved are not taken over.

use super::{api, exchange, sign_in};
use crate::call::Call;
use crate::policies::conditions::check_conditions;
use http::{HeaderName, HeaderValue};
use memory::net::outbound::custom_host::HostRules;
use memory::net::outbound::origin::Origin;
use memory::state::stored::mcp_access::AccessKind;
use serde_json::{Map, Value, json};
use words::config::read::Problems;
use words::error::Error;
use words::settings::ModelPattern;

/// What stands for a secret in responses; in an update, for the secret that is there.
pub(super) const MASK: &str = "*****";

/// Headers that the connection and the protocol need themselves. Beside them all that begin with `mcp-` or `proxy-`.
const RESERVED: [&str; 13] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Puts URL, transport, authentication and headers of a request into the body of a record, where `body` has those of before.
///
/// # Errors
/// 400 with all problems.
pub(super) fn set_connection(call: &Call, body: &mut Map<String, Value>) -> Result<(), Error> {
    let problems = Problems::default();
    api::check(&call.body, body, &call.snapshot.hosts, &problems);
    connect(&call.body, body, &call.snapshot.hosts, &problems);
    exchange::check_place(body, call.snapshot.service_keys.tokens().map(|tokens| &**tokens), &problems);
    check_access(&call.body, &problems);
    check_prices(&call.body, &problems);
    if problems.is_empty() { Ok(()) } else { Err(Error::invalid_body(problems.into_vec())) }
}

pub(super) const PATTERN_RULE: &str = "must be 1 to 256 characters without spaces, with at most one *";

/// The keys of conditions beside those of metadata: what a client is, and not what it asks for.
const CLIENT_KEYS: [&str; 3] = ["api_key", "workspace_id", "role"];

fn check_access(sent: &Map<String, Value>, problems: &Problems) {
    let Some(access) = sent.get("access").and_then(Value::as_object) else { return };
    check_patterns(access, "access.", problems);
    let rules = access.get("rules").and_then(Value::as_array).into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        let Some(rule) = rule.as_object() else { continue };
        let at = format!("access.rules[{index}].");
        check_conditions(rule, &at, &CLIENT_KEYS, problems);
        check_patterns(rule, &at, problems);
    }
}

fn check_prices(sent: &Map<String, Value>, problems: &Problems) {
    let named = sent.get("prices").and_then(Value::as_object).into_iter().flatten();
    for (pattern, _) in named.filter(|(pattern, _)| ModelPattern::parse(pattern).is_none()) {
        problems.push(format!("prices.{pattern}"), None, PATTERN_RULE);
    }
}

/// A pattern that is none would allow, or deny, nothing.
pub(crate) fn check_patterns(set: &Map<String, Value>, path: &str, problems: &Problems) {
    for (kind, _) in AccessKind::ALL {
        for list in ["allow", "deny"] {
            let patterns = set.get(kind).and_then(|rules| rules.get(list)).and_then(Value::as_array);
            let bad = patterns.into_iter().flatten().enumerate().filter(|(_, pattern)| {
                pattern.as_str().is_none_or(|pattern| ModelPattern::parse(pattern).is_none())
            });
            for (at, _) in bad {
                problems.push(format!("{path}{kind}.{list}[{at}]"), None, PATTERN_RULE);
            }
        }
    }
}

fn connect(sent: &Map<String, Value>, body: &mut Map<String, Value>, rules: &HostRules, problems: &Problems) {
    let text = |name: &str| sent.get(name).and_then(Value::as_str);
    if text("auth_type") == Some("oauth_auto") {
        let why = "is oauth_auto, and the gateway asks no person to sign in: use client_credentials, or save a token with auth_type headers";
        problems.push("auth_type", None, why);
    }
    if text("transport") == Some("sse") {
        let why = "is sse, the transport that MCP has given up: use http (streamable HTTP) and its URL";
        problems.push("transport", None, why);
    }
    let stored_origin =
        body.get("url").and_then(Value::as_str).and_then(|url| Origin::parse(url, false).ok());
    let mut is_other_host = false;
    if let Some(url) = text("url") {
        match Origin::parse(url, false) {
            Ok(origin) => {
                if let Err(why) = rules.check_name(&origin) {
                    problems.push("url", None, why);
                }
                let place = |origin: &Origin| (origin.tls, origin.host.clone(), origin.port);
                is_other_host = stored_origin.is_some_and(|stored| place(&stored) != place(&origin));
                body.insert("url".to_owned(), url.trim_matches(' ').into());
            }
            Err(why) => problems.push("url", None, why),
        }
    }
    let before = custom_headers(body);
    let headers = match (sent.get("configurations"), text("auth_type")) {
        (None, Some("none")) => Map::new(),
        (None, _) => {
            if is_other_host && !before.is_empty() {
                let why =
                    "must be given again: the URL names another host, where the saved headers are not sent";
                problems.push("configurations.custom_headers", None, why);
            }
            before
        }
        (Some(configurations), _) => {
            let before = if is_other_host { Map::new() } else { before };
            read_headers(configurations, &before, problems)
        }
    };
    let before = body.get("configurations").cloned();
    set_sign_in(&Signing { sent, before, is_other_host }, body, &headers, rules, problems);
}

/// Puts how the server is called into the body of a record.
fn set_sign_in(
    signing: &Signing<'_>,
    body: &mut Map<String, Value>,
    headers: &Map<String, Value>,
    rules: &HostRules,
    problems: &Problems,
) {
    let oauth = signing.read("oauth", "client_credentials", problems, |sent, before| {
        sign_in::read(sent, before, rules, problems)
    });
    let exchange = signing.read("token_exchange", "token_exchange", problems, |sent, before| {
        exchange::read(sent, before, rules, problems)
    });
    let named = signing.sent.get("auth_type").and_then(Value::as_str);
    let found =
        Found { has_headers: !headers.is_empty(), oauth: oauth.is_some(), exchange: exchange.is_some() };
    if (found.oauth || found.exchange) && headers.contains_key("authorization") {
        let why = "is the header that the sign-in sends";
        problems.push("configurations.custom_headers.authorization", None, why);
    }
    let auth_type = found.auth_type(named, problems);
    body.insert("auth_type".to_owned(), auth_type.into());
    let mut configurations = json!({"custom_headers": headers});
    for (name, saved) in [("oauth", oauth), ("token_exchange", exchange)] {
        if let (Some(saved), Some(members)) = (saved, configurations.as_object_mut()) {
            members.insert(name.to_owned(), saved);
        }
    }
    body.insert("configurations".to_owned(), configurations);
}

/// How a request changes the ways of signing in.
struct Signing<'a> {
    sent: &'a Map<String, Value>,
    /// What was configured before.
    before: Option<Value>,
    /// The server's host is a new one.
    is_other_host: bool,
}

impl Signing<'_> {
    /// What is saved of one way. `own_type`: its `auth_type`.
    fn read(
        &self,
        name: &str,
        own_type: &str,
        problems: &Problems,
        read: impl FnOnce(&Map<String, Value>, Option<&Value>) -> Value,
    ) -> Option<Value> {
        let before = self.before.as_ref().and_then(|configurations| configurations.get(name));
        match (self.sent.get("configurations"), self.sent.get("auth_type").and_then(Value::as_str)) {
            (None, Some(named)) if named != own_type => None,
            (None, _) => {
                if self.is_other_host && before.is_some() {
                    let why = "must be given again: the URL names another host, where the saved sign-in sends no tokens";
                    problems.push(format!("configurations.{name}.client_secret"), None, why);
                }
                before.cloned()
            }
            (Some(configurations), _) => {
                let sent = configurations.get(name).and_then(Value::as_object)?;
                Some(read(sent, before.filter(|_| !self.is_other_host)))
            }
        }
    }
}

/// What a record has after a request.
struct Found {
    has_headers: bool,
    oauth: bool,
    exchange: bool,
}

impl Found {
    /// The kind of authentication, from what is named and what there is.
    fn auth_type(&self, named: Option<&str>, problems: &Problems) -> &'static str {
        if self.oauth && self.exchange {
            let why = "must not be there beside oauth: the server is called with one token";
            problems.push("configurations.token_exchange", None, why);
        }
        let own = match (self.exchange, self.oauth, self.has_headers) {
            (true, _, _) => "token_exchange",
            (_, true, _) => "client_credentials",
            (_, _, true) => "headers",
            _ => "none",
        };
        match named {
            None | Some("oauth_auto") => own,
            Some(named) if named == own => own,
            Some("client_credentials") if !self.exchange => {
                let why = "must have the credentials that auth_type client_credentials signs in with";
                problems.push("configurations.oauth", None, why);
                "client_credentials"
            }
            Some("token_exchange") => {
                let why = "must have the token endpoint at which auth_type token_exchange exchanges tokens";
                problems.push("configurations.token_exchange", None, why);
                "token_exchange"
            }
            Some(_) if self.exchange => {
                problems.push("auth_type", None, "must be token_exchange where there is token_exchange");
                own
            }
            Some(_) if self.oauth => {
                problems.push("auth_type", None, "must be client_credentials where there is oauth");
                own
            }
            Some("headers") => {
                let why = "must have the headers that auth_type headers sends";
                problems.push("configurations.custom_headers", None, why);
                "headers"
            }
            Some(_) => {
                problems.push("auth_type", None, "is none, and there are headers: use headers");
                own
            }
        }
    }
}

/// The headers of a request, with those of before where it has the mask.
fn read_headers(
    configurations: &Value,
    before: &Map<String, Value>,
    problems: &Problems,
) -> Map<String, Value> {
    let mut headers = Map::new();
    let sent = configurations.get("custom_headers").and_then(Value::as_object);
    for (name, value) in sent.into_iter().flatten() {
        let problem = |why: &str| problems.push(format!("configurations.custom_headers.{name}"), None, why);
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            problem("is not the name of a header");
            continue;
        };
        let plain = header.as_str();
        if RESERVED.contains(&plain) || plain.starts_with("mcp-") || plain.starts_with("proxy-") {
            problem("is a header that the gateway sets itself");
        }
        let value = match value.as_str().unwrap_or_default() {
            MASK => match before.get(plain).and_then(Value::as_str) {
                Some(value) => value,
                None => {
                    problem("is a mask, and there is no value of this header to keep");
                    continue;
                }
            },
            value => value,
        };
        if value.is_empty() || HeaderValue::from_str(value).is_err() {
            problem("is not the value of a header");
        }
        if headers.insert(plain.to_owned(), value.into()).is_some() {
            problem("is given twice");
        }
    }
    headers
}

fn custom_headers(body: &Map<String, Value>) -> Map<String, Value> {
    let headers = body.get("configurations").and_then(|configurations| configurations.get("custom_headers"));
    headers.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The headers of a record's opened body.
pub(super) fn headers(body: &Map<String, Value>) -> Vec<(HeaderName, HeaderValue)> {
    let pair = |(name, value): (String, Value)| {
        let mut secret = HeaderValue::from_str(value.as_str()?).ok()?;
        secret.set_sensitive(true);
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, secret))
    };
    custom_headers(body).into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = r#"{"url":"https://a.example/mcp","auth_type":"headers",
        "configurations":{"custom_headers":{"authorization":"Bearer one","x-two":"two"}}}"#;

    /// The body after the request, or the paths of its problems.
    fn connected(before: &str, sent: &Value) -> Result<Value, Vec<String>> {
        let mut body = serde_json::from_str(before).unwrap();
        let problems = Problems::default();
        connect(sent.as_object().unwrap(), &mut body, &HostRules::default(), &problems);
        if problems.is_empty() {
            Ok(body.into())
        } else {
            Err(problems.into_vec().into_iter().map(|problem| problem.path).collect())
        }
    }

    #[test]
    fn what_the_gateway_cannot_do_is_refused() {
        let header = |name: &str, value: &str| json!({"custom_headers": {name: value}});
        for (members, path) in [
            (json!({"auth_type": "oauth_auto"}), "auth_type"),
            (json!({"transport": "sse"}), "transport"),
            (json!({"url": "ftp://a.example"}), "url"),
            (json!({"url": "https://a.example/mcp?key=1"}), "url"),
            (json!({"url": "https://me:pw@a.example/mcp"}), "url"),
            (json!({"url": "http://169.254.169.254/mcp"}), "url"),
            (json!({"url": "http://127.0.0.1/mcp"}), "url"),
            (json!({"url": "http://[::1]/mcp"}), "url"),
            (json!({"url": "http://2130706433/mcp"}), "url"),
            (json!({"url": "http://tools.internal/mcp"}), "url"),
            (json!({"auth_type": "headers"}), "configurations.custom_headers"),
            (json!({"auth_type": "none", "configurations": header("x-a", "1")}), "auth_type"),
            (json!({"configurations": header("Host", "x")}), "configurations.custom_headers.Host"),
            (
                json!({"configurations": header("Mcp-Session-Id", "x")}),
                "configurations.custom_headers.Mcp-Session-Id",
            ),
            (json!({"configurations": header("a b", "x")}), "configurations.custom_headers.a b"),
            (json!({"configurations": header("x-a", "1\r\nx: y")}), "configurations.custom_headers.x-a"),
            (json!({"configurations": header("x-a", "")}), "configurations.custom_headers.x-a"),
            (json!({"configurations": header("x-a", MASK)}), "configurations.custom_headers.x-a"),
            (
                json!({"configurations": {"custom_headers": {"X-A": "1", "x-a": "2"}}}),
                "configurations.custom_headers.x-a",
            ),
        ] {
            let mut sent = json!({"url": "https://a.example/mcp"});
            sent.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            assert_eq!(connected("{}", &sent), Err(vec![path.to_owned()]), "{sent}");
        }
    }

    #[test]
    fn headers_are_kept_replaced_and_removed() {
        let headers = |sent: Value| {
            connected(SAVED, &sent).map(|body| body["configurations"]["custom_headers"].clone())
        };
        let both = json!({"authorization": "Bearer one", "x-two": "two"});
        assert_eq!(headers(json!({})), Ok(both.clone()));
        assert_eq!(headers(json!({"url": "https://a.example/other"})), Ok(both));
        let sent = json!({"configurations": {"custom_headers": {"Authorization": MASK, "x-three": "3"}}});
        assert_eq!(headers(sent), Ok(json!({"authorization": "Bearer one", "x-three": "3"})));
        for sent in [json!({"configurations": null}), json!({"auth_type": "none"})] {
            let body = connected(SAVED, &sent).unwrap();
            assert_eq!(
                (&body["auth_type"], &body["configurations"]),
                (&"none".into(), &json!({"custom_headers": {}}))
            );
        }
    }

    /// Who may change a server must not learn its secrets by sending them to a host of their own.
    #[test]
    fn saved_headers_are_not_sent_to_another_host() {
        let masked = json!({"custom_headers": {"authorization": MASK}});
        for url in ["https://b.example/mcp", "http://a.example/mcp", "https://a.example:8443/mcp"] {
            assert!(connected(SAVED, &json!({"url": url})).is_err(), "{url}");
            assert!(connected(SAVED, &json!({"url": url, "configurations": masked})).is_err(), "{url}");
            let fresh = json!({"custom_headers": {"authorization": "Bearer new"}});
            let body = connected(SAVED, &json!({"url": url, "configurations": fresh})).unwrap();
            assert_eq!((&body["url"], &body["configurations"]), (&url.into(), &fresh));
        }
    }
}
