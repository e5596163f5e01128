//! Who gets an alert by mail: the addresses of the settings, administrators, and those that a key names for its own limit.
//!
//! Not here: sending it (`mail`), and webhooks, which get every alert.

use crate::records::{member, members};
use memory::auth::key_body::KeyBody;
use memory::limits::{Limit, LimitScope};
use memory::store::{Catalog, Kind, Record, Status};
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;
use words::settings::alerts::Smtp;

/// The most mails of one alert.
const MAX_MAILS: usize = 100;

/// The workspace that a limit is of; `None`: the organisation.
pub fn workspace_of(catalog: &Catalog, limit: &Limit) -> Option<Uuid> {
    let of = |kind| catalog.get(kind, limit.id).and_then(|record| record.workspace);
    match limit.scope {
        LimitScope::Policy => limit.workspace,
        LimitScope::Key => of(Kind::ApiKey),
        LimitScope::Workspace => Some(limit.id),
        LimitScope::Provider | LimitScope::Integration => of(Kind::Provider),
    }
}

/// The addresses, each once; those of the settings and the key first, where there are more than [`MAX_MAILS`].
pub fn addresses(catalog: &Catalog, smtp: &Smtp, limit: &Limit) -> Vec<String> {
    let mut found = Vec::new();
    let mut taken = BTreeSet::new();
    let mut add = |address: String| {
        if found.len() < MAX_MAILS && taken.insert(address.to_lowercase()) {
            found.push(address);
        }
    };
    smtp.to.iter().cloned().for_each(&mut add);
    let key = catalog.get(Kind::ApiKey, limit.id).filter(|_| limit.scope == LimitScope::Key);
    let key = key.and_then(|record| KeyBody::parse(&record.body).ok());
    if let Some(key) = &key {
        key.alert_emails.iter().cloned().for_each(&mut add);
    }
    if smtp.administrators {
        let maker = key.as_ref().and_then(|key| Uuid::try_parse(key.created_by.as_deref()?).ok());
        let maker = maker.and_then(|id| catalog.get(Kind::User, id));
        let workspace = workspace_of(catalog, limit);
        maker.and_then(address_of).into_iter().for_each(&mut add);
        administrators(catalog, workspace).for_each(&mut add);
    }
    found
}

/// Owners and administrators of the organisation, and the administrators of the workspace.
fn administrators(catalog: &Catalog, workspace: Option<Uuid>) -> impl Iterator<Item = String> {
    let of_organisation = catalog
        .all(Kind::User)
        .filter(|user| matches!(member(&members(user), "role").as_str(), Some("owner" | "admin")));
    let members_of = workspace.into_iter().flat_map(|id| catalog.children(Kind::Member, id));
    let of_workspace = members_of.filter_map(|record| {
        let body = members(record);
        let is_administrator = member(&body, "role") == "admin";
        let id = Uuid::try_parse(member(&body, "user_id").as_str()?).ok().filter(|_| is_administrator)?;
        catalog.get(Kind::User, id)
    });
    of_organisation.chain(of_workspace).filter_map(address_of)
}

fn address_of(user: &Arc<Record>) -> Option<String> {
    let address = member(&members(user), "email").as_str().map(str::to_owned);
    address.filter(|_| user.status == Status::Active)
}
