//! `acme`: the certificate authority that issues certificates of listeners, and how it is shown that their names lead here.
//!
//! Which names are in a certificate stands at its listener (`listen`). Not here: ordering certificates (`main`).

use super::alerts::ADDRESS;
use super::listen::UsedAddresses;
use super::{Listener, Settings};
use crate::config::members::{
    Choice, FILE, FLAG, Form, MemberTable, MemberType, NON_EMPTY, form, list, non_empty, object,
};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The most names in one certificate: Let's Encrypt issues no larger ones.
const MAX_NAMES: usize = 100;
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// `acme`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// The URL of the authority's directory (RFC 8555, section 7.1.1).
    pub directory: String,
    /// E-mail addresses for the account.
    pub contact: Vec<String>,
    pub terms_of_service_agreed: bool,
    pub challenge: AcmeChallenge,
    /// Where HTTP-01 is answered.
    pub http_listen: SocketAddr,
    /// Whether other requests there are redirected to `https://`.
    pub redirect_http: bool,
    /// The authorities that the directory's own certificate is verified by; `None`: as for providers.
    pub ca_file: Option<PathBuf>,
    pub external_account: Option<ExternalAccount>,
}

/// How the authority sees that a name leads here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// RFC 8737: it connects to port 443, where the listener itself answers.
    TlsAlpn01,
    /// RFC 8555, section 8.3: it requests a path at port 80.
    Http01,
}

/// An account that the authority already has, which the new one is bound to (RFC 8555, section 7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub key_id: String,
    /// Base64url, as authorities show it.
    pub hmac_key: Secret,
}

impl Default for AcmeSettings {
    fn default() -> Self {
        Self {
            directory: LETS_ENCRYPT.to_owned(),
            contact: Vec::new(),
            terms_of_service_agreed: false,
            challenge: AcmeChallenge::TlsAlpn01,
            http_listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)),
            redirect_http: false,
            ca_file: None,
            external_account: None,
        }
    }
}

impl AcmeSettings {
    const DOC: &str = "The certificate authority that issues the certificates of listeners with tls.acme (docs/certificates.md).";

    pub(super) fn section(table: &mut MemberTable<'_>, used: &UsedAddresses) -> Self {
        table.get("acme", object(|table| Self::members(table, used)), Self::DOC).unwrap_or_default()
    }

    fn members(table: &mut MemberTable<'_>, used: &UsedAddresses) -> Option<Self> {
        const CHALLENGES: Choice<AcmeChallenge> =
            Choice(&[("tls-alpn-01", AcmeChallenge::TlsAlpn01), ("http-01", AcmeChallenge::Http01)]);
        table.hints(HINTS);
        let default = Self::default();
        let directory = "The authority: the URL of its directory. Default: Let's Encrypt.";
        let contact = "E-mail addresses for the account with the authority, which may write to them.";
        let terms = "Whether you agree to the authority's terms of service. Without it nothing is ordered.";
        let challenge = "How the authority sees that a name leads here: it connects to port 443, where the listener itself answers (tls-alpn-01), \
                         or requests a path at port 80 (http-01).";
        let http_listen = "Where http-01 is answered; nothing else is served there. Default: 0.0.0.0:80.";
        let redirect = "Whether other requests there are redirected to https://, for the names of the certificates. Without it they get a 404.";
        let ca_file = "PEM file of the authorities that the directory's own certificate is verified by. Default: those of tls.ca_file.";
        let external =
            "The account at the authority that the new one is bound to, where the authority wants it.";
        Some(Self {
            directory: table.or("directory", DIRECTORY, default.directory, directory),
            contact: table.get("contact", list(ADDRESS, "An address."), contact).unwrap_or_default(),
            terms_of_service_agreed: table.or("terms_of_service_agreed", FLAG, false, terms),
            challenge: table.or("challenge", CHALLENGES, default.challenge, challenge),
            http_listen: table.get("http_listen", used, http_listen).unwrap_or(default.http_listen),
            redirect_http: table.or("redirect_http", FLAG, false, redirect),
            ca_file: table.get("ca_file", FILE, ca_file),
            external_account: table.get("external_account", object(ExternalAccount::members), external),
        })
    }
}

/// What other programs call these keys.
const HINTS: &[(&str, &str)] = &[
    ("email", "it is contact here: a list of addresses"),
    ("names", "names stand at their listener: listen.data, tls: {acme: [NAME]}"),
    ("domains", "names stand at their listener: listen.data, tls: {acme: [NAME]}"),
    ("caServer", "it is directory here"),
    ("storage", "accounts and certificates are in the folder acme of server.state_dir"),
    ("eab", "it is external_account here"),
];

impl ExternalAccount {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let key_id = table.needed("key_id", NON_EMPTY, "Which account; the authority shows it.");
        let hmac_key = table.needed("hmac_key", HMAC_KEY, "Its key, base64url, as the authority shows it.");
        Some(Self { key_id: key_id?, hmac_key: hmac_key? })
    }

    /// The key's bytes; `None`: it is not base64url.
    pub fn key(&self) -> Option<Vec<u8>> {
        let text = self.hmac_key.expose().trim_end_matches('=');
        BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(|key| !key.is_empty())
    }
}

const HMAC_KEY: Form<Secret> = form(
    |at| at.text().map(Secret::new),
    |doc| json!({"type": "string", "description": doc, "examples": ["credential:acme-hmac-key"]}),
);

const DIRECTORY: Form<String> = form(
    |at| {
        let url = super::values::http_url(at)?;
        if !url.starts_with("https://") {
            at.problem("must begin with https://");
        }
        Some(url)
    },
    |doc| schema::pattern(doc, "^https://.", &["https://acme-staging-v02.api.letsencrypt.org/directory"]),
)
.written(|url| Some(url.as_str().into()));

/// The names in one certificate: at least one, none of them twice.
pub(super) struct CertificateNames;

impl MemberType for CertificateNames {
    type Value = Vec<String>;

    fn read(&self, at: &Cursor<'_>) -> Option<Vec<String>> {
        let items = at.list()?;
        if items.is_empty() {
            at.problem("must list at least one name");
        }
        if items.len() > MAX_NAMES {
            at.problem(format!(
                "has more than {MAX_NAMES} names, which authorities do not put into one certificate"
            ));
        }
        let mut names = Vec::with_capacity(items.len().min(MAX_NAMES));
        for item in items.iter().take(MAX_NAMES) {
            let Some(name) = certificate_name(item) else { continue };
            if names.contains(&name) {
                item.problem("stands twice");
                continue;
            }
            names.push(name);
        }
        (!names.is_empty()).then_some(names)
    }

    fn schema(&self, doc: &str) -> Value {
        let name = schema::pattern("A host name.", "^[A-Za-z0-9.-]+$", &["gateway.example.com"]);
        let mut list = schema::list(doc, name);
        if let Value::Object(members) = &mut list {
            members.insert("minItems".to_owned(), 1.into());
            members.insert("maxItems".to_owned(), MAX_NAMES.into());
        }
        list
    }
}

/// A host name in lower case that an authority can look up by these challenges.
fn certificate_name(at: &Cursor<'_>) -> Option<String> {
    let name = non_empty(at)?.to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let problem = if name.contains('*') {
        "is a wildcard, which takes a challenge in DNS (dns-01) that is not supported: list the names, or give cert and key"
    } else if name.parse::<IpAddr>().is_ok() {
        "is an address; only names are supported"
    } else if !name.is_ascii() {
        "must be in ASCII: write the name as xn--…"
    } else if name.len() > 253 || !name.split('.').all(is_label) {
        "must be a host name, such as gateway.example.com, without a scheme or port"
    } else {
        return Some(name);
    };
    at.problem(problem);
    None
}

impl Settings {
    /// Whether a listener has a certificate that an authority issues.
    pub fn uses_acme(&self) -> bool {
        self.acme_listeners().next().is_some()
    }

    /// Where HTTP-01 is answered; `None`: nowhere.
    pub fn acme_http(&self) -> Option<SocketAddr> {
        let is_used = self.acme.challenge == AcmeChallenge::Http01 && self.uses_acme();
        is_used.then_some(self.acme.http_listen)
    }

    /// The listeners whose certificate an authority issues.
    fn acme_listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listen
            .data
            .iter()
            .chain([&self.listen.control])
            .filter(|listener| listener.acme_names().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Checks;
    use crate::settings::{SecretSources, report};

    fn parse(text: &str) -> Result<Settings, String> {
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let checks = Checks::NONE;
        Settings::parse(text, &sources, &checks).map_err(|problems| report("t", &problems))
    }

    fn with_names(names: &str, acme: &str) -> Result<Settings, String> {
        parse(&format!(
            "listen: {{data: [{{address: '127.0.0.1:1', tls: {{acme: {names}}}}}]}}\nacme: {acme}\n"
        ))
    }

    #[test]
    fn names_and_an_agreement_are_enough() {
        let settings =
            with_names("[A.example, xn--b-eha.example]", "{terms_of_service_agreed: true}").unwrap();
        let listener = &settings.listen.data[0];
        assert_eq!(listener.acme_names().unwrap(), ["a.example", "xn--b-eha.example"]);
        let acme = AcmeSettings { terms_of_service_agreed: true, ..AcmeSettings::default() };
        assert_eq!((&settings.acme, settings.uses_acme(), settings.acme_http()), (&acme, true, None));
        let http = "{terms_of_service_agreed: true, challenge: http-01}";
        assert_eq!(with_names("[a.example]", http).unwrap().acme_http().unwrap().port(), 80);
        let unused = parse("acme: {challenge: http-01}\n").unwrap();
        assert_eq!(
            (unused.uses_acme(), unused.acme_http()),
            (false, None),
            "nothing is ordered or listened on"
        );
        let key = "{terms_of_service_agreed: true, external_account: {key_id: a, hmac_key: AQI}}";
        let account = with_names("[a.example]", key).unwrap().acme.external_account.unwrap();
        assert_eq!(account.key(), Some(vec![1, 2]));
        for wrong in ["", "+/", "a", "a b c d"] {
            assert_eq!(
                ExternalAccount { hmac_key: Secret::new(wrong), ..account.clone() }.key(),
                None,
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_no_authority_would_issue_is_refused() {
        for (names, why) in [
            ("[]", "must list at least one name"),
            ("['*.example.com']", "is a wildcard, which takes a challenge in DNS"),
            ("[192.0.2.1]", "is an address"),
            ("['https://a.example']", "must be a host name"),
            ("[a_b.example]", "must be a host name"),
            ("[bücher.example]", "must be in ASCII"),
            ("[a.example, A.example]", "listen.data[0].tls.acme[1]: stands twice"),
        ] {
            let found = with_names(names, "{terms_of_service_agreed: true}").unwrap_err();
            assert!(found.contains(why), "{names}: {found}");
        }
        for (acme, why) in [
            ("{}", "acme.terms_of_service_agreed: must be true where a listener has tls.acme"),
            ("{terms_of_service_agreed: false}", "t:2:33: acme.terms_of_service_agreed: must be true"),
            (
                "{terms_of_service_agreed: true, directory: 'http://ca'}",
                "directory: must begin with https://",
            ),
            ("{terms_of_service_agreed: true, email: a}", "email: unknown key"),
            ("{terms_of_service_agreed: true, email: a}", "it is contact here"),
            ("{terms_of_service_agreed: true, contact: [a]}", "contact[0]: must be an e-mail address"),
            (
                "{terms_of_service_agreed: true, challenge: http-01, http_listen: '127.0.0.1:1'}",
                "acme.http_listen: clashes with listen.data[0]",
            ),
        ] {
            let found = with_names("[a.example]", acme).unwrap_err();
            assert!(found.contains(why), "{acme}: {found}");
        }
        let both = "listen: {data: [{address: '127.0.0.1:1', tls: {acme: [a.example], cert: a}}]}\n";
        assert!(parse(both).unwrap_err().contains("tls.cert: and acme exclude each other"));
        let taken = "listen: {data: ['0.0.0.0:80', {address: '127.0.0.1:1', tls: {acme: [a.example]}}]}\n\
                     acme: {terms_of_service_agreed: true, challenge: http-01}\n";
        let found = parse(taken).unwrap_err();
        assert!(found.contains("listen.data[0] takes its default 0.0.0.0:80"), "{found}");
    }
}
