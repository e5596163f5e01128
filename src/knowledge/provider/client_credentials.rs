//! A sign-in with a client's own credentials (OAuth 2.1, client credentials grant), for servers that are no vendor of ours.
//!
//! Sources: RFC 6749, 4.4; RFC 8707 for `resource`, which names the server that the token is for.

use super::bearer_token::parse_token;
use super::token_exchange::{Step, TokenExchange, TokenRequest, TokenResponse};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, header};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use std::time::SystemTime;
use url::form_urlencoded::{Serializer, byte_serialize};
use words::config::secret::Secret;

/// Why a token endpoint refuses (RFC 6749, 5.2; RFC 8707, 2).
const CODES: [&str; 7] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
];

/// Who signs in, and where.
#[derive(Debug, Clone)]
pub struct ClientCredentials {
    pub token_url: String,
    pub client_id: String,
    pub client_secret: Secret,
    /// Scopes, with spaces between them.
    pub scope: Option<String>,
    /// The server that the token is for.
    pub resource: Option<String>,
    /// The secret is sent in the form, and not by HTTP Basic.
    pub secret_in_form: bool,
}

impl TokenExchange for ClientCredentials {
    fn key(&self) -> String {
        let digest = digest(&SHA256, self.client_secret.expose().as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        // Quoted, so that adjacent fields cannot be mistaken for one another.
        format!(
            "client|{:?}|{:?}|{:?}|{:?}|{}|{digest}",
            self.token_url, self.client_id, self.scope, self.resource, self.secret_in_form
        )
    }

    fn description(&self) -> &'static str {
        "the sign-in at the server's token endpoint"
    }

    fn next_step(&self, responses: &[TokenResponse], _now: SystemTime) -> Result<Step, String> {
        if let Some(response) = responses.last() {
            return parse_token(response).map_err(|_| refusal(response));
        }
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        for (name, value) in [("scope", &self.scope), ("resource", &self.resource)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        let mut headers = HeaderMap::new();
        if self.secret_in_form {
            form.append_pair("client_id", &self.client_id);
            form.append_pair("client_secret", self.client_secret.expose());
        } else {
            headers.insert(header::AUTHORIZATION, basic(&self.client_id, &self.client_secret)?);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(Step::Request(TokenRequest {
            method: Method::POST,
            url: self.token_url.clone(),
            headers,
            body: form.finish().into_bytes(),
            is_metadata: false,
        }))
    }
}

/// A client's id and secret by HTTP Basic: both are encoded as in a form before they are joined (RFC 6749, 2.3.1).
///
/// # Errors
/// No header can hold them.
pub fn basic(client_id: &str, client_secret: &Secret) -> Result<HeaderValue, String> {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(client_secret.expose()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| "the client's id or secret is too odd for a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The code of RFC 6749, 5.2, with which a token endpoint refuses.
pub(super) fn refusal_code(response: &TokenResponse) -> Option<&'static str> {
    let body: Value = serde_json::from_slice(&response.body).ok()?;
    let sent = body.get("error")?.as_str()?;
    CODES.into_iter().find(|code| *code == sent)
}

/// Why there is no token: a code, and none of the server's own words, which may repeat the secret.
pub fn refusal(response: &TokenResponse) -> String {
    match refusal_code(response) {
        Some(code) => format!("it is refused ({code}, status {})", response.status),
        None => format!("the answer (status {}) is no token", response.status),
    }
}

#[cfg(test)]
mod tests {
    use super::super::token_exchange::Credentials;
    use super::*;
    use std::time::Duration;

    fn client(secret_in_form: bool) -> ClientCredentials {
        ClientCredentials {
            token_url: "https://id.example/token".to_owned(),
            client_id: "a b".to_owned(),
            client_secret: Secret::new("s:ecret"),
            scope: Some("tools read".to_owned()),
            resource: Some("https://tools.example/mcp".to_owned()),
            secret_in_form,
        }
    }

    fn sent(client: &ClientCredentials) -> (String, Option<String>) {
        let Ok(Step::Request(request)) = client.next_step(&[], SystemTime::UNIX_EPOCH) else {
            panic!("no request")
        };
        let basic =
            request.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        (String::from_utf8(request.body).unwrap(), basic)
    }

    #[test]
    fn the_secret_is_sent_in_one_place() {
        let form =
            "grant_type=client_credentials&scope=tools+read&resource=https%3A%2F%2Ftools.example%2Fmcp";
        let basic = format!("Basic {}", STANDARD.encode("a+b:s%3Aecret"));
        assert_eq!(sent(&client(false)), (form.to_owned(), Some(basic)));
        assert_eq!(sent(&client(true)), (format!("{form}&client_id=a+b&client_secret=s%3Aecret"), None));
        assert_ne!(client(true).key(), client(false).key());
        assert!(!client(true).key().contains("s:ecret"));
    }

    #[test]
    fn the_response_is_the_token() {
        let responses = [TokenResponse {
            status: 200,
            body: br#"{"access_token":"t","expires_in":60,"token_type":"Bearer"}"#.to_vec(),
        }];
        let Ok(Step::Done(credentials, lifetime)) =
            client(true).next_step(&responses, SystemTime::UNIX_EPOCH)
        else {
            panic!("no token");
        };
        assert_eq!((credentials, lifetime), (Credentials::Bearer(Secret::new("t")), Duration::from_secs(60)));
        let refused = [TokenResponse { status: 401, body: br#"{"error":"invalid_client"}"#.to_vec() }];
        let why =
            |refused: &[TokenResponse]| client(true).next_step(refused, SystemTime::UNIX_EPOCH).unwrap_err();
        assert_eq!(why(&refused), "it is refused (invalid_client, status 401)");
        // A server may repeat what it was sent.
        let body = br#"{"error":"client_secret=s:ecret","error_description":"bad client_secret=s:ecret"}"#;
        let repeated = [TokenResponse { status: 400, body: body.to_vec() }];
        assert_eq!(why(&repeated), "the answer (status 400) is no token");
    }
}
