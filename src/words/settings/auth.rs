//! `auth`: who may call, and what calls may bring with them.
//!
//! Not here: provider keys, and looking up the key of a request (`auth`).

use super::scopes::{KeyType, Scope, ScopeSet};
use super::service_key::UsedKeys;
use super::values::{ID, is_id};
use super::{Jwt, ServiceKey};
use crate::config::members::{FLAG, Form, MemberTable, MemberType, form, list, non_empty, object};
use crate::config::read::Cursor;
use crate::json::schema;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The section `auth`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Auth {
    /// `auth.keys`; without any, and without stored keys, clients need no service key.
    pub keys: Vec<ServiceKey>,
    /// Whether requests may only use stored providers and saved configs.
    pub saved_only: bool,
    /// Whether only `logs.write` is the right to write logs of requests that did not pass the gateway, and not `completions.write` as well.
    pub separate_logs_write: bool,
    /// The identity provider whose tokens count, too.
    pub jwt: Option<Jwt>,
    /// The names of the keys of [`Auth::keys`] that clients' certificates stand for, by a name in the certificate.
    pub client_certificates: BTreeMap<String, String>,
}

impl Auth {
    pub(super) const DOC: &str = "Who may call.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let saved_only = "Refuses configs, providers with the client's own key, custom hosts and forwarded headers in requests: only \
                          stored providers and saved configs may be used.";
        let separate_logs_write = "Whether POST /v1/logs needs the scope logs.write; without it completions.write suffices, as in Portkey's API.";
        let keys =
            "The keys with which clients may call. Without any, and without stored keys, everyone may.";
        let jwt =
            "An identity provider whose tokens (JWT) count as service keys of a workspace (docs/keys.md).";
        let used = UsedKeys::default();
        let key = object(|table| ServiceKey::members(table, &used));
        let certificates = "Which key a client's certificate stands for, where the listener has tls.client_ca and the request no key: a name \
                            in the certificate (DNS name, URI, mail address, common name), and the name of a key of auth.keys.";
        let keys: Vec<ServiceKey> = table.get("keys", list(key, "A client's key."), keys).unwrap_or_default();
        let certified = CertifiedKeys(&keys);
        let client_certificates =
            table.get("client_certificates", certified, certificates).unwrap_or_default();
        Some(Self {
            client_certificates,
            keys,
            saved_only: table.or("saved_only", FLAG, false, saved_only),
            separate_logs_write: table.or("separate_logs_write", FLAG, false, separate_logs_write),
            jwt: table.get("jwt", object(Jwt::members), jwt),
        })
    }
}

/// Names in certificates, and the keys that they stand for.
struct CertifiedKeys<'k>(&'k [ServiceKey]);

impl MemberType for CertifiedKeys<'_> {
    type Value = BTreeMap<String, String>;

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        let read = at.entries()?.into_iter().filter_map(|(entry, at)| {
            let name = non_empty(&at)?;
            match self.0.iter().find(|key| key.name == name) {
                None => at.problem("is not the name of a key in auth.keys"),
                Some(key) if key.key.text().is_none() => {
                    at.problem("is the name of a key of which only the sha256 is given: a certificate stands for a key itself");
                }
                Some(_) => {}
            }
            Some((entry.name.clone(), name.to_owned()))
        });
        Some(read.collect())
    }

    fn schema(&self, doc: &str) -> Value {
        json!({"type": "object", "additionalProperties": schema::non_empty("The name of the key."), "description": doc})
    }
}

/// The slug of a workspace.
pub(super) const WORKSPACE: Form<String> = form(
    |at| {
        let slug = non_empty(at)?;
        if !is_id(slug) {
            at.problem(
                "is no slug of a workspace: letters, digits, dots, dashes and underscores, at most 128",
            );
        }
        Some(slug.to_owned())
    },
    |doc| schema::pattern(doc, ID, &["default"]),
);

/// A list of the names of scopes, and of `all` and `administration`, which stand for several.
pub(super) struct Scopes {
    /// Whether those of the whole organisation are refused.
    pub(super) of_workspace: bool,
}

impl MemberType for Scopes {
    type Value = ScopeSet;

    fn read(&self, at: &Cursor<'_>) -> Option<ScopeSet> {
        let most = if self.of_workspace { KeyType::WorkspaceService.scopes() } else { ScopeSet::all() };
        let read = at.list().unwrap_or_default().into_iter().filter_map(|item| scope(&item, &most));
        Some(read.fold(ScopeSet::default(), |all, named| all.or(&named)))
    }

    fn schema(&self, doc: &str) -> Value {
        let names =
            ["all", "administration"].into_iter().chain(Scope::ALL.iter().map(|scope| scope.as_str()));
        // As `Scope::parse` reads it.
        schema::list(doc, schema::one_of("A scope.", names.chain(["logs.read"])))
    }
}

/// The scopes that a name stands for; `most`: those that the key may hold.
fn scope(at: &Cursor<'_>, most: &ScopeSet) -> Option<ScopeSet> {
    let name = at.text()?;
    match name {
        "all" => return Some(*most),
        "administration" => return Some(KeyType::OrganisationService.scopes().and(most)),
        _ => {}
    }
    let (named, unknown) = ScopeSet::parse([name]);
    if !unknown.is_empty() {
        at.problem("is no scope; docs/keys.md lists them");
    } else if named.and(most).is_empty() {
        at.problem("is a scope of the whole organisation, which a key with a workspace cannot hold");
    }
    Some(named)
}
