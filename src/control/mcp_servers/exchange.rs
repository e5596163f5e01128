//! How tokens of clients are exchanged for those that an MCP server takes, as a request saves it.
//!
//! A client's token is good at the gateway: it is sent to no token endpoint but those that the settings open.

use super::sign_in::{CLIENT_SECRET_IN, SCOPE, Saved, read_endpoint};
use crate::field::{Field, Type, optional, required};
use memory::auth::Tokens;
use memory::net::outbound::custom_host::HostRules;
use serde_json::{Map, Value};
use words::config::read::Problems;

const PLACE: &str = "configurations.token_exchange";

pub(super) const TOKEN_EXCHANGE: Field = optional(
    "token_exchange",
    Type::Object(&[
        required(
            "token_url",
            Type::Name(2048),
            "The token endpoint, https (http on loopback): at the host of `auth.jwt.issuer` or of `jwks_url`, or one of \
             `auth.jwt.exchange_urls` of the settings.",
        ),
        required("client_id", Type::Text(512), "Who exchanges tokens."),
        optional(
            "client_secret",
            Type::Text(8192),
            "A secret: it comes back as `*****`, which keeps it in an update. Absent: a public client.",
        ),
        CLIENT_SECRET_IN,
        optional("audience", Type::Text(2048), "Whom the token is for, by the identity provider's name."),
        optional(
            "resource",
            Type::Text(2048),
            "Whom the token is for, by its address. Default: the server's `url`; empty: not sent.",
        ),
        SCOPE,
        optional(
            "requested_token_type",
            Type::Text(512),
            "The kind of token that is issued, such as `urn:ietf:params:oauth:token-type:access_token`. Default: not sent.",
        ),
        optional(
            "subject_token_type",
            Type::Text(512),
            "What the client's token is. Default: `urn:ietf:params:oauth:token-type:access_token`.",
        ),
    ]),
    "Exchanges the client's token (RFC 8693), and sends the one that is issued as `authorization`. Clients without a token cannot use the \
     server.",
);

/// What is saved of a request's `token_exchange`. `before`: what is saved now, if its tokens may go where the request says.
pub(super) fn read(
    sent: &Map<String, Value>,
    before: Option<&Value>,
    rules: &HostRules,
    problems: &Problems,
) -> Value {
    read_endpoint(sent, before, rules, problems, Saved { place: PLACE, needs_secret: false })
}

/// Checks that clients' tokens may be sent where `body` says. Without an identity provider there are none.
pub(super) fn check_place(body: &Map<String, Value>, tokens: Option<&Tokens>, problems: &Problems) {
    let exchange = body.get("configurations").and_then(|configurations| configurations.get("token_exchange"));
    let url = exchange.and_then(|exchange| exchange.get("token_url")).and_then(Value::as_str);
    if let (Some(url), Some(tokens)) = (url, tokens)
        && !tokens.may_exchange_at(url)
    {
        let why = "is at no host where clients' tokens may be exchanged: it must be that of auth.jwt.issuer or jwks_url of the settings, \
                   or be in auth.jwt.exchange_urls";
        problems.push(format!("{PLACE}.token_url"), None, why);
    }
}
