//! Temporary credentials for cloud A: which requests get them, and what to make of the answers.
//!
//! Carried out and remembered elsewhere (see [`crate::provider::grant`]).

mod assume_role;
mod machine;

pub use assume_role::{AssumeRole, Source};
pub use machine::{Container, Instance};

use super::address;
use super::signing::Keys;
use crate::config::account::{Account, AuthTypeA};
use crate::config::secret::Secret;
use crate::error::Error;
use crate::provider::grant::{Brought, Grant, Granted};
use ring::digest::{SHA256, digest};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The grant an account's sign-in asks for: a role assumed with its keys, or else with the machine's
/// credentials; or the machine's credentials themselves.
///
/// # Errors
/// 400 when the role is not named.
pub fn of(account: &Account) -> Result<Arc<dyn Grant>, Error> {
    let cloud = &account.cloud_a;
    let machine = || Arc::new(Instance) as Arc<dyn Grant>;
    let Some(role_arn) = cloud.role_arn.clone().filter(|_| cloud.auth_type != Some(AuthTypeA::ServiceRole)) else {
        return match cloud.auth_type {
            Some(AuthTypeA::AssumedRole) => {
                let message = "cloud_a_role_arn is missing: it names the role to assume.";
                Err(Error::invalid_request("cloud_a_role_arn", message).with_provider(super::ROW.id))
            }
            _ => Ok(machine()),
        };
    };
    let source = match (&cloud.access_key_id, &cloud.secret_access_key) {
        (Some(id), Some(secret)) => {
            let token = cloud.session_token.as_ref();
            Source::Keys { keys: Keys::of(id, secret, token), key: fingerprint([Some(id), Some(secret), token]) }
        }
        _ => Source::Granted(machine()),
    };
    let region = address::region(account)?.into_owned();
    Ok(Arc::new(AssumeRole { role_arn, external_id: cloud.external_id.clone(), region, source }))
}

/// What keys are told apart by, without telling them.
fn fingerprint<'a>(secrets: impl IntoIterator<Item = Option<&'a Secret>>) -> String {
    let mut text = String::new();
    for secret in secrets {
        text.push_str(secret.map(Secret::expose).unwrap_or_default());
        text.push('\0');
    }
    let mut out = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref().iter().take(16) {
        // Writing into a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// How long something is good that ends at `end` (`2026-08-01T12:00:00Z`).
fn left(end: &str, now: SystemTime) -> Option<Duration> {
    let end: jiff::Timestamp = end.parse().ok()?;
    SystemTime::from(end).duration_since(now).ok()
}

/// A failed errand, in words for the caller. Of what was answered only a short text: it names roles and
/// policies, no secrets.
fn refused(what: &str, answer: &Brought, said: Option<&str>) -> String {
    let said: String = said.unwrap_or_default().chars().filter(|char| !char.is_control()).take(500).collect();
    let colon = if said.is_empty() { "" } else { ": " };
    format!("{what} answered with status {}{colon}{said}", answer.status)
}

fn granted(id: &str, secret: &str, token: Option<&str>) -> Granted {
    Granted::Aws {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new(secret),
        session_token: token.filter(|token| !token.is_empty()).map(Secret::new),
    }
}

#[cfg(test)]
mod tests;
