//! `alerts`: who is told when a limit is nearly or wholly used: by e-mail and by webhook.
//!
//! Not here: what an alert is (`limits`), and sending it (`control::alerts`).

use super::values::http_url;
use crate::config::members::{
    Choice, FILE, FLAG, Form, MemberTable, NON_EMPTY, form, list, non_empty, object, whole,
};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema::pattern;
use serde_json::json;
use std::fmt;
use std::path::PathBuf;

/// `alerts`; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlertSettings {
    pub smtp: Option<Smtp>,
    pub webhooks: Vec<Webhook>,
}

/// The mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smtp {
    pub host: String,
    pub port: u16,
    pub tls: SmtpTls,
    /// Certificate authorities in place of the usual ones.
    pub ca_file: Option<PathBuf>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// The sender's address.
    pub from: String,
    /// Get every alert. Keys have addresses of their own besides.
    pub to: Vec<String>,
    /// Administrators of the organisation and of the limit's workspace get it too.
    pub administrators: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// The connection begins in plain text and must be encrypted before anything is sent.
    StartTls,
    /// Encrypted from the first byte.
    Tls,
    /// Never encrypted.
    Off,
}

/// A URL that gets each alert as JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    pub format: AlertFormat,
    /// What its requests are signed with.
    pub secret: Option<Secret>,
}

/// Leaves out the URL: that of Slack is a secret.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("format", &self.format).finish_non_exhaustive()
    }
}

/// What a webhook gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertFormat {
    /// All members of an alert.
    Json,
    /// A text, as incoming webhooks of Slack take it, and others after them.
    Slack,
}

pub(super) const ADDRESS: Form<String> = form(address, |doc| pattern(doc, "@", &["ops@example.com"]));

const URL: Form<String> =
    form(http_url, |doc| pattern(doc, "^https?://.", &["https://hooks.example.com/turnpike"]));

const PASSWORD: Form<Secret> = form(
    |at| at.text().map(Secret::new),
    |doc| json!({"type": "string", "description": doc, "examples": ["credential:smtp-password"]}),
);

const SIGNING_SECRET: Form<Secret> = form(
    |at| at.text().map(Secret::new),
    |doc| json!({"type": "string", "description": doc, "examples": ["${ALERT_SECRET}"]}),
);

impl AlertSettings {
    pub(super) const DOC: &str = "Who gets a message when a limit is nearly or wholly used (docs/alerts.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let webhook = object(Webhook::members);
        let webhooks = list(webhook, "A URL that gets each alert as JSON.");
        Some(Self {
            smtp: table.get("smtp", object(Smtp::members), "The mail server."),
            webhooks: table.get("webhooks", webhooks, "URLs that get each alert.").unwrap_or_default(),
        })
    }
}

impl Smtp {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const MODES: Choice<SmtpTls> =
            Choice(&[("starttls", SmtpTls::StartTls), ("tls", SmtpTls::Tls), ("off", SmtpTls::Off)]);
        let ca_file = "Certificate authorities in place of the usual ones, PEM.";
        let tls = "How connections are encrypted. Default: starttls.";
        let administrators = "Whether alerts also go to the users who are owners or administrators of the organisation, to administrators of the \
             limit's workspace, and to the user who made the key whose limit it is. Default: true.";
        let host = table.needed("host", NON_EMPTY, "Its name.");
        let port = table.get("port", whole(1, 65_535), "Default: 587, with tls 465, with off 25.");
        let tls = table.get("tls", MODES, tls).unwrap_or(SmtpTls::StartTls);
        let ca_file = table.get("ca_file", FILE, ca_file);
        let username = table.get("username", NON_EMPTY, "With password, where the server wants it.");
        let password = table.get("password", PASSWORD, "The password.");
        let from = table.needed("from", ADDRESS, "The sender.");
        let to = table.get("to", list(ADDRESS, "An address."), "Who gets every alert.").unwrap_or_default();
        let administrators = table.get("administrators", FLAG, administrators).unwrap_or(true);
        if password.is_some() != table.at("username").is_some() {
            table.missing("password", "username and password belong together: give both or none");
        }
        if tls == SmtpTls::Off {
            table.problem("username", "would be sent unencrypted with tls: off; use starttls or tls");
        }
        let port = port.unwrap_or(match tls {
            SmtpTls::StartTls => 587,
            SmtpTls::Tls => 465,
            SmtpTls::Off => 25,
        });
        Some(Self { host: host?, port, tls, ca_file, username, password, from: from?, to, administrators })
    }
}

impl Webhook {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let url = table.needed("url", URL, "Where it is sent.");
        let formats = Choice(&[("json", AlertFormat::Json), ("slack", AlertFormat::Slack)]);
        let format = "What is sent: json, or slack for incoming webhooks of Slack and those that take the same. Default: json.";
        let format = table.get("format", formats, format).unwrap_or(AlertFormat::Json);
        let secret = table.get("secret", SIGNING_SECRET, "Signs each request (HMAC-SHA-256).");
        Some(Self { url: url?, format, secret })
    }
}

/// An e-mail address, possibly with a name before it: `Gateway <gateway@example.com>`.
fn address(at: &Cursor<'_>) -> Option<String> {
    let text = non_empty(at)?;
    if !is_address(text) {
        at.problem("must be an e-mail address, such as ops@example.com");
        return None;
    }
    Some(text.to_owned())
}

fn is_address(text: &str) -> bool {
    let bare = match text.strip_suffix('>').map(|text| text.rsplit_once('<')) {
        Some(Some((_, bare))) => bare,
        Some(None) => return false,
        None => text,
    };
    let parts = bare.rsplit_once('@');
    let is_line = !text.contains(['\r', '\n']);
    is_line
        && parts
            .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !bare.contains([' ', ',']))
}
