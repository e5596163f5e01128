//! A token of a client exchanged for one that a server takes (OAuth 2.0 Token Exchange), for servers that act for persons.
//!
//! Source: RFC 8693. The client's token is the subject token: it is sent to the token endpoint, and to no server.

use super::bearer_token::parse_token;
use super::client_credentials::{basic, refusal, refusal_code};
use super::token_exchange::{Credentials, Step, TokenExchange, TokenRequest, TokenResponse};
use http::{HeaderMap, HeaderValue, Method, header};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use std::sync::Arc;
use std::time::SystemTime;
use url::form_urlencoded::Serializer;
use words::config::secret::Secret;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// What a client's token is where nothing else is said: what Keycloak and Okta take, while RFC 8693 has no default.
pub const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// What is issued and authorizes no call as a bearer token, whatever the response says of it.
const NO_BEARERS: [&str; 3] = [
    "urn:ietf:params:oauth:token-type:refresh_token",
    "urn:ietf:params:oauth:token-type:saml1",
    "urn:ietf:params:oauth:token-type:saml2",
];

/// Where tokens of clients are exchanged, and for what.
#[derive(Debug, Clone)]
pub struct SubjectExchange {
    /// Whose exchange it is, and in which version: another one has tokens of its own.
    pub owner: String,
    pub token_url: String,
    pub client_id: String,
    /// `None`: a public client.
    pub client_secret: Option<Secret>,
    /// The secret is sent in the form, and not by HTTP Basic.
    pub secret_in_form: bool,
    pub audience: Option<String>,
    /// The server that the token is for.
    pub resource: Option<String>,
    /// Scopes, with spaces between them.
    pub scope: Option<String>,
    pub requested_token_type: Option<String>,
    pub subject_token_type: String,
}

/// The exchange of one token.
#[derive(Debug, Clone)]
pub struct ExchangedToken {
    settings: Arc<SubjectExchange>,
    subject_token: Secret,
    /// No token that is issued for it is used after its end.
    subject_end: SystemTime,
}

impl SubjectExchange {
    /// The exchange of a client's token, which is good until `end`.
    pub fn of(self: &Arc<Self>, token: &Secret, end: SystemTime) -> ExchangedToken {
        ExchangedToken { settings: Arc::clone(self), subject_token: token.clone(), subject_end: end }
    }
}

impl TokenExchange for ExchangedToken {
    fn key(&self) -> String {
        let digest = digest(&SHA256, self.subject_token.expose().as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("subject|{:?}|{digest}", self.settings.owner)
    }

    fn description(&self) -> &'static str {
        "the exchange of the client's token at the token endpoint of the MCP server"
    }

    fn is_of_person(&self) -> bool {
        true
    }

    fn next_step(&self, responses: &[TokenResponse], now: SystemTime) -> Result<Step, String> {
        match responses.last() {
            Some(response) => self.read(response, now),
            None => self.request().map(Step::Request),
        }
    }
}

impl ExchangedToken {
    fn request(&self) -> Result<TokenRequest, String> {
        let settings = &*self.settings;
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", GRANT_TYPE);
        form.append_pair("subject_token", self.subject_token.expose());
        form.append_pair("subject_token_type", &settings.subject_token_type);
        for (name, value) in [
            ("requested_token_type", &settings.requested_token_type),
            ("audience", &settings.audience),
            ("resource", &settings.resource),
            ("scope", &settings.scope),
        ] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        let mut headers = HeaderMap::new();
        match &settings.client_secret {
            Some(secret) if settings.secret_in_form => {
                form.append_pair("client_id", &settings.client_id);
                form.append_pair("client_secret", secret.expose());
            }
            Some(secret) => {
                headers.insert(header::AUTHORIZATION, basic(&settings.client_id, secret)?);
            }
            // A public client names itself (RFC 6749, 3.2.1).
            None => drop(form.append_pair("client_id", &settings.client_id)),
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(TokenRequest {
            method: Method::POST,
            url: settings.token_url.clone(),
            headers,
            body: form.finish().into_bytes(),
            is_metadata: false,
        })
    }

    fn read(&self, response: &TokenResponse, now: SystemTime) -> Result<Step, String> {
        #[derive(Deserialize)]
        struct Issued {
            token_type: Option<String>,
            issued_token_type: Option<String>,
        }
        let Ok(Step::Done(Credentials::Bearer(token), lifetime)) = parse_token(response) else {
            return Err(advised(response));
        };
        let issued: Issued = serde_json::from_slice(&response.body).map_err(|_| refusal(response))?;
        if !issued.token_type.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err("the token_type of the answer is not Bearer, and the MCP server is called with no other. Ask the operator".to_owned());
        }
        if issued.issued_token_type.is_some_and(|kind| NO_BEARERS.contains(&kind.as_str())) {
            let why = "the issued_token_type of the answer is not one that can be sent as a bearer token: the operator must set \
                       requested_token_type";
            return Err(why.to_owned());
        }
        if token == self.subject_token {
            let why = "the answer is the client's own token, which no MCP server gets: the operator must set audience, resource or scope, \
                       so that another one is issued";
            return Err(why.to_owned());
        }
        if !token.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token of the answer does not fit a header".to_owned());
        }
        let left = self.subject_end.duration_since(now).unwrap_or_default();
        Ok(Step::Done(Credentials::Bearer(token), lifetime.min(left)))
    }
}

/// Why there is no token, and what to do.
fn advised(response: &TokenResponse) -> String {
    let advice = match refusal_code(response) {
        Some("invalid_grant" | "invalid_request") => {
            ": sign in again, so that the client has a new token of its own"
        }
        Some("invalid_client" | "unauthorized_client" | "unsupported_grant_type") => {
            ": the operator must check the client that exchanges tokens, at the identity provider and in \
             configurations.token_exchange"
        }
        Some("invalid_scope" | "invalid_target") => {
            ": the operator must check audience, resource and scope in configurations.token_exchange"
        }
        _ => "",
    };
    format!("{}{advice}", refusal(response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SUBJECT: &str = "eyJ.sub+ject.sig";

    fn exchange() -> SubjectExchange {
        SubjectExchange {
            owner: "id 1".to_owned(),
            token_url: "https://id.example/token".to_owned(),
            client_id: "a b".to_owned(),
            client_secret: Some(Secret::new("s:ecret")),
            secret_in_form: false,
            audience: Some("tools".to_owned()),
            resource: Some("https://tools.example/mcp".to_owned()),
            scope: Some("read write".to_owned()),
            requested_token_type: Some(ACCESS_TOKEN.to_owned()),
            subject_token_type: ACCESS_TOKEN.to_owned(),
        }
    }

    fn of(exchange: SubjectExchange, end: u64) -> ExchangedToken {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(end);
        Arc::new(exchange).of(&Secret::new(SUBJECT), end)
    }

    fn sent(exchange: SubjectExchange) -> (Vec<(String, String)>, Option<String>) {
        let Ok(Step::Request(request)) = of(exchange, 0).next_step(&[], SystemTime::UNIX_EPOCH) else {
            panic!("no request")
        };
        let basic = request.headers.get(header::AUTHORIZATION);
        let form = url::form_urlencoded::parse(&request.body).into_owned().collect();
        (form, basic.map(|value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn the_request_is_that_of_the_rfc() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let all = vec![
            pair("grant_type", GRANT_TYPE),
            pair("subject_token", SUBJECT),
            pair("subject_token_type", ACCESS_TOKEN),
            pair("requested_token_type", ACCESS_TOKEN),
            pair("audience", "tools"),
            pair("resource", "https://tools.example/mcp"),
            pair("scope", "read write"),
        ];
        let (form, basic) = sent(exchange());
        assert_eq!((form, basic.is_some()), (all.clone(), true));
        let in_form = [all, vec![pair("client_id", "a b"), pair("client_secret", "s:ecret")]].concat();
        assert_eq!(sent(SubjectExchange { secret_in_form: true, ..exchange() }), (in_form, None));
        let plain = SubjectExchange {
            client_secret: None,
            audience: None,
            resource: None,
            scope: None,
            requested_token_type: None,
            ..exchange()
        };
        let (form, basic) = sent(plain);
        let names: Vec<&str> = form.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["grant_type", "subject_token", "subject_token_type", "client_id"]);
        assert_eq!(basic, None);
    }

    #[test]
    fn tokens_are_kept_by_the_record_and_the_clients_token() {
        let one = of(exchange(), 0);
        let next = SubjectExchange { owner: "id 2".to_owned(), ..exchange() };
        let other = Arc::new(exchange()).of(&Secret::new("eyJ.other.sig"), SystemTime::UNIX_EPOCH);
        assert_ne!(one.key(), of(next, 0).key());
        assert_ne!(one.key(), other.key());
        assert_eq!(one.key(), of(exchange(), 9).key());
        assert!(!one.key().contains(SUBJECT) && !format!("{one:?}").contains(SUBJECT));
    }

    fn read(body: &str, now: u64) -> Result<(Credentials, Duration), String> {
        let responses = [TokenResponse { status: 200, body: body.as_bytes().to_vec() }];
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
        match of(exchange(), 1000).next_step(&responses, now)? {
            Step::Done(credentials, lifetime) => Ok((credentials, lifetime)),
            Step::Request(_) => panic!("another request"),
        }
    }

    #[test]
    fn a_token_ends_with_the_clients() {
        let body = format!(
            r#"{{"access_token":"t","issued_token_type":"{ACCESS_TOKEN}","token_type":"bearer","expires_in":60}}"#
        );
        for (now, seconds) in [(0, 60), (940, 60), (970, 30), (1000, 0), (1050, 0)] {
            let wanted = (Credentials::Bearer(Secret::new("t")), Duration::from_secs(seconds));
            assert_eq!(read(&body, now), Ok(wanted), "{now}");
        }
    }

    #[test]
    fn what_is_no_bearer_token_is_an_error() {
        for (body, why) in [
            (r#"{"access_token":"t","token_type":"N_A"}"#, "token_type"),
            (r#"{"access_token":"t","token_type":"DPoP"}"#, "token_type"),
            (r#"{"access_token":"t"}"#, "token_type"),
            (
                r#"{"access_token":"t","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:saml2"}"#,
                "issued_token_type",
            ),
            (
                r#"{"access_token":"t","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:refresh_token"}"#,
                "issued_token_type",
            ),
            (r#"{"access_token":"eyJ.sub+ject.sig","token_type":"Bearer"}"#, "own token"),
            (r#"{"access_token":"a b","token_type":"Bearer"}"#, "header"),
            (r#"{"access_token":"a\r\nx: y","token_type":"Bearer"}"#, "header"),
            (r#"{"access_token":"","token_type":"Bearer"}"#, "no token"),
            (r#"{"access_token":"t","token_type":7}"#, "no token"),
            ("eyJ.sub+ject.sig", "no token"),
        ] {
            let error = read(body, 0).unwrap_err();
            assert!(error.contains(why) && !error.contains(SUBJECT), "{body}: {error}");
        }
    }

    #[test]
    fn a_refusal_has_advice_and_repeats_nothing() {
        let refused = |body: &str| {
            let responses = [TokenResponse { status: 400, body: body.as_bytes().to_vec() }];
            of(exchange(), 0).next_step(&responses, SystemTime::UNIX_EPOCH).unwrap_err()
        };
        let body = format!(r#"{{"error":"invalid_grant","error_description":"{SUBJECT} is over"}}"#);
        let wanted = "it is refused (invalid_grant, status 400): sign in again, so that the client has a new token of its own";
        assert_eq!(refused(&body), wanted);
        assert!(refused(r#"{"error":"invalid_target"}"#).contains("audience, resource and scope"));
        assert_eq!(refused(&format!(r#"{{"error":"{SUBJECT}"}}"#)), "the answer (status 400) is no token");
    }
}
