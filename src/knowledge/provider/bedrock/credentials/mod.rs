//! Temporary credentials for cloud A: the requests that fetch them and how the responses are read.
//!
//! The requests are sent and the credentials cached elsewhere (see [`crate::provider::token_exchange`]).

mod assume_role;
mod exchange_replay;
mod machine;

use super::address;
use super::signing::Keys;
use crate::provider::token_exchange::{Credentials, Step, TokenExchange, TokenResponse};
use assume_role::Role;
use exchange_replay::{ExchangeReplay, Replayed, Stop};
use ring::digest::{SHA256, digest};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use words::config::account::{Account, AuthTypeA};
use words::config::secret::Secret;
use words::error::Error;

/// Credentials that must be fetched: the machine's own, or those of an assumed role.
#[derive(Debug)]
struct TemporaryCredentials {
    source: Source,
    /// The role to assume; `None` to use the source's credentials as they are.
    role: Option<Role>,
    /// The region whose token service is used.
    region: String,
}

/// The credentials to start from.
#[derive(Debug)]
enum Source {
    /// The account's own keys, and a fingerprint that names them without revealing them.
    Keys { keys: Keys, name: String },
    /// Those of the machine the gateway runs on.
    Machine,
}

/// The token exchange for an account: a role assumed with the account's keys or else with the machine's
/// credentials; or the machine's credentials themselves.
///
/// # Errors
/// 400 when the role is not named.
pub fn token_exchange(account: &Account) -> Result<Arc<dyn TokenExchange>, Error> {
    let cloud = &account.cloud_a;
    let region = address::region(account)?.into_owned();
    let role_arn = match cloud.auth_type {
        Some(AuthTypeA::ServiceRole) => None,
        Some(AuthTypeA::AssumedRole) if cloud.role_arn.is_none() => {
            let message = "cloud_a_role_arn is missing: it names the role to assume.";
            return Err(Error::invalid_request("cloud_a_role_arn", message).with_provider(super::SPEC.id));
        }
        _ => cloud.role_arn.clone(),
    };
    let role = role_arn.map(|arn| Role { arn, external_id: cloud.external_id.clone() });
    let source = match (&cloud.access_key_id, &cloud.secret_access_key) {
        (Some(id), Some(secret)) if role.is_some() => {
            let token = cloud.session_token.as_ref();
            Source::Keys {
                keys: Keys::from_secrets(id, secret, token)?,
                name: fingerprint([Some(id), Some(secret), token]),
            }
        }
        _ => Source::Machine,
    };
    Ok(Arc::new(TemporaryCredentials { source, role, region }))
}

impl TokenExchange for TemporaryCredentials {
    fn key(&self) -> String {
        let source = match &self.source {
            Source::Keys { name, .. } => name.as_str(),
            Source::Machine => "machine",
        };
        // `Debug` quotes ARN and external id, so that two roles cannot run into the same text.
        format!("aws|{}|{:?}|{source}", self.region, self.role)
    }

    fn next_step(&self, responses: &[TokenResponse], now: SystemTime) -> Result<Step, String> {
        match self.fetch(&mut ExchangeReplay::new(responses), now) {
            Ok((credentials, lifetime)) => Ok(Step::Done(credentials, lifetime)),
            Err(Stop::Request(request)) => Ok(Step::Request(*request)),
            Err(Stop::Failed(reason)) => Err(reason),
        }
    }

    fn description(&self) -> &'static str {
        "the sign-in at cloud A"
    }
}

impl TemporaryCredentials {
    fn fetch(&self, replay: &mut ExchangeReplay<'_>, now: SystemTime) -> Replayed<(Credentials, Duration)> {
        let keys = match (&self.source, &self.role) {
            (Source::Keys { keys, .. }, _) => keys.clone(),
            (Source::Machine, None) => return machine::fetch(replay, &self.region, now),
            (Source::Machine, Some(_)) => match machine::fetch(replay, &self.region, now)?.0 {
                Credentials::Aws { access_key_id, secret_access_key, session_token } => {
                    Keys::from_secrets(&access_key_id, &secret_access_key, session_token.as_ref())
                        .map_err(Stop::from)?
                }
                Credentials::Bearer(_) => return Err(Stop::failed("a token cannot assume a role")),
            },
        };
        match &self.role {
            Some(role) => assume_role::fetch(replay, role, &keys, &self.region, now),
            None => Err(Stop::failed("there is no role to assume")),
        }
    }
}

/// A digest that distinguishes keys without revealing them.
fn fingerprint<'a>(secrets: impl IntoIterator<Item = Option<&'a Secret>>) -> String {
    let mut text = String::new();
    for secret in secrets {
        text.push_str(secret.map(Secret::expose).unwrap_or_default());
        text.push('\0');
    }
    let mut out = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        // Writing into a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The time left until `end` (`2026-08-01T12:00:00Z`); `None` when it has passed.
fn remaining(end: &str, now: SystemTime) -> Option<Duration> {
    let end: jiff::Timestamp = end.parse().ok()?;
    SystemTime::from(end).duration_since(now).ok()
}

fn aws_credentials(id: &str, secret: &str, token: Option<&str>) -> Credentials {
    Credentials::Aws {
        access_key_id: Secret::new(id),
        secret_access_key: Secret::new(secret),
        session_token: token.filter(|token| !token.is_empty()).map(Secret::new),
    }
}

#[cfg(test)]
mod tests;
