//! Assumes a role at Amazon's token service (STS): one request, credentials for an hour.
//!
//! Sources: <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html> and
//! `API_AssumeRoleWithWebIdentity`.

use super::super::address::domain;
use super::super::signing::{Keys, Scope, sign};
use super::exchange_replay::{ExchangeReplay, Replayed, Stop};
use super::{aws_credentials, remaining};
use crate::provider::Signing;
use crate::provider::token_exchange::{Credentials, TokenRequest, TokenResponse};
use http::{HeaderMap, HeaderValue, Method, header};
use std::time::{Duration, SystemTime};

/// The lifetime requested for the credentials, seconds: the most that every role and every chain of roles
/// allows.
const LIFETIME_SECONDS: u64 = 3600;
/// The session name, which the role's owner sees in the logs as the client.
const SESSION: &str = "turnpike";

/// A role to assume.
#[derive(Debug)]
pub struct Role {
    pub arn: String,
    /// The external id that the role's owner may require.
    pub external_id: Option<String>,
}

/// Assumes the role with access keys.
pub fn fetch(
    replay: &mut ExchangeReplay<'_>,
    role: &Role,
    keys: &Keys,
    region: &str,
    now: SystemTime,
) -> Replayed<(Credentials, Duration)> {
    let response = replay.exchange(|| {
        let mut fields = vec![("RoleArn", role.arn.as_str()), ("DurationSeconds", "3600")];
        fields.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
        let mut request = token_request("AssumeRole", &fields, region);
        let signing = Signing { method: &request.method, url: &request.url, body: &request.body, now };
        sign(&signing, keys, &Scope { service: "sts", region }, &mut request.headers)?;
        Ok(request)
    })?;
    read(response, now)
}

/// Assumes a role with the workload's own web identity token (EKS). The request is not signed: the token is
/// the proof.
pub(crate) fn fetch_by_token(
    replay: &mut ExchangeReplay<'_>,
    arn: &str,
    token: &str,
    region: &str,
    now: SystemTime,
) -> Replayed<(Credentials, Duration)> {
    let fields = [("RoleArn", arn), ("WebIdentityToken", token), ("DurationSeconds", "3600")];
    let response = replay.exchange(|| Ok(token_request("AssumeRoleWithWebIdentity", &fields, region)))?;
    read(response, now)
}

fn token_request(action: &str, fields: &[(&str, &str)], region: &str) -> TokenRequest {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("Action", action).append_pair("Version", "2011-06-15");
    form.append_pair("RoleSessionName", SESSION).extend_pairs(fields);
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
    TokenRequest {
        method: Method::POST,
        url: format!("https://sts.{region}.{}/", domain(region)),
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]),
        body: form.finish().into_bytes(),
        is_metadata: false,
    }
}

fn read(response: &TokenResponse, now: SystemTime) -> Replayed<(Credentials, Duration)> {
    let text = String::from_utf8_lossy(&response.body);
    let what = "The token service (STS)";
    if !(200..300).contains(&response.status) {
        return Err(Stop::refused(what, response.status, element(&text, "Message")));
    }
    let unreadable = || Stop::failed(format!("{what} answered without credentials."));
    let xml = element(&text, "Credentials").ok_or_else(unreadable)?;
    let part = |name| element(xml, name).ok_or_else(unreadable);
    let lifetime = element(xml, "Expiration").and_then(|end| remaining(end, now));
    let credentials =
        aws_credentials(part("AccessKeyId")?, part("SecretAccessKey")?, Some(part("SessionToken")?));
    Ok((credentials, lifetime.unwrap_or(Duration::from_secs(LIFETIME_SECONDS))))
}

/// The content of the first XML element of this name. STS responses are simple enough for a plain text
/// search: keys and tokens are base64, which XML does not escape.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (inside, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inside.trim())
}
