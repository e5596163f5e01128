//! The credentials of the machine the gateway runs on: an instance's role by its metadata server (IMDSv2), a
//! container's by the address its environment names.
//!
//! Sources: <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html>,
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>.

use super::{granted, left, refused};
use crate::config::secret::Secret;
use crate::provider::grant::{Brought, Errand, Grant, Next};
use crate::provider::key::secret_value;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// The instance metadata server.
const SERVER: &str = "http://169.254.169.254";
const ROLE: &str = "/latest/meta-data/iam/security-credentials/";
/// Good for until it is asked again where no end is told.
const LASTS: Duration = Duration::from_secs(900);

/// The role of the instance.
#[derive(Debug)]
pub struct Instance;

impl Grant for Instance {
    fn key(&self) -> String {
        "aws-instance".to_owned()
    }

    fn next(&self, answers: &[Brought], now: SystemTime) -> Result<Next, String> {
        let what = "The instance's metadata server";
        for answer in answers {
            if answer.status != 200 {
                let hint = "is this an instance with a role?";
                return Err(refused(what, answer, Some(hint)));
            }
        }
        let told = |answer: &Brought| String::from_utf8_lossy(&answer.body).trim().to_owned();
        match answers {
            [] => {
                let mut headers = HeaderMap::new();
                let name = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
                headers.insert(name, HeaderValue::from_static("300"));
                Ok(Next::Ask(errand(Method::PUT, format!("{SERVER}/latest/api/token"), headers)))
            }
            [token] => Ok(Next::Ask(errand(Method::GET, format!("{SERVER}{ROLE}"), shown(&told(token))?))),
            [token, role] => {
                // One a line; there is one.
                let role = told(role);
                let role = role.lines().next().unwrap_or_default();
                let known = |char: char| char.is_ascii_alphanumeric() || "+=,.@_-".contains(char);
                if role.is_empty() || !role.chars().all(known) {
                    return Err("This instance has no role.".to_owned());
                }
                let url = format!("{SERVER}{ROLE}{role}");
                Ok(Next::Ask(errand(Method::GET, url, shown(&told(token))?)))
            }
            [_, _, credentials, ..] => read(what, credentials, now),
        }
    }
}

fn shown(token: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let value = secret_value("token", token).map_err(|error| error.message)?;
    headers.insert(HeaderName::from_static("x-aws-ec2-metadata-token"), value);
    Ok(headers)
}

fn errand(method: Method, url: String, headers: HeaderMap) -> Errand {
    Errand { method, url, headers, body: Vec::new(), is_metadata: true }
}

/// The role of a container (ECS, EKS pod identity).
#[derive(Debug)]
pub struct Container {
    url: String,
    authorization: Option<Secret>,
}

impl Container {
    /// By what the container's environment says: `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI` or
    /// `AWS_CONTAINER_CREDENTIALS_FULL_URI`, and the token (its text, from
    /// `AWS_CONTAINER_AUTHORIZATION_TOKEN` or the file that `.._TOKEN_FILE` names).
    ///
    /// # Errors
    /// What is wrong with the address, for the operator.
    pub fn new(
        relative: Option<&str>,
        full: Option<&str>,
        authorization: Option<Secret>,
    ) -> Result<Self, String> {
        let url = match (relative.filter(|uri| !uri.is_empty()), full.filter(|uri| !uri.is_empty())) {
            (Some(path), _) if path.starts_with('/') => format!("http://169.254.170.2{path}"),
            (Some(_), _) => {
                return Err("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with a slash.".to_owned());
            }
            (None, Some(url)) if is_local_or_tls(url) => url.to_owned(),
            (None, Some(_)) => {
                let message = "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or http on this machine.";
                return Err(message.to_owned());
            }
            (None, None) => {
                return Err("No AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or .._FULL_URI is set.".to_owned());
            }
        };
        Ok(Self { url, authorization })
    }
}

/// Amazon's rule: in the clear only to this machine and to the two metadata addresses of containers.
fn is_local_or_tls(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let local = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    match url.scheme() {
        "https" => true,
        "http" => address.is_some_and(|it| it.is_loopback() || local.iter().any(|known| known.parse() == Ok(it))),
        _ => false,
    }
}

impl Grant for Container {
    fn key(&self) -> String {
        format!("aws-container|{}", self.url)
    }

    fn next(&self, answers: &[Brought], now: SystemTime) -> Result<Next, String> {
        if let Some(answer) = answers.first() {
            return read("The container's credentials server", answer, now);
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.authorization {
            let value = secret_value("token", token.expose().trim()).map_err(|error| error.message)?;
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(Next::Ask(errand(Method::GET, self.url.clone(), headers)))
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

fn read(what: &str, answer: &Brought, now: SystemTime) -> Result<Next, String> {
    let told = serde_json::from_slice::<Credentials>(&answer.body).ok();
    let said = told.as_ref().and_then(|told| told.message.as_deref().or(told.code.as_deref()));
    if answer.status != 200 {
        return Err(refused(what, answer, said));
    }
    let keys = told.as_ref().and_then(|told| Some((told.access_key_id.as_ref()?, told.secret_access_key.as_ref()?)));
    let (Some(told), Some((id, secret))) = (told.as_ref(), keys) else {
        return Err(refused(what, answer, said.or(Some("no credentials in it"))));
    };
    let lasts = told.expiration.as_deref().and_then(|end| left(end, now)).unwrap_or(LASTS);
    Ok(Next::Done(granted(id, secret, told.token.as_deref()), lasts))
}
