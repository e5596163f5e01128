//! `alerts`: who is told when a limit is nearly or wholly used: by e-mail and by webhook.
//!
//! Not here: what an alert is (`limits`), and sending it (`control::alerts`).

use super::values::{base_url, count, file, non_empty};
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;
use std::path::PathBuf;

const SMTP_KEYS: [&str; 9] =
    ["host", "port", "tls", "ca_file", "username", "password", "from", "to", "administrators"];

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: String,
    /// What its requests are signed with.
    pub secret: Option<Secret>,
}

impl AlertSettings {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let smtp = fields.get(&["smtp"]).and_then(|at| at.fields()).and_then(Smtp::read);
        let webhooks = fields.get(&["webhooks"]).and_then(|at| at.list()).unwrap_or_default();
        let webhooks = webhooks.iter().filter_map(Webhook::read).collect();
        fields.reject_unknown(&["smtp", "webhooks"]);
        Self { smtp, webhooks }
    }
}

impl Smtp {
    fn read(mut fields: ObjectReader<'_>) -> Option<Self> {
        let host = fields.required(&["host"]).and_then(|at| non_empty(&at).map(str::to_owned));
        let modes = [("starttls", SmtpTls::StartTls), ("tls", SmtpTls::Tls), ("off", SmtpTls::Off)];
        let tls = fields.get(&["tls"]).and_then(|at| at.one_of(&modes)).unwrap_or(SmtpTls::StartTls);
        let port = count(&mut fields, "port", 1, 65_535).and_then(|port| u16::try_from(port).ok());
        let usual = match tls {
            SmtpTls::StartTls => 587,
            SmtpTls::Tls => 465,
            SmtpTls::Off => 25,
        };
        let ca_file = file(&mut fields, "ca_file");
        let password = fields.secret(&["password"]);
        let username_at = fields.get(&["username"]);
        if password.is_some() != username_at.is_some() {
            fields.missing("password", "username and password belong together: give both or none");
        }
        if let (Some(at), SmtpTls::Off) = (&username_at, tls) {
            at.problem("would be sent unencrypted with tls: off; use starttls or tls");
        }
        let username = username_at.and_then(|at| non_empty(&at).map(str::to_owned));
        let from = fields.required(&["from"]).and_then(|at| address(&at));
        let to = fields.get(&["to"]).and_then(|at| at.list()).unwrap_or_default();
        let to = to.iter().filter_map(address).collect();
        let administrators = fields.flag(&["administrators"]).unwrap_or(true);
        fields.reject_unknown(&SMTP_KEYS);
        let port = port.unwrap_or(usual);
        Some(Self { host: host?, port, tls, ca_file, username, password, from: from?, to, administrators })
    }
}

impl Webhook {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let url = fields.required(&["url"]).and_then(|at| {
            let url = non_empty(&at)?;
            if let Err(why) = base_url(url) {
                at.problem(why);
            }
            Some(url.to_owned())
        });
        let secret = fields.secret(&["secret"]);
        fields.reject_unknown(&["url", "secret"]);
        Some(Self { url: url?, secret })
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
