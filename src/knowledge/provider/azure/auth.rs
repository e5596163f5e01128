//! How an account authenticates at cloud C: with a key, with a token from its configuration, or with a token that
//! is fetched.

use super::credentials::{Entra, Managed, Workload};
use crate::provider::key::{self, Key, bearer, header_value, secret_value};
use crate::provider::token_exchange::TokenExchange;
use http::{HeaderMap, HeaderName, header};
use std::sync::Arc;
use words::config::account::{Account, AuthModeC};
use words::config::secret::Secret;
use words::error::Error;

/// Which headers carry the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPlacement {
    ApiKey,
    /// `x-api-key`, for Claude.
    XApiKey,
    /// Single-model endpoints read `authorization`, resources read `api-key`; Azure's own client sends both.
    Both,
}

/// The scope of a token when the account sets none.
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";

/// The authentication mode. When the account sets none, the credentials it has decide.
fn mode(account: &Account) -> Option<AuthModeC> {
    let cloud = &account.cloud_c;
    let entra = cloud.entra_client_secret.is_some() && cloud.ad_token.is_none();
    cloud.auth_mode.or(entra.then_some(AuthModeC::Entra))
}

/// The token exchange an account needs; `None` when it authenticates with a key or a configured token.
///
/// # Errors
/// 400 that names the parameter that is missing or cannot be part of the sign-in URL.
pub(super) fn token_exchange(
    account: &Account,
    provider: &'static str,
) -> Result<Option<Arc<dyn TokenExchange>>, Error> {
    let cloud = &account.cloud_c;
    let scope = cloud.entra_scope.clone().unwrap_or_else(|| SCOPE.to_owned());
    let missing = |param: &'static str| {
        let message = format!("{param} is missing: {provider} signs in at Entra ID with it.");
        Error::invalid_request(param, message).with_provider(provider)
    };
    Ok(match mode(account) {
        None | Some(AuthModeC::Key) => None,
        Some(AuthModeC::Entra) => {
            let tenant = cloud.entra_tenant_id.clone().ok_or_else(|| missing("cloud_c_entra_tenant_id"))?;
            let client_id =
                cloud.entra_client_id.clone().ok_or_else(|| missing("cloud_c_entra_client_id"))?;
            let secret = cloud.entra_client_secret.clone();
            let client_secret = secret.ok_or_else(|| missing("cloud_c_entra_client_secret"))?;
            Some(Arc::new(Entra {
                tenant: checked_tenant(tenant, provider)?,
                client_id,
                client_secret,
                scope,
            }))
        }
        Some(AuthModeC::Managed) => {
            Some(Arc::new(Managed { client_id: cloud.managed_client_id.clone(), scope }))
        }
        Some(AuthModeC::Workload) => {
            let tenant = cloud.entra_tenant_id.clone();
            let tenant = tenant.map(|tenant| checked_tenant(tenant, provider)).transpose()?;
            let client_id = cloud.workload_client_id.clone().or(cloud.entra_client_id.clone());
            Some(Arc::new(Workload { tenant, client_id, scope }))
        }
    })
}

/// Checks a tenant (an id or a domain), which becomes a path segment of Microsoft's sign-in URL.
fn checked_tenant(tenant: String, provider: &'static str) -> Result<String, Error> {
    if super::credentials::is_tenant(&tenant) {
        return Ok(tenant);
    }
    let param = "cloud_c_entra_tenant_id";
    let message = format!("{param} must be a tenant's id or domain: letters, digits, hyphens and dots.");
    Err(Error::invalid_request(param, message).with_provider(provider))
}

/// Writes the key or token and removes the client's credentials. A token that must be fetched is written later.
///
/// # Errors
/// As [`Key::write`].
pub(super) fn authorize(
    provider: &'static str,
    placement: KeyPlacement,
    account: &Account,
    headers: &mut HeaderMap,
) -> Result<(), Error> {
    let mode = mode(account);
    if !matches!(mode, None | Some(AuthModeC::Key)) {
        key::clear(headers);
        return Ok(());
    }
    // `Key` means the key, even when the account also has a token.
    let static_token = account.cloud_c.ad_token.as_ref().filter(|_| mode.is_none());
    let key = account.api_key.as_ref();
    if let Some(token) = static_token.or(key.filter(|key| is_token(key))) {
        key::clear(headers);
        headers.insert(header::AUTHORIZATION, bearer(token)?);
        return Ok(());
    }
    let header = match placement {
        KeyPlacement::ApiKey | KeyPlacement::Both => "api-key",
        KeyPlacement::XApiKey => "x-api-key",
    };
    Key { header, prefix: "", required: true }.write(provider, account, headers)?;
    if let (KeyPlacement::Both, Some(key)) = (placement, key.filter(|key| !key.expose().is_empty())) {
        let value = secret_value("api_key", &["Bearer ", key.expose()].concat())?;
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(())
}

/// Whether a client's bearer value is a JSON web token. Clients send both keys and tokens as bearer; Azure's
/// keys consist of letters and digits only.
fn is_token(key: &Secret) -> bool {
    let key = key.expose();
    key.starts_with("eyJ") && key.split('.').count() == 3
}

/// Writes a header that the account may set; it replaces the client's.
///
/// # Errors
/// 400 that names `param`.
pub(super) fn write(
    name: &'static str,
    param: &str,
    value: Option<&str>,
    headers: &mut HeaderMap,
) -> Result<(), Error> {
    if let Some(value) = value {
        headers.insert(HeaderName::from_static(name), header_value(param, value)?);
    }
    Ok(())
}
