//! Which credentials an account's requests to Vertex AI carry.
//!
//! Not here: how tokens are fetched (`credentials`).

use super::{ID, address};
use crate::provider::key::{Key, secret_value};
use http::HeaderMap;
use words::config::account::{Account, AuthTypeB};
use words::error::Error;

/// The credentials a request is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialSource {
    /// `api_key` unchanged.
    Key,
    ServiceAccount,
    Machine,
    Unauthenticated,
}

impl CredentialSource {
    pub(super) fn from_account(account: &Account) -> Self {
        let has_key = account.api_key.as_ref().is_some_and(|key| !key.expose().is_empty());
        match account.cloud_b.auth_type {
            Some(AuthTypeB::ApiKey) => Self::Key,
            Some(AuthTypeB::ServiceAccount) => Self::ServiceAccount,
            Some(AuthTypeB::WorkloadIdentity) => Self::Machine,
            None if account.cloud_b.service_account_json.is_some() => Self::ServiceAccount,
            None if has_key => Self::Key,
            // The machine's own token must never reach a host that a config names.
            None if account.custom_host.is_some() => Self::Unauthenticated,
            None => Self::Machine,
        }
    }
}

/// Removes the client's credentials, and writes the account's key where that is what requests carry.
pub(super) fn write_key(account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
    let keyless = Account { custom_host: account.custom_host.clone(), ..Account::default() };
    match (CredentialSource::from_account(account), &account.api_key) {
        (CredentialSource::Key, Some(key)) if address::is_api_key(key.expose()) => {
            Key::OPTIONAL.write(ID, &keyless, headers)?;
            headers.insert("x-goog-api-key", secret_value("api_key", key.expose())?);
            Ok(())
        }
        (CredentialSource::Key, _) => Key::BEARER.write(ID, account, headers),
        // Removes the client's credentials; a fetched token is written later.
        _ => Key::OPTIONAL.write(ID, &keyless, headers),
    }
}
