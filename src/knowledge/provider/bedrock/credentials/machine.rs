//! The credentials of the machine the gateway runs on. Sources are tried in the order of Amazon's own
//! clients: environment variables, the workload's web identity token (EKS), the container's credentials
//! server (ECS, EKS), the instance metadata server (EC2, IMDSv2).
//!
//! Sources: <https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html>,
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>,
//! <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html>.

use super::assume_role::fetch_by_token;
use super::exchange_replay::{ExchangeReplay, Replayed, Stop};
use super::{aws_credentials, remaining};
use crate::provider::key::secret_value;
use crate::provider::token_exchange::{Credentials, TokenResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// The instance metadata server.
const SERVER: &str = "http://169.254.169.254";
const ROLE: &str = "/latest/meta-data/iam/security-credentials/";
/// How long credentials are used when their source gives no expiry; then they are fetched again.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(900);

pub fn fetch(
    replay: &mut ExchangeReplay<'_>,
    region: &str,
    now: SystemTime,
) -> Replayed<(Credentials, Duration)> {
    if let Some(id) = replay.env("AWS_ACCESS_KEY_ID")?
        && let Some(secret) = replay.env("AWS_SECRET_ACCESS_KEY")?
    {
        let token = replay.env("AWS_SESSION_TOKEN")?;
        return Ok((aws_credentials(&id, &secret, token.as_deref()), DEFAULT_LIFETIME));
    }
    if let Some(file) = replay.env("AWS_WEB_IDENTITY_TOKEN_FILE")?
        && let Some(role) = replay.env("AWS_ROLE_ARN")?
    {
        let token = replay.local(format!("file:{file}"))?;
        let token =
            token.ok_or_else(|| Stop::failed("AWS_WEB_IDENTITY_TOKEN_FILE names no readable file."))?;
        return fetch_by_token(replay, &role, &token, region, now);
    }
    match container_url(replay)? {
        Some(url) => container(replay, url, now),
        None => instance(replay, now),
    }
}

fn container_url(replay: &mut ExchangeReplay<'_>) -> Replayed<Option<String>> {
    if let Some(path) = replay.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")? {
        let message = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with a slash.";
        let good = path.starts_with('/');
        return if good {
            Ok(Some(format!("http://169.254.170.2{path}")))
        } else {
            Err(Stop::failed(message))
        };
    }
    let Some(url) = replay.env("AWS_CONTAINER_CREDENTIALS_FULL_URI")? else { return Ok(None) };
    if is_local_or_tls(&url) {
        return Ok(Some(url));
    }
    let message = "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or http on this machine.";
    Err(Stop::failed(message))
}

/// Amazon's rule: plain HTTP only to this machine and to the metadata addresses of containers.
fn is_local_or_tls(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let allowed = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    let is_allowed = |it: IpAddr| allowed.iter().any(|ip| ip.parse() == Ok(it));
    match url.scheme() {
        "https" => true,
        "http" => address.is_some_and(|it| it.is_loopback() || is_allowed(it)),
        _ => false,
    }
}

fn container(
    replay: &mut ExchangeReplay<'_>,
    url: String,
    now: SystemTime,
) -> Replayed<(Credentials, Duration)> {
    let token = match replay.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")? {
        Some(file) => replay.local(format!("file:{file}"))?,
        None => replay.env("AWS_CONTAINER_AUTHORIZATION_TOKEN")?,
    };
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert(header::AUTHORIZATION, secret_value("token", &token)?);
    }
    let response = replay.metadata(Method::GET, url, headers)?;
    read("The container's credentials server", response, now)
}

fn instance(replay: &mut ExchangeReplay<'_>, now: SystemTime) -> Replayed<(Credentials, Duration)> {
    let what = "The instance's metadata server";
    let name = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
    let ttl_header = HeaderMap::from_iter([(name, HeaderValue::from_static("300"))]);
    let token = replay.metadata(Method::PUT, format!("{SERVER}/latest/api/token"), ttl_header)?;
    let token = text(what, token)?;
    let token_header = || {
        let name = HeaderName::from_static("x-aws-ec2-metadata-token");
        Ok::<_, Stop>(HeaderMap::from_iter([(name, secret_value("token", &token)?)]))
    };
    let role = replay.metadata(Method::GET, format!("{SERVER}{ROLE}"), token_header()?)?;
    // The list has one role name per line; an instance has one role.
    let role = text(what, role)?;
    let role = role.lines().next().unwrap_or_default();
    let allowed = |char: char| char.is_ascii_alphanumeric() || "+=,.@_-".contains(char);
    if role.is_empty() || !role.chars().all(allowed) {
        return Err(Stop::failed("This instance has no role."));
    }
    let response = replay.metadata(Method::GET, format!("{SERVER}{ROLE}{role}"), token_header()?)?;
    read(what, response, now)
}

fn text(what: &str, response: &TokenResponse) -> Replayed<String> {
    match response.status {
        200 => Ok(String::from_utf8_lossy(&response.body).trim().to_owned()),
        status => Err(Stop::refused(what, status, Some("is this an instance with a role?"))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CredentialsDocument {
    code: Option<String>,
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

fn read(what: &str, response: &TokenResponse, now: SystemTime) -> Replayed<(Credentials, Duration)> {
    let document = serde_json::from_slice::<CredentialsDocument>(&response.body).ok();
    let detail =
        document.as_ref().and_then(|document| document.message.as_deref().or(document.code.as_deref()));
    let keys = document
        .as_ref()
        .and_then(|document| Some((document.access_key_id.as_ref()?, document.secret_access_key.as_ref()?)));
    let (Some(document), Some((id, secret)), 200) = (document.as_ref(), keys, response.status) else {
        return Err(Stop::refused(what, response.status, detail.or(Some("no credentials in it"))));
    };
    let lifetime =
        document.expiration.as_deref().and_then(|end| remaining(end, now)).unwrap_or(DEFAULT_LIFETIME);
    Ok((aws_credentials(id, secret, document.token.as_deref()), lifetime))
}
