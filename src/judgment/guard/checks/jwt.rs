//! `default.jwt`: whether a header of the request holds a token that is good.
//!
//! Signatures are verified as those of the gateway's own tokens are (`auth::signed_token`). A token that is not good fails; what
//! could not be found out (no key set, no introspection) is an error.

use super::BEFORE;
use super::jwt_claims::{ClaimRules, extracted};
use super::outgoing::{TIMEOUT, json_headers, reason, url};
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::finding::Finding;
use crate::guard::outside::{Outside, OutsideCall};
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use memory::auth::jwks::KeySet;
use memory::auth::signed_token::{SignedToken, TokenRefusal};
use moka::sync::Cache;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub const JWT: CheckKind = CheckKind {
    id: "default.jwt",
    aliases: &[],
    phases: BEFORE,
    about: "Passes where a header of the request holds a token, with or without `Bearer`, that is signed with the key of the set \
            that it names, is not expired, and has the claims that it must have. Needs `jwks`, `jwksUri` or `introspectEndpoint`. \
            Without the header it fails.",
    source: "",
    parameters: &[
        optional(
            "jwksUri",
            Type::Text,
            "",
            "Where the key set is fetched, under the rules for custom hosts.",
        ),
        optional("jwks", Type::Object, "", "The key set itself."),
        optional("headerKey", Type::Text, r#""Authorization""#, "The header."),
        optional("cacheMaxAge", Type::Number, "86400", "How long a fetched key set is used, seconds."),
        optional("clockTolerance", Type::Number, "5", "How far clocks may differ, seconds."),
        optional(
            "maxTokenAge",
            Type::Text,
            r#""1d""#,
            "How old a token with a time of issue may be: `30s`, `5m`, `12h`, `1d`.",
        ),
        optional(
            "algorithms",
            Type::SomeOf(ALGORITHMS),
            r#"["RS256"]"#,
            "The algorithms of signatures that count.",
        ),
        optional(
            "introspectEndpoint",
            Type::Text,
            "",
            "A server that is given the token and says whether it is active (RFC 7662), instead of a key set.",
        ),
        optional(
            "introspectContentType",
            Type::OneOf(&[FORM, "application/json"]),
            r#""application/x-www-form-urlencoded""#,
            "How it is sent there.",
        ),
        optional(
            "introspectCacheMaxAge",
            Type::Number,
            "0",
            "How long a good token is not sent there again, seconds.",
        ),
        optional("requiredClaims", Type::List, "[]", "Claims that must be there."),
        optional(
            "claimValues",
            Type::Object,
            "{}",
            "`{claim: {values: [], matchType}}` with the types `exact` (the default), `contains`, `containsAll` and `regex`.",
        ),
        optional(
            "headerPayloadMatch",
            Type::List,
            "[]",
            "Members that the token's header and claims must have with the same value.",
        ),
        optional(
            "extractClaims",
            Type::List,
            "[]",
            "Claims that the result has in `data.extractedClaims`. No headers are made of them.",
        ),
        optional("claimPrefix", Type::Text, r#""x-jwt-""#, "What their names begin with there."),
    ],
    prepare,
};

const ALGORITHMS: &[&str] =
    &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
const FORM: &str = "application/x-www-form-urlencoded";
/// The least time between two attempts to fetch a key set, in seconds: tokens that name an unknown key must not cause a fetch each.
const MIN_FETCH_INTERVAL: i64 = 30;
const MAX_KEY_SET: usize = 256 << 10;
const MAX_INTROSPECTION: usize = 256 << 10;
/// How many good tokens are remembered.
const MAX_REMEMBERED: u64 = 10_000;

struct JwtCheck {
    header: HeaderName,
    source: Source,
    algorithms: Vec<String>,
    tolerance: i64,
    max_age: i64,
    rules: ClaimRules,
    extract: Vec<String>,
    prefix: String,
}

/// Who says whether a token is good.
enum Source {
    Keys(Arc<KeySet>),
    Fetched { url: String, max_age: i64, keys: Mutex<FetchedKeys> },
    Introspection { url: String, is_form: bool, max_age: i64, active: Cache<[u8; 32], Arc<Active>> },
}

/// The last key set that was fetched, when, and when it was tried last; seconds.
#[derive(Default)]
struct FetchedKeys {
    keys: Arc<KeySet>,
    fetched_at: i64,
    tried_at: i64,
}

/// A token that was active.
struct Active {
    claims: Map<String, Value>,
    until: i64,
}

/// Why a token is not good, or why that could not be found out.
enum Failure {
    Bad(String),
    Unclear(String),
}

impl fmt::Debug for JwtCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtCheck")
            .field("header", &self.header)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let explained = |unusable: Unusable| {
        let data = json!({"verdict": false, "explanation": format!("JWT validation error: {}", unusable.error.message)});
        Unusable { data: Some(data), ..unusable }
    };
    read(parameters).map(|check| Prepared::Remote(Box::new(check))).map_err(explained)
}

fn read(parameters: &Parameters<'_>) -> Result<JwtCheck, Unusable> {
    let seconds = |name: &'static str, default: i64| match parameters.number(name) {
        None => Ok(default),
        Some(number) if (0.0..=1e9).contains(&number) => Ok(number as i64),
        Some(_) => Err(Unusable::new(name, format!("{name} must be from 0 to 1000000000 seconds"))),
    };
    let texts = |name| -> Vec<String> {
        parameters.texts(name).unwrap_or_default().into_iter().map(str::to_owned).collect()
    };
    let header = parameters.text("headerKey").unwrap_or("authorization");
    let header = HeaderName::from_bytes(header.as_bytes())
        .map_err(|_| Unusable::new("headerKey", "headerKey is no name of a header"))?;
    let max_age = parameters.text("maxTokenAge").unwrap_or("1d");
    let max_age = age(max_age)
        .ok_or_else(|| Unusable::new("maxTokenAge", "maxTokenAge must be like 30s, 5m, 12h or 1d"))?;
    let algorithms =
        Some(texts("algorithms")).filter(|list| !list.is_empty()).unwrap_or_else(|| vec!["RS256".to_owned()]);
    Ok(JwtCheck {
        header,
        source: Source::read(
            parameters,
            seconds("cacheMaxAge", 86_400)?,
            seconds("introspectCacheMaxAge", 0)?,
        )?,
        algorithms,
        tolerance: seconds("clockTolerance", 5)?,
        max_age,
        rules: ClaimRules::read(parameters)?,
        extract: texts("extractClaims"),
        prefix: parameters.text("claimPrefix").unwrap_or("x-jwt-").to_owned(),
    })
}

impl Source {
    fn read(parameters: &Parameters<'_>, key_age: i64, active_age: i64) -> Result<Self, Unusable> {
        if parameters.get("introspectEndpoint").is_some() {
            let (url, _) = url(parameters, "introspectEndpoint", "introspection")?;
            let is_form = parameters.text("introspectContentType").is_none_or(|kind| kind == FORM);
            let lifetime = Duration::from_secs(active_age.unsigned_abs());
            let active = Cache::builder().max_capacity(MAX_REMEMBERED).time_to_live(lifetime).build();
            return Ok(Self::Introspection { url, is_form, max_age: active_age, active });
        }
        if let Some(keys) = parameters.get("jwks") {
            let keys = KeySet::parse(keys.to_string().as_bytes());
            let keys = keys.map_err(|why| Unusable::new("jwks", format!("jwks is of no use: {why}")))?;
            return Ok(Self::Keys(Arc::new(keys)));
        }
        if parameters.get("jwksUri").is_none() {
            let message = "Either jwks, jwksUri, or introspectEndpoint must be provided";
            return Err(Unusable::new("", message).refused());
        }
        let (url, _) = url(parameters, "jwksUri", "JWKS")?;
        Ok(Self::Fetched { url, max_age: key_age, keys: Mutex::default() })
    }
}

/// The seconds of `30s`, `5m`, `12h`, `1d` and the like.
fn age(text: &str) -> Option<i64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(end)?;
    let seconds = match unit.trim() {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(seconds)
}

/// A claim that is a time in seconds.
fn time(claims: &Map<String, Value>, name: &str) -> Option<i64> {
    claims.get(name)?.as_f64().map(|seconds| seconds as i64)
}

fn refusal(refusal: TokenRefusal) -> Failure {
    let why = match refusal {
        TokenRefusal::KidMissing | TokenRefusal::KidUnknown => "No matching key found for kid",
        TokenRefusal::Algorithm => "The token's algorithm is not one that counts",
        TokenRefusal::Signature => "The signature is not the key's",
        _ => "The header has no signed token",
    };
    Failure::Bad(why.to_owned())
}

impl JwtCheck {
    /// The claims of a token that is signed or active, and whose times are good.
    async fn claims(
        &self,
        token: &str,
        outside: &dyn Outside,
        now: i64,
    ) -> Result<Map<String, Value>, Failure> {
        let claims = match &self.source {
            Source::Introspection { .. } => self.introspect(token, outside, now).await?,
            Source::Keys(keys) => self.signed(token, keys).map_err(refusal)?,
            Source::Fetched { .. } => {
                let keys = self.keys(false, outside, now).await?;
                match self.signed(token, &keys) {
                    Err(TokenRefusal::KidUnknown) => {
                        let keys = self.keys(true, outside, now).await?;
                        self.signed(token, &keys).map_err(refusal)?
                    }
                    claims => claims.map_err(refusal)?,
                }
            }
        };
        let issued = time(&claims, "iat").filter(|_| !matches!(self.source, Source::Introspection { .. }));
        let problem = match (time(&claims, "exp"), time(&claims, "nbf"), issued) {
            (Some(end), _, _) if now >= end.saturating_add(self.tolerance) => "The token has expired",
            (_, Some(start), _) if now < start.saturating_sub(self.tolerance) => "The token is not valid yet",
            (_, _, Some(issued)) if issued > now.saturating_add(self.tolerance) => {
                "The token was issued in the future"
            }
            (_, _, Some(issued))
                if now.saturating_sub(issued) > self.max_age.saturating_add(self.tolerance) =>
            {
                "The token is older than maxTokenAge"
            }
            _ => return Ok(claims),
        };
        Err(Failure::Bad(problem.to_owned()))
    }

    fn signed(&self, token: &str, keys: &KeySet) -> Result<Map<String, Value>, TokenRefusal> {
        let token = SignedToken::read(token)?;
        if self.algorithms.contains(&token.algorithm()) {
            token.claims(keys)
        } else {
            Err(TokenRefusal::Algorithm)
        }
    }

    /// The key set. It is fetched if it is too old or lacks the token's key. Once it has been fetched, it is not tried again within
    /// [`MIN_FETCH_INTERVAL`] of the last attempt.
    async fn keys(&self, is_missing: bool, outside: &dyn Outside, now: i64) -> Result<Arc<KeySet>, Failure> {
        let Source::Fetched { url, max_age, keys } = &self.source else { return Ok(Arc::default()) };
        let last = {
            let mut last = keys.lock();
            let is_fresh = last.fetched_at > 0 && now - last.fetched_at < *max_age;
            let is_recent = last.fetched_at > 0 && now - last.tried_at < MIN_FETCH_INTERVAL;
            if is_recent || (is_fresh && !is_missing) {
                return Ok(Arc::clone(&last.keys));
            }
            last.tried_at = now;
            (last.fetched_at > 0).then(|| Arc::clone(&last.keys))
        };
        let call = OutsideCall {
            method: Method::GET,
            url,
            headers: json_headers(),
            body: Bytes::new(),
            max_bytes: MAX_KEY_SET,
            timeout: TIMEOUT,
        };
        let fetched = match outside.call(call).await {
            Ok(response) if response.status.is_success() => KeySet::parse(&response.body),
            Ok(response) => Err(format!("status {}", response.status.as_u16())),
            Err(error) => Err(reason(&error)),
        };
        match (fetched, last) {
            (Ok(new), _) => {
                let new = Arc::new(new);
                *keys.lock() = FetchedKeys { keys: Arc::clone(&new), fetched_at: now, tried_at: now };
                Ok(new)
            }
            // The last good ones stay in force.
            (Err(_), Some(last)) => Ok(last),
            (Err(why), None) => Err(Failure::Unclear(format!("The key set cannot be fetched: {why}"))),
        }
    }

    async fn introspect(
        &self,
        token: &str,
        outside: &dyn Outside,
        now: i64,
    ) -> Result<Map<String, Value>, Failure> {
        let Source::Introspection { url, is_form, max_age, active } = &self.source else {
            return Ok(Map::new());
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(found) = active.get(&hash).filter(|found| now < found.until) {
            return Ok(found.claims.clone());
        }
        let mut headers = json_headers();
        let body = if *is_form {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(FORM));
            url::form_urlencoded::Serializer::new(String::new()).append_pair("token", token).finish()
        } else {
            json!({"token": token}).to_string()
        };
        let body = Bytes::from(body);
        let max_bytes = MAX_INTROSPECTION;
        let call = OutsideCall { method: Method::POST, url, headers, body, max_bytes, timeout: TIMEOUT };
        let unclear = |why: String| Failure::Unclear(format!("The introspection failed: {why}"));
        let response = outside.call(call).await.map_err(|error| unclear(reason(&error)))?;
        if response.status.is_server_error() {
            return Err(unclear(format!("status {}", response.status.as_u16())));
        }
        if !response.status.is_success() {
            return Err(Failure::Bad(format!(
                "Endpoint validation failed with status {}",
                response.status.as_u16()
            )));
        }
        let Value::Object(claims) = response.json() else {
            return Err(unclear("its response is no JSON object".to_owned()));
        };
        let is_active = match claims.get("active") {
            Some(is_active) => is_active == &Value::Bool(true),
            None => {
                claims.get("valid") == Some(&Value::Bool(true))
                    || claims.get("sub").is_some_and(|sub| !sub.is_null())
            }
        };
        if !is_active {
            return Err(Failure::Bad("Token validation failed".to_owned()));
        }
        if *max_age > 0 {
            let end = time(&claims, "exp").map_or(i64::MAX, |end| end.saturating_add(self.tolerance));
            let until = end.min(now.saturating_add(*max_age));
            active.insert(hash, Arc::new(Active { claims: claims.clone(), until }));
        }
        Ok(claims)
    }

    async fn judge(&self, subject: &Subject, outside: &dyn Outside, now: i64) -> Finding {
        let bad = |why: &str| Finding::of(false, json!({"verdict": false, "explanation": why}));
        let Some(value) = subject.headers.get(&self.header) else {
            return bad("Missing authorization header");
        };
        let Ok(value) = value.to_str() else { return bad("JWT validation error: The header is no text") };
        let token = match value.split_once(char::is_whitespace) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => value.trim(),
        };
        let claims = match self.claims(token, outside, now).await {
            Ok(claims) => claims,
            Err(Failure::Bad(why)) => return bad(&format!("JWT validation error: {why}")),
            Err(Failure::Unclear(why)) => {
                let data = json!({"verdict": false, "explanation": format!("JWT validation error: {why}")});
                return Finding::failed("Error", why).with_data(data);
            }
        };
        let header = SignedToken::read(token).map(|token| token.header()).unwrap_or_default();
        let judgement = self.rules.judge(&header, &claims);
        let verdict = judgement.failures.is_empty();
        let explanation = if verdict {
            "JWT token validation succeeded".to_owned()
        } else {
            format!("JWT validation failed: {}", judgement.failures.join("; "))
        };
        let mut data =
            json!({"verdict": verdict, "explanation": explanation, "validations": judgement.validations});
        if let (true, false, Value::Object(members)) = (verdict, self.extract.is_empty(), &mut data) {
            let found = extracted(&claims, &self.extract, &self.prefix);
            members.insert("extractedClaims".to_owned(), found.into());
        }
        Finding::of(verdict, data)
    }
}

impl RemoteCheck for JwtCheck {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        Box::pin(self.judge(subject, outside, Timestamp::now().as_second()))
    }
}

#[cfg(test)]
mod tests;
