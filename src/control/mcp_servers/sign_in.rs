//! How the gateway signs in at an MCP server: the client's credentials for a token endpoint, as a request saves them.
//!
//! The secret stays with its token endpoint, and its tokens with the server's host: a request that names other ones brings it again.

use super::check::MASK;
use crate::field::{Field, Type, optional, required};
use memory::net::outbound::custom_host::HostRules;
use memory::net::outbound::origin::{Host, Origin};
use serde_json::{Map, Value};
use words::config::read::Problems;

pub(super) const SCOPE: Field = optional("scope", Type::Text(2048), "Scopes, with spaces between them.");

pub(super) const CLIENT_SECRET_IN: Field = optional(
    "client_secret_in",
    Type::OneOf(&["header", "form"]),
    "`header`, the default: HTTP Basic. `form`: `client_id` and `client_secret` in the body.",
);

pub(super) const OAUTH: Field = optional(
    "oauth",
    Type::Object(&[
        required("token_url", Type::Name(2048), "The token endpoint. Checked as custom hosts are; https."),
        required("client_id", Type::Text(512), "Who signs in."),
        required(
            "client_secret",
            Type::Text(8192),
            "A secret: it comes back as `*****`, which keeps it in an update.",
        ),
        SCOPE,
        optional(
            "resource",
            Type::Text(2048),
            "Whom the token is for (RFC 8707). Default: the server's `url`; empty: not sent.",
        ),
        CLIENT_SECRET_IN,
    ]),
    "Signs in with client credentials (OAuth), and sends the token as `authorization`.",
);

/// What is saved of a sign-in.
pub(super) struct Saved {
    /// The path of its object in a request.
    pub place: &'static str,
    pub needs_secret: bool,
}

/// What is saved of a request's `oauth`. `before`: what is saved now, if its tokens may go where the request says.
pub(super) fn read(
    sent: &Map<String, Value>,
    before: Option<&Value>,
    rules: &HostRules,
    problems: &Problems,
) -> Value {
    let saved = Saved { place: "configurations.oauth", needs_secret: true };
    read_endpoint(sent, before, rules, problems, saved)
}

/// What is saved of a client of a token endpoint, and of what it asks for there.
pub(super) fn read_endpoint(
    sent: &Map<String, Value>,
    before: Option<&Value>,
    rules: &HostRules,
    problems: &Problems,
    saved: Saved,
) -> Value {
    let Saved { place, needs_secret } = saved;
    let mut oauth = sent.clone();
    oauth.retain(|_, value| !value.is_null());
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let url = text(sent.get("token_url"));
    let origin = Origin::parse(&url, false).and_then(|origin| rules.check_name(&origin).map(|()| origin));
    let is_local = |origin: &Origin| matches!(origin.host, Host::Ip(ip) if ip.is_loopback());
    let origin = origin.and_then(|origin| match origin.tls || is_local(&origin) {
        true => Ok(origin),
        false => Err("must begin with https://: the secret is sent there".to_owned()),
    });
    if let Err(why) = &origin {
        problems.push(format!("{place}.token_url"), None, why.clone());
    }
    let is_public = !needs_secret && sent.get("client_secret").is_none_or(Value::is_null);
    let secret = text(sent.get("client_secret"));
    if is_public {
        // It names itself, and proves nothing.
    } else if secret.is_empty() {
        problems.push(format!("{place}.client_secret"), None, "must not be empty");
    } else if secret == MASK {
        let host =
            |url: &str| Origin::parse(url, false).ok().map(|origin| (origin.tls, origin.host, origin.port));
        let same = before.filter(|before| host(&text(before.get("token_url"))) == host(&url));
        match same.and_then(|before| before.get("client_secret")) {
            Some(kept) => drop(oauth.insert("client_secret".to_owned(), kept.clone())),
            None => {
                let why = "is a mask, and there is no secret of this server and this token endpoint to keep";
                problems.push(format!("{place}.client_secret"), None, why);
            }
        }
    }
    oauth.into()
}
