//! Token exchanges for Vertex AI: a signed assertion (RFC 7523) for a service account, the metadata server
//! for the machine. Described here; `state` sends the requests and caches the tokens.

use super::ID;
use crate::provider::token_exchange::{Credentials, Step, TokenExchange, TokenRequest, TokenResponse};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use words::config::account::Account;
use words::config::secret::Secret;
use words::error::Error;

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The longest lifetime Google allows.
const LIFETIME_SECONDS: u64 = 3600;
const METADATA_URL: &str =
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";

/// A service account: <https://developers.google.com/identity/protocols/oauth2/service-account>.
pub(super) struct ServiceAccount {
    key: String,
    email: String,
    key_id: Option<String>,
    token_url: String,
    private_key: Secret,
}

/// A service account's JSON key file, as issued by Google.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: Option<String>,
    client_email: Option<String>,
    private_key: Option<Box<str>>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

#[derive(Serialize)]
struct JwtHeader<'a> {
    alg: &'static str,
    typ: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'a str>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'static str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

impl ServiceAccount {
    /// Reads the account's JSON.
    ///
    /// # Errors
    /// 400 when it is not the key of a service account.
    pub(super) fn from_account(account: &Account) -> Result<Self, Error> {
        let param = "cloud_b_service_account_json";
        let wrong = |what: &str| {
            let message = format!("{param} {what}. Give the JSON key file of a service account.");
            Error::invalid_request(param, message).with_provider(ID)
        };
        let json = account.cloud_b.service_account_json.as_ref().ok_or_else(|| wrong("is missing"))?;
        let key_file: KeyFile =
            serde_json::from_str(json.expose()).map_err(|_| wrong("is no service account's JSON"))?;
        if key_file.kind.as_deref().is_some_and(|kind| kind != "service_account") {
            return Err(wrong("is of another type than service_account"));
        }
        let email = key_file.client_email.ok_or_else(|| wrong("has no client_email"))?;
        let private_key = key_file.private_key.map(Secret::new).ok_or_else(|| wrong("has no private_key"))?;
        key_pair(&private_key).map_err(|_| wrong("has a private_key that is no RSA key in PEM"))?;
        let token_url =
            key_file.token_uri.filter(|url| is_googles_url(url)).unwrap_or_else(|| TOKEN_URL.to_owned());
        let digest = ring::digest::digest(&ring::digest::SHA256, json.expose().as_bytes());
        let key = format!("vertex-ai {}", URL_SAFE_NO_PAD.encode(digest));
        Ok(Self { key, email, key_id: key_file.private_key_id, token_url, private_key })
    }

    fn assertion(&self, now: SystemTime) -> Result<String, String> {
        let now = now.duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970")?.as_secs();
        let header = JwtHeader { alg: "RS256", typ: "JWT", kid: self.key_id.as_deref() };
        let claims = Claims {
            iss: &self.email,
            scope: SCOPE,
            aud: &self.token_url,
            iat: now,
            exp: now.saturating_add(LIFETIME_SECONDS),
        };
        let mut text = format!("{}.{}", encoded(&header)?, encoded(&claims)?);
        let pair = key_pair(&self.private_key)?;
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| "the service account's key cannot sign")?;
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut text);
        Ok(text)
    }
}

fn encoded<T: Serialize>(value: &T) -> Result<String, String> {
    let json = serde_json::to_vec(value).map_err(|_| "the assertion cannot be written")?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

fn key_pair(pem: &Secret) -> Result<RsaKeyPair, String> {
    // Keys from environment variables often have their line ends written as `\n`.
    let pem = pem.expose().replace("\\n", "\n");
    let pem = pem.as_bytes();
    let pair = match PrivatePkcs8KeyDer::from_pem_slice(pem) {
        Ok(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        Err(_) => match PrivatePkcs1KeyDer::from_pem_slice(pem) {
            Ok(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            Err(_) => return Err("the service account's private_key is no PEM".to_owned()),
        },
    };
    pair.map_err(|_| "the service account's private_key is no RSA key".to_owned())
}

/// Whether a token URL is Google's. Clients can supply this JSON: any other URL would be requested on their
/// behalf from inside our network and would receive an assertion.
fn is_googles_url(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else { return false };
    let is_googles_host =
        url.host_str().is_some_and(|host| host == "accounts.google.com" || host.ends_with(".googleapis.com"));
    url.scheme() == "https"
        && is_googles_host
        && url.port().is_none()
        && url.username().is_empty()
        && url.password().is_none()
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

impl TokenExchange for ServiceAccount {
    fn key(&self) -> String {
        self.key.clone()
    }

    fn description(&self) -> &'static str {
        "the sign-in of the service account at Google"
    }

    fn next_step(&self, responses: &[TokenResponse], now: SystemTime) -> Result<Step, String> {
        if let Some(response) = responses.first() {
            return token(response);
        }
        let grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let grant_type = utf8_percent_encode(grant_type, NON_ALPHANUMERIC);
        let body = format!("grant_type={grant_type}&assertion={}", self.assertion(now)?);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        Ok(Step::Request(TokenRequest {
            method: Method::POST,
            url: self.token_url.clone(),
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, form)]),
            body: body.into_bytes(),
            is_metadata: false,
        }))
    }
}

/// The machine's own service account:
/// <https://docs.cloud.google.com/compute/docs/access/authenticate-workloads>.
#[derive(Debug)]
pub(super) struct Machine;

impl TokenExchange for Machine {
    fn key(&self) -> String {
        "vertex-ai machine".to_owned()
    }

    fn description(&self) -> &'static str {
        "the sign-in of this machine at Google's metadata server"
    }

    fn next_step(&self, responses: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        if let Some(response) = responses.first() {
            return token(response);
        }
        let flavor = (HeaderName::from_static("metadata-flavor"), HeaderValue::from_static("Google"));
        Ok(Step::Request(TokenRequest {
            method: Method::GET,
            url: METADATA_URL.to_owned(),
            headers: HeaderMap::from_iter([flavor]),
            body: Vec::new(),
            is_metadata: true,
        }))
    }
}

/// Reads the token from the response of either exchange.
fn token(response: &TokenResponse) -> Result<Step, String> {
    #[derive(Deserialize)]
    struct TokenDocument {
        access_token: Option<Box<str>>,
        expires_in: Option<u64>,
        error: Option<String>,
        error_description: Option<String>,
    }
    let document = serde_json::from_slice::<TokenDocument>(&response.body).ok();
    if let (200, Some(TokenDocument { access_token: Some(token), expires_in, .. })) =
        (response.status, &document)
    {
        let lifetime = Duration::from_secs(expires_in.unwrap_or(LIFETIME_SECONDS));
        return Ok(Step::Done(Credentials::Bearer(Secret::new(token.clone())), lifetime));
    }
    let reason = document.and_then(|document| document.error_description.or(document.error));
    let reason: String = reason.unwrap_or_else(|| "and said no more".to_owned()).chars().take(300).collect();
    Err(format!("Google answered with status {}: {reason}", response.status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use std::process::Command;

    /// A key generated for the test: none is stored in the repository.
    fn pem() -> String {
        let made = Command::new("openssl").args(["genrsa", "2048"]).output().unwrap();
        String::from_utf8(made.stdout).unwrap()
    }

    fn account(json: &serde_json::Value) -> Account {
        let mut account = Account::default();
        account.cloud_b.service_account_json = Some(Secret::new(json.to_string()));
        account
    }

    #[test]
    fn a_service_account_signs_for_its_token() {
        let pem = pem();
        let json = serde_json::json!({"type": "service_account", "client_email": "a@p.iam", "private_key": pem,
            "private_key_id": "k1", "token_uri": "https://evil.example/token"});
        let service_account = ServiceAccount::from_account(&account(&json)).unwrap();
        assert!(!format!("{service_account:?} {}", service_account.key()).contains("PRIVATE"));
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let Step::Request(request) = service_account.next_step(&[], now).unwrap() else { panic!() };
        // A token URL that is not Google's is not used.
        assert_eq!((request.url.as_str(), request.is_metadata), (TOKEN_URL, false));
        let body = String::from_utf8(request.body).unwrap();
        let start = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant%2Dtype%3Ajwt%2Dbearer&assertion=";
        let assertion = body.strip_prefix(start).unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let decoded = |text: &str| String::from_utf8(URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        assert_eq!(decoded(header), r#"{"alg":"RS256","typ":"JWT","kid":"k1"}"#);
        assert_eq!(
            decoded(claims),
            r#"{"iss":"a@p.iam","scope":"https://www.googleapis.com/auth/cloud-platform","aud":"https://oauth2.googleapis.com/token","iat":1700000000,"exp":1700003600}"#
        );
        let pair = key_pair(&Secret::new(pem)).unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();

        let response = |status, body: &str| TokenResponse { status, body: body.into() };
        let good = response(200, r#"{"access_token":"t","expires_in":3599,"token_type":"Bearer"}"#);
        let Step::Done(credentials, lifetime) = service_account.next_step(&[good], now).unwrap() else {
            panic!()
        };
        assert_eq!(
            (credentials, lifetime),
            (Credentials::Bearer(Secret::new("t")), Duration::from_secs(3599))
        );
        let bad = response(400, r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#);
        assert_eq!(
            service_account.next_step(&[bad], now).unwrap_err(),
            "Google answered with status 400: Invalid JWT Signature."
        );
        assert!(service_account.next_step(&[response(200, "<html>")], now).is_err());
    }

    #[test]
    fn what_is_no_service_account_is_refused_without_quoting_it() {
        let good = |key: &str| serde_json::json!({"client_email": "a", "private_key": key});
        for json in [
            serde_json::json!({"client_email": "a"}),
            good("canary"),
            good("-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----"),
            serde_json::json!({"type": "external_account", "client_email": "canary"}),
            serde_json::json!({"client_email": 3}),
        ] {
            let error = ServiceAccount::from_account(&account(&json)).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("cloud_b_service_account_json"));
            assert!(error.status() == 400 && !format!("{error:?}").contains("canary"), "{error:?}");
        }
        assert!(ServiceAccount::from_account(&Account::default()).is_err());
    }

    #[test]
    fn only_googles_token_urls_are_used() {
        for good in [
            TOKEN_URL,
            "https://accounts.google.com/o/oauth2/token",
            "https://www.googleapis.com/oauth2/v4/token",
        ] {
            assert!(is_googles_url(good), "{good}");
        }
        for bad in [
            "http://oauth2.googleapis.com/token",
            "https://oauth2.googleapis.com.evil.example/token",
            "https://googleapis.com@evil.example/",
            "https://evilgoogleapis.com/token",
            "https://u:p@oauth2.googleapis.com/token",
            "https://oauth2.googleapis.com:8443/token",
            "https://169.254.169.254/",
            "file:///etc/passwd",
            "",
        ] {
            assert!(!is_googles_url(bad), "{bad}");
        }
    }

    #[test]
    fn the_metadata_server_is_queried_with_googles_header() {
        let Step::Request(request) = Machine.next_step(&[], UNIX_EPOCH).unwrap() else { panic!() };
        assert!(request.is_metadata && request.url.starts_with("http://metadata.google.internal/"));
        assert_eq!(request.headers["metadata-flavor"], "Google");
    }
}
