//! A sign-in of a person at an identity provider: an authorization code with PKCE.
//!
//! Sources: OpenID Connect Core 1.0, 3.1, and Discovery 1.0; RFC 7636 (PKCE), RFC 9207 (the issuer in the answer). Pure: it opens no socket
//! and reads no clock. Which ID token is good is `signed_in`'s; fetching is `state::identity_provider`'s.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use knowledge::provider::client_credentials::{basic, refusal};
use knowledge::provider::token_exchange::{TokenRequest, TokenResponse};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;
use words::settings::SignInSettings;

/// Below the issuer: where the provider says what it has.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// Where a provider has persons sign in, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderDocument {
    authorization_endpoint: Url,
    token_endpoint: String,
    /// The token endpoint takes a client's secret in the form, and not by HTTP Basic.
    secret_in_form: bool,
    /// Its answers to the browser name the issuer.
    names_issuer: bool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// A sign-in that has begun: what its answer must fit. Kept in the browser, sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInCode {
    pub state: String,
    pub nonce: String,
    verifier: String,
    /// Where the provider sends the browser back to.
    redirect_uri: String,
}

impl ProviderDocument {
    /// Asks the provider with this issuer for it.
    pub fn request(issuer: &str) -> TokenRequest {
        TokenRequest {
            method: Method::GET,
            url: format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/')),
            headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]),
            body: Vec::new(),
            is_metadata: false,
        }
    }

    /// # Errors
    /// It is none, or is that of another issuer.
    pub fn read(response: &TokenResponse, issuer: &str) -> Result<Self, String> {
        if response.status != 200 {
            return Err(format!("its {WELL_KNOWN} has status {}", response.status));
        }
        let document: Document = serde_json::from_slice(&response.body)
            .map_err(|why| format!("its {WELL_KNOWN} cannot be read: {why}"))?;
        if document.issuer != issuer {
            return Err(format!("its {WELL_KNOWN} is of another issuer than auth.jwt.issuer"));
        }
        let authorization_endpoint = Url::parse(&document.authorization_endpoint).ok();
        // The browser goes there with what this sign-in is known by.
        let is_local = |url: &Url| matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
        let is_safe = |url: &Url| url.scheme() == "https" || (url.scheme() == "http" && is_local(url));
        let is_web = |url: &Url| is_safe(url) && url.username().is_empty() && url.password().is_none();
        let authorization_endpoint = authorization_endpoint
            .filter(is_web)
            .ok_or_else(|| format!("its {WELL_KNOWN} has an authorization_endpoint that is no https URL"))?;
        let methods = &document.token_endpoint_auth_methods_supported;
        let has = |name: &str| methods.iter().any(|method| method == name);
        Ok(Self {
            authorization_endpoint,
            token_endpoint: document.token_endpoint,
            // Without a list it is HTTP Basic (Discovery 1.0, 3).
            secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
            names_issuer: document.authorization_response_iss_parameter_supported,
        })
    }

    /// Whether an answer that came over the browser is of this provider, and not of one that was confused with it (RFC 9207).
    pub fn has_answered(&self, named: Option<&str>, issuer: &str) -> bool {
        named.map_or(!self.names_issuer, |named| named == issuer)
    }
}

impl SignInCode {
    /// `None` where the system has no random numbers.
    pub fn new(redirect_uri: String) -> Option<Self> {
        let random = || {
            let mut bytes = [0; 32];
            SystemRandom::new().fill(&mut bytes).ok()?;
            Some(URL_SAFE_NO_PAD.encode(bytes))
        };
        Some(Self { state: random()?, nonce: random()?, verifier: random()?, redirect_uri })
    }

    /// Where the browser is sent to.
    pub fn address(&self, provider: &ProviderDocument, client: &SignInSettings) -> String {
        let mut url = provider.authorization_endpoint.clone();
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.as_bytes()));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("scope", &client.scopes.join(" "))
            .append_pair("state", &self.state)
            .append_pair("nonce", &self.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        url.into()
    }

    /// What the code is exchanged with for an ID token.
    ///
    /// # Errors
    /// The client's id or secret can stand in no header.
    pub fn exchange(
        &self,
        code: &str,
        provider: &ProviderDocument,
        client: &SignInSettings,
    ) -> Result<TokenRequest, String> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", &self.verifier);
        let mut headers = HeaderMap::new();
        match &client.client_secret {
            Some(secret) if !provider.secret_in_form => {
                headers.insert(AUTHORIZATION, basic(&client.client_id, secret)?);
            }
            secret => {
                form.append_pair("client_id", &client.client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret.expose());
                }
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Ok(TokenRequest {
            method: Method::POST,
            url: provider.token_endpoint.clone(),
            headers,
            body: form.finish().into_bytes(),
            is_metadata: false,
        })
    }
}

/// The ID token of a response to [`SignInCode::exchange`].
///
/// # Errors
/// It has none.
pub fn id_token(response: &TokenResponse) -> Result<String, String> {
    let body: Option<Value> = serde_json::from_slice(&response.body).ok();
    let token = body.as_ref().and_then(|body| body.get("id_token")?.as_str());
    token.filter(|_| response.status == 200).map(str::to_owned).ok_or_else(|| refusal(response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::HashMap;
    use words::config::secret::Secret;

    const ISSUER: &str = "https://id.test/realms/a";

    fn document(more: &Value) -> Result<ProviderDocument, String> {
        let mut document = json!({"issuer": ISSUER, "authorization_endpoint": "https://id.test/auth?tenant=1",
            "token_endpoint": "https://id.test/token"});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ProviderDocument::read(
            &TokenResponse { status: 200, body: document.to_string().into_bytes() },
            ISSUER,
        )
    }

    fn client(secret: Option<&str>) -> SignInSettings {
        SignInSettings {
            client_id: "us".to_owned(),
            client_secret: secret.map(Secret::new),
            scopes: vec!["openid".to_owned(), "email".to_owned()],
        }
    }

    fn pairs(text: &str) -> HashMap<String, String> {
        url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
    }

    #[test]
    fn the_document_is_that_of_its_issuer() {
        for issuer in [ISSUER, "https://id.test/realms/a/"] {
            let url = ProviderDocument::request(issuer).url;
            assert_eq!(url, "https://id.test/realms/a/.well-known/openid-configuration");
        }
        assert!(document(&json!({})).is_ok());
        for (more, why) in [
            (json!({"issuer": "https://id.test/realms/b"}), "another issuer"),
            (json!({"issuer": format!("{ISSUER}/")}), "another issuer"),
            (json!({"token_endpoint": 1}), "cannot be read"),
            (json!({"authorization_endpoint": "/auth"}), "no https URL"),
            (json!({"authorization_endpoint": "javascript:alert(1)"}), "no https URL"),
            (json!({"authorization_endpoint": "http://id.test/auth"}), "no https URL"),
            (json!({"authorization_endpoint": "https://u:p@id.test/auth"}), "no https URL"),
        ] {
            let refused = document(&more).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let gone = TokenResponse { status: 404, body: b"{}".to_vec() };
        assert!(ProviderDocument::read(&gone, ISSUER).unwrap_err().contains("404"));
    }

    #[test]
    fn the_browser_is_sent_with_a_challenge_and_the_code_with_its_verifier() {
        let provider = document(&json!({})).unwrap();
        let code = SignInCode::new("https://gateway.test/console/signed-in".to_owned()).unwrap();
        let address = Url::parse(&code.address(&provider, &client(None))).unwrap();
        let sent = pairs(address.query().unwrap());
        assert_eq!(sent["tenant"], "1", "what the endpoint has in its query stays");
        assert_eq!((sent["response_type"].as_str(), sent["scope"].as_str()), ("code", "openid email"));
        assert_eq!((&sent["state"], &sent["nonce"]), (&code.state, &code.nonce));
        assert_eq!(sent["code_challenge_method"], "S256");
        assert!(!address.as_str().contains(&code.verifier));
        let request = code.exchange("c&d", &provider, &client(None)).unwrap();
        let form = pairs(std::str::from_utf8(&request.body).unwrap());
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, form["code_verifier"].as_bytes()));
        assert_eq!(challenge, sent["code_challenge"]);
        assert_eq!((form["code"].as_str(), form["client_id"].as_str()), ("c&d", "us"));
        assert_eq!(form["redirect_uri"], sent["redirect_uri"]);
        assert!(!request.headers.contains_key(AUTHORIZATION));
        let other = SignInCode::new(String::new()).unwrap();
        assert!(other.state != code.state && other.nonce != code.nonce && other.verifier != code.verifier);
    }

    #[test]
    fn the_secret_is_sent_as_the_provider_takes_it_and_once() {
        let code = SignInCode::new(String::new()).unwrap();
        for (methods, in_form) in [
            (json!([]), false),
            (json!(["client_secret_basic", "client_secret_post"]), false),
            (json!(["client_secret_post", "private_key_jwt"]), true),
        ] {
            let provider = document(&json!({"token_endpoint_auth_methods_supported": methods})).unwrap();
            let request = code.exchange("c", &provider, &client(Some("s3cret"))).unwrap();
            let form = String::from_utf8(request.body).unwrap();
            assert_eq!(form.contains("client_secret=s3cret"), in_form, "{methods}");
            assert_eq!(request.headers.contains_key(AUTHORIZATION), !in_form, "{methods}");
        }
    }

    #[test]
    fn an_answer_names_its_issuer_where_the_provider_promises_it() {
        let silent = document(&json!({})).unwrap();
        let named = document(&json!({"authorization_response_iss_parameter_supported": true})).unwrap();
        assert!(silent.has_answered(None, ISSUER) && !named.has_answered(None, ISSUER));
        for provider in [silent, named] {
            assert!(provider.has_answered(Some(ISSUER), ISSUER));
            assert!(!provider.has_answered(Some("https://evil.test"), ISSUER));
        }
    }

    #[test]
    fn a_refusal_repeats_no_text_of_the_provider() {
        let read = |status, body: &str| id_token(&TokenResponse { status, body: body.as_bytes().to_vec() });
        assert_eq!(read(200, r#"{"id_token":"a.b.c"}"#).unwrap(), "a.b.c");
        for (status, body) in
            [(400, r#"{"id_token":"a.b.c"}"#), (200, r#"{"access_token":"s3cret"}"#), (500, "s3cret")]
        {
            assert!(!read(status, body).unwrap_err().contains("s3cret"), "{body}");
        }
        assert!(read(400, r#"{"error":"invalid_grant"}"#).unwrap_err().contains("invalid_grant"));
    }
}
