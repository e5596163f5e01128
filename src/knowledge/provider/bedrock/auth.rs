//! How an account's requests to Bedrock are authorized: by which of the credentials that it has.
//!
//! Not here: the signature (`signing`), and credentials that are fetched (`credentials`).

use super::SPEC;
use crate::provider::key::Key;
use http::{HeaderMap, HeaderName};
use words::config::account::{Account, AuthTypeA};
use words::error::Error;

/// The headers of a client's own signature. They are removed, whether or not we sign.
const CLIENT_SIGNATURE_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-amz-date"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-amz-content-sha256"),
];

/// How an account's requests are authorized.
pub(super) enum Auth {
    /// Signed with the account's own keys.
    Keys,
    /// `api_key` as a bearer token.
    ApiKey,
    /// Signed with fetched credentials.
    Temporary,
    /// Not at all: a custom host may need no credentials.
    Unauthenticated,
}

impl Auth {
    /// # Errors
    /// 401 without any credentials that Bedrock's own host accepts; 400 when one of the two keys is missing.
    pub(super) fn from_account(account: &Account) -> Result<Self, Error> {
        let cloud = &account.cloud_a;
        let has_key = account.api_key.as_ref().is_some_and(|key| !key.expose().is_empty());
        match cloud.auth_type {
            Some(AuthTypeA::ApiKey) if has_key => return Ok(Self::ApiKey),
            Some(AuthTypeA::ApiKey) => return Err(missing_credentials("api_key")),
            Some(AuthTypeA::AssumedRole | AuthTypeA::ServiceRole) => return Ok(Self::Temporary),
            Some(AuthTypeA::AccessKey) | None => {}
        }
        match (&cloud.access_key_id, &cloud.secret_access_key) {
            (Some(_), Some(_)) if cloud.role_arn.is_some() && cloud.auth_type.is_none() => {
                Ok(Self::Temporary)
            }
            (Some(_), Some(_)) => Ok(Self::Keys),
            (Some(_), None) => Err(incomplete_keys("cloud_a_secret_access_key")),
            (None, Some(_)) => Err(incomplete_keys("cloud_a_access_key_id")),
            (None, None) if cloud.auth_type.is_some() => Err(missing_credentials("cloud_a_access_key_id")),
            (None, None) if cloud.role_arn.is_some() => Ok(Self::Temporary),
            (None, None) if has_key => Ok(Self::ApiKey),
            (None, None) if account.custom_host.is_some() => Ok(Self::Unauthenticated),
            (None, None) => Err(missing_credentials("cloud_a_access_key_id")),
        }
    }
}

/// Removes the client's credentials, and writes the account's API key where that is what it is authorized with.
pub(super) fn write_key(account: &Account, headers: &mut HeaderMap) -> Result<(), Error> {
    CLIENT_SIGNATURE_HEADERS.iter().for_each(|name| {
        headers.remove(name);
    });
    let key = Key { required: false, ..Key::BEARER };
    match Auth::from_account(account)? {
        Auth::ApiKey => key.write(SPEC.id, account, headers),
        // Only removes the client's credentials.
        _ => key.write(SPEC.id, &Account::default(), headers),
    }
}

fn missing_credentials(param: &str) -> Error {
    let message = "No credentials for bedrock. Give cloud_a_access_key_id and cloud_a_secret_access_key, a \
                   Bedrock API key as api_key, or a role (cloud_a_auth_type).";
    Error::unauthorized(message).with_param(param).with_provider(SPEC.id)
}

fn incomplete_keys(param: &str) -> Error {
    let message = format!("{param} is missing: the two keys of cloud A go together.");
    Error::invalid_request(param, message).with_provider(SPEC.id)
}
