//! A role assumed at Amazon's token service (STS): one signed request, credentials for an hour.
//!
//! Source: <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html>.

use super::super::address::domain;
use super::super::signing::{Keys, Scope, sign};
use super::{granted, left, refused};
use crate::provider::Signing;
use crate::provider::grant::{Brought, Errand, Grant, Granted, Next};
use http::{HeaderMap, HeaderValue, Method, header};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long the credentials shall last: the most that every role and every chain of roles allows.
const LASTS: u32 = 3600;

/// Who asks for the role.
#[derive(Debug)]
pub enum Source {
    /// The account's own keys, and a name for them that is no secret.
    Keys { keys: Keys, key: String },
    /// Credentials that must be fetched themselves.
    Granted(Arc<dyn Grant>),
}

/// A role to assume.
#[derive(Debug)]
pub struct AssumeRole {
    pub role_arn: String,
    /// What the role's owner wants to hear.
    pub external_id: Option<String>,
    /// Whose token service is asked.
    pub region: String,
    pub source: Source,
}

impl Grant for AssumeRole {
    fn key(&self) -> String {
        let source = match &self.source {
            Source::Keys { key, .. } => key.clone(),
            Source::Granted(grant) => grant.key(),
        };
        let external_id = self.external_id.as_deref().unwrap_or_default();
        format!("aws-role|{}|{}|{external_id}|{source}", self.region, self.role_arn)
    }

    fn next(&self, answers: &[Brought], now: SystemTime) -> Result<Next, String> {
        let (keys, answers) = match &self.source {
            Source::Keys { keys, .. } => (keys.clone(), answers),
            Source::Granted(grant) => match ahead(grant.as_ref(), answers, now)? {
                Ahead::Ask(errand) => return Ok(Next::Ask(errand)),
                Ahead::Has(keys, rest) => (keys, rest),
            },
        };
        match answers.first() {
            None => self.ask(&keys, now).map(Next::Ask),
            Some(answer) => read(answer, now),
        }
    }
}

/// How far the credentials to ask with are.
enum Ahead<'a> {
    Ask(Errand),
    Has(Keys, &'a [Brought]),
}

fn ahead<'a>(grant: &dyn Grant, answers: &'a [Brought], now: SystemTime) -> Result<Ahead<'a>, String> {
    for taken in 0..=answers.len() {
        let (own, rest) = answers.split_at_checked(taken).unwrap_or((answers, &[]));
        match grant.next(own, now)? {
            Next::Ask(_) if !rest.is_empty() => {}
            Next::Ask(errand) => return Ok(Ahead::Ask(errand)),
            Next::Done(Granted::Aws { access_key_id, secret_access_key, session_token }, _) => {
                let keys = Keys::of(&access_key_id, &secret_access_key, session_token.as_ref());
                return Ok(Ahead::Has(keys, rest));
            }
            Next::Done(Granted::Bearer(_), _) => break,
        }
    }
    Err("The machine's credentials cannot assume a role.".to_owned())
}

impl AssumeRole {
    fn ask(&self, keys: &Keys, now: SystemTime) -> Result<Errand, String> {
        let url = format!("https://sts.{}.{}/", self.region, domain(&self.region));
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("Action", "AssumeRole")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", &self.role_arn)
            .append_pair("RoleSessionName", "turnpike")
            .append_pair("DurationSeconds", &LASTS.to_string());
        if let Some(external_id) = &self.external_id {
            form.append_pair("ExternalId", external_id);
        }
        let body = form.finish().into_bytes();
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, kind);
        let signing = Signing { method: &Method::POST, url: &url, body: &body, now };
        let scope = Scope { service: "sts", region: &self.region };
        sign(&signing, keys, &scope, &mut headers).map_err(|error| error.message)?;
        Ok(Errand { method: Method::POST, url, headers, body, is_metadata: false })
    }
}

fn read(answer: &Brought, now: SystemTime) -> Result<Next, String> {
    let text = String::from_utf8_lossy(&answer.body);
    let what = "The token service (STS)";
    if !(200..300).contains(&answer.status) {
        return Err(refused(what, answer, element(&text, "Message")));
    }
    let unreadable = || format!("{what} answered without credentials.");
    let credentials = element(&text, "Credentials").ok_or_else(unreadable)?;
    let part = |name| element(credentials, name).ok_or_else(unreadable);
    let lasts = element(credentials, "Expiration").and_then(|end| left(end, now));
    let lasts = lasts.unwrap_or(Duration::from_secs(LASTS.into()));
    let granted = granted(part("AccessKeyId")?, part("SecretAccessKey")?, Some(part("SessionToken")?));
    Ok(Next::Done(granted, lasts))
}

/// What stands in the first element of this name: STS answers in XML so plain that no more is needed (keys
/// and tokens are base64, which XML does not escape).
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (inside, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inside.trim())
}
