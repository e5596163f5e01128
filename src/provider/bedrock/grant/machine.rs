//! The credentials of the machine the gateway runs on, wherever they are kept: in its environment, behind a
//! workload's token (EKS), at a container's credentials server (ECS, EKS), at an instance's metadata server
//! (EC2, IMDSv2). In the order Amazon's own clients look.
//!
//! Sources: <https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html>,
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>,
//! <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html>.

use super::assume_role::fetch_by_token;
use super::trail::{Had, Stop, Trail};
use super::{granted, left};
use crate::provider::grant::{Brought, Granted};
use crate::provider::key::secret_value;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// The instance metadata server.
const SERVER: &str = "http://169.254.169.254";
const ROLE: &str = "/latest/meta-data/iam/security-credentials/";
/// After this long it is looked again, where no end is told.
const LASTS: Duration = Duration::from_secs(900);

pub fn fetch(trail: &mut Trail<'_>, region: &str, now: SystemTime) -> Had<(Granted, Duration)> {
    if let Some(id) = trail.env("AWS_ACCESS_KEY_ID")?
        && let Some(secret) = trail.env("AWS_SECRET_ACCESS_KEY")?
    {
        let token = trail.env("AWS_SESSION_TOKEN")?;
        return Ok((granted(&id, &secret, token.as_deref()), LASTS));
    }
    if let Some(file) = trail.env("AWS_WEB_IDENTITY_TOKEN_FILE")?
        && let Some(role) = trail.env("AWS_ROLE_ARN")?
    {
        let token = trail.local(format!("file:{file}"))?;
        let token =
            token.ok_or_else(|| Stop::failed("AWS_WEB_IDENTITY_TOKEN_FILE names no readable file."))?;
        return fetch_by_token(trail, (&role, &token), region, now);
    }
    match container_url(trail)? {
        Some(url) => container(trail, url, now),
        None => instance(trail, now),
    }
}

fn container_url(trail: &mut Trail<'_>) -> Had<Option<String>> {
    if let Some(path) = trail.env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")? {
        let message = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with a slash.";
        let good = path.starts_with('/');
        return if good {
            Ok(Some(format!("http://169.254.170.2{path}")))
        } else {
            Err(Stop::failed(message))
        };
    }
    let Some(url) = trail.env("AWS_CONTAINER_CREDENTIALS_FULL_URI")? else { return Ok(None) };
    if is_local_or_tls(&url) {
        return Ok(Some(url));
    }
    let message = "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or http on this machine.";
    Err(Stop::failed(message))
}

/// Amazon's rule: in the clear only to this machine and to the metadata addresses of containers.
fn is_local_or_tls(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let known = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    let is_known = |it: IpAddr| known.iter().any(|known| known.parse() == Ok(it));
    match url.scheme() {
        "https" => true,
        "http" => address.is_some_and(|it| it.is_loopback() || is_known(it)),
        _ => false,
    }
}

fn container(trail: &mut Trail<'_>, url: String, now: SystemTime) -> Had<(Granted, Duration)> {
    let token = match trail.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")? {
        Some(file) => trail.local(format!("file:{file}"))?,
        None => trail.env("AWS_CONTAINER_AUTHORIZATION_TOKEN")?,
    };
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert(header::AUTHORIZATION, secret_value("token", &token)?);
    }
    let answer = trail.metadata(Method::GET, url, headers)?;
    read("The container's credentials server", answer, now)
}

fn instance(trail: &mut Trail<'_>, now: SystemTime) -> Had<(Granted, Duration)> {
    let what = "The instance's metadata server";
    let name = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
    let lasts = HeaderMap::from_iter([(name, HeaderValue::from_static("300"))]);
    let token = trail.metadata(Method::PUT, format!("{SERVER}/latest/api/token"), lasts)?;
    let token = text(what, token)?;
    let shown = || {
        let name = HeaderName::from_static("x-aws-ec2-metadata-token");
        Ok::<_, Stop>(HeaderMap::from_iter([(name, secret_value("token", &token)?)]))
    };
    let role = trail.metadata(Method::GET, format!("{SERVER}{ROLE}"), shown()?)?;
    // One a line; there is one.
    let role = text(what, role)?;
    let role = role.lines().next().unwrap_or_default();
    let known = |char: char| char.is_ascii_alphanumeric() || "+=,.@_-".contains(char);
    if role.is_empty() || !role.chars().all(known) {
        return Err(Stop::failed("This instance has no role."));
    }
    let answer = trail.metadata(Method::GET, format!("{SERVER}{ROLE}{role}"), shown()?)?;
    read(what, answer, now)
}

fn text(what: &str, answer: &Brought) -> Had<String> {
    match answer.status {
        200 => Ok(String::from_utf8_lossy(&answer.body).trim().to_owned()),
        status => Err(Stop::refused(what, status, Some("is this an instance with a role?"))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Credentials {
    code: Option<String>,
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

fn read(what: &str, answer: &Brought, now: SystemTime) -> Had<(Granted, Duration)> {
    let told = serde_json::from_slice::<Credentials>(&answer.body).ok();
    let said = told.as_ref().and_then(|told| told.message.as_deref().or(told.code.as_deref()));
    let keys =
        told.as_ref().and_then(|told| Some((told.access_key_id.as_ref()?, told.secret_access_key.as_ref()?)));
    let (Some(told), Some((id, secret)), 200) = (told.as_ref(), keys, answer.status) else {
        return Err(Stop::refused(what, answer.status, said.or(Some("no credentials in it"))));
    };
    let lasts = told.expiration.as_deref().and_then(|end| left(end, now)).unwrap_or(LASTS);
    Ok((granted(id, secret, told.token.as_deref()), lasts))
}
