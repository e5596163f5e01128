//! Sign-in at the console by OpenID Connect: what the browser and the provider are sent, whose session it is, and the attacks on it.
//!
//! Most tests have a scripted provider, which can lie. In the last one it is that of another project, and a browser goes there.

use crate::console::{of_page, status};
use crate::log_tail::Tail;
use crate::support::Gateway;
use crate::support::client::client;
use crate::support::command::check;
use crate::support::packages::{self, ready};
use crate::support::settings::{OPERATOR_KEY, STANDARD};
use crate::support::signing_key::SigningKey;
use crate::support::upstream::Upstream;
use crate::support::wait::until;
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::task::spawn_blocking;

const CLIENT: &str = "turnpike-console";
const SESSION: &str = "__Host-turnpike-console";
const BEGUN: &str = "__Host-turnpike-sign-in";

/// What the provider responds.
#[derive(Default)]
struct Script {
    /// Members of its document beside the usual ones, or in their place.
    document: Value,
    /// Claims of the ID token beside the usual ones, or in their place.
    claims: Value,
    /// The response of the token endpoint in place of one with an ID token.
    response: Option<String>,
    /// What the token endpoint was sent.
    exchanges: Vec<String>,
}

/// An identity provider whose token endpoint trusts every code: `nonce` of the last sign-in is in the ID token.
struct Provider {
    script: Arc<Mutex<Script>>,
    nonce: Arc<Mutex<String>>,
    server: Upstream,
}

impl Provider {
    async fn start() -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let nonce = Arc::<Mutex<String>>::default();
        let key = Arc::new(SigningKey::new("one"));
        let port = Arc::<Mutex<u16>>::default();
        let server = {
            let (script, nonce, port) = (Arc::clone(&script), Arc::clone(&nonce), Arc::clone(&port));
            Upstream::start(move |mut connection| {
                let (script, nonce, key) = (Arc::clone(&script), Arc::clone(&nonce), Arc::clone(&key));
                let base = format!("http://127.0.0.1:{}", port.lock());
                async move {
                    while let Some(request) = connection.request().await {
                        let path = request.split(' ').nth(1).unwrap().to_owned();
                        let body = match path.as_str() {
                            "/jwks" => json!({"keys": [key.public()]}).to_string(),
                            "/.well-known/openid-configuration" => {
                                let usual = json!({"issuer": base, "authorization_endpoint": format!("{base}/auth"),
                                    "token_endpoint": format!("{base}/token")});
                                with(usual, &script.lock().document).to_string()
                            }
                            "/token" => {
                                let mut script = script.lock();
                                script.exchanges.push(request);
                                let usual = json!({"iss": base, "aud": CLIENT, "sub": "7", "nonce": *nonce.lock(),
                                    "email": "ann@example.test", "role": "admin", "picture": "p".repeat(5000),
                                    "scope": "logs.list logs.view workspaces.read"});
                                let token = key.token(&with(usual, &script.claims));
                                let usual = json!({"access_token": "at", "token_type": "Bearer", "id_token": token});
                                script.response.clone().unwrap_or_else(|| usual.to_string())
                            }
                            _ => panic!("the gateway calls {path}"),
                        };
                        connection.send_json(&body).await;
                    }
                }
            })
            .await
        };
        *port.lock() = server.port;
        Self { script, nonce, server }
    }

    fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    fn settings(&self) -> String {
        with_sign_in(&self.base(), "client_secret: s3cr3t-canary")
    }
}

/// Settings with a sign-in at this provider.
fn with_sign_in(base: &str, more: &str) -> String {
    let jwt = format!(
        "auth:\n  jwt: {{jwks_url: '{base}/jwks', issuer: '{base}', audience: turnpike, workspace: default, claims: {{user: email}}}}\n"
    );
    let sign_in = format!("console: {{sign_in: {{client_id: {CLIENT}, {more}}}}}\n");
    format!("{}{sign_in}", STANDARD.replacen("auth:\n", &jwt, 1))
}

fn with(mut usual: Value, more: &Value) -> Value {
    usual.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    usual
}

/// A browser that follows nothing by itself.
fn browser() -> Client {
    let _ring = client();
    Client::builder().redirect(Policy::none()).build().unwrap()
}

fn go(gateway: &Gateway, path: &str) -> RequestBuilder {
    browser().get(format!("{}{path}", gateway.control_url()))
}

fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("{path}?{query}")
}

/// The value of a cookie that a response sets.
fn cookie(response: &Response, name: &str) -> Option<String> {
    let all = response.headers().get_all("set-cookie").iter().map(|header| header.to_str().unwrap());
    let text = all.filter_map(|text| text.strip_prefix(&format!("{name}="))).next()?;
    Some(text.split(';').next().unwrap().to_owned())
}

/// A sign-in that has begun: the cookie, and what the provider was asked for.
struct Begun {
    cookie: String,
    sent: HashMap<String, String>,
}

async fn begin(gateway: &Gateway, provider: &Provider, page: &str) -> Begun {
    let response = go(gateway, &with_query("/console/sign-in", &[("to", page)])).send().await.unwrap();
    assert_eq!(response.status(), 303);
    let header = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    for attribute in ["; Path=/;", "; Max-Age=600;", "; Secure;", "; HttpOnly;", "; SameSite=Lax"] {
        assert!(header.contains(attribute), "{header}");
    }
    let address = Url::parse(response.headers()["location"].to_str().unwrap()).unwrap();
    assert!(address.as_str().starts_with(&format!("{}/auth?", provider.base())), "{address}");
    let sent: HashMap<String, String> = address.query_pairs().into_owned().collect();
    *provider.nonce.lock() = sent["nonce"].clone();
    Begun { cookie: cookie(&response, BEGUN).unwrap(), sent }
}

/// The browser comes back with these pairs.
async fn come_back(gateway: &Gateway, cookie: &str, pairs: &[(&str, &str)]) -> Response {
    let call = go(gateway, &with_query("/console/signed-in", pairs));
    let call = call.header("cookie", format!("{BEGUN}={cookie}"));
    call.header("sec-fetch-site", "cross-site").send().await.unwrap()
}

/// Signs in, and returns the value of the session's cookie.
async fn signed_in(gateway: &Gateway, provider: &Provider) -> String {
    let begun = begin(gateway, provider, "/console/requests?status=500").await;
    let response = come_back(gateway, &begun.cookie, &[("state", &begun.sent["state"]), ("code", "c")]).await;
    assert_eq!(response.status(), 303, "{:?}", response.text().await);
    cookie(&response, SESSION).unwrap()
}

/// Not signed in: a page with this text, and no session.
async fn refused(response: Response, wanted: u16, text: &str) {
    assert_eq!(response.status(), wanted);
    assert_eq!(cookie(&response, SESSION), None);
    assert!(response.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    let page = response.text().await.unwrap();
    assert!(page.contains(text) && !page.contains("<script"), "{text}: {page}");
}

#[tokio::test]
async fn a_person_signs_in_and_acts_by_the_claims() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&provider.settings());
    let how = browser().get(format!("{}/console/session", gateway.control_url())).send().await.unwrap();
    assert_eq!(how.json::<Value>().await.unwrap()["identity_provider"], provider.base());

    let begun = begin(&gateway, &provider, "/console/requests?status=500").await;
    let redirect = format!("{}/console/signed-in", gateway.control_url());
    let Begun { cookie: begun_cookie, sent } = begun;
    assert_eq!((sent["client_id"].as_str(), sent["redirect_uri"].as_str()), (CLIENT, redirect.as_str()));
    assert_eq!((sent["response_type"].as_str(), sent["code_challenge_method"].as_str()), ("code", "S256"));
    assert_eq!(sent["scope"], "openid profile email");
    let response = come_back(&gateway, &begun_cookie, &[("state", &sent["state"]), ("code", "c 1")]).await;
    assert_eq!(response.status(), 303);
    let headers = response.headers();
    assert_eq!(headers["location"], "/console/requests?status=500");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    assert_eq!(cookie(&response, BEGUN).as_deref(), Some(""), "it is used up");
    let session = cookie(&response, SESSION).unwrap();
    let exchange = provider.script.lock().exchanges.remove(0);
    assert!(exchange.contains("grant_type=authorization_code&code=c+1&redirect_uri=http"), "{exchange}");
    assert!(exchange.contains("code_verifier=") && exchange.to_lowercase().contains("authorization: basic"));

    let own = of_page(&gateway, Method::GET, "/v1/api-keys/self", &session).send().await.unwrap();
    let own: Value = own.json().await.unwrap();
    assert_eq!(own["name"], "ann@example.test", "{own}");
    for (path, wanted) in [("/v1/logs", 200), ("/v1/audit-logs", 403), ("/v1/configs", 403)] {
        assert_eq!(status(of_page(&gateway, Method::GET, path, &session)).await, wanted, "{path}");
    }
    // The session counts for the page alone, and is no token.
    let bare = go(&gateway, "/v1/logs").header("cookie", format!("{SESSION}={session}"));
    assert_eq!(status(bare).await, 401);
    assert_eq!(status(go(&gateway, "/v1/logs").bearer_auth(&session)).await, 401);

    // The audit log has who it was, and neither code nor state.
    let entries = gateway.control(Method::GET, "/v1/audit-logs").send().await.unwrap().text().await.unwrap();
    assert!(entries.contains("console-sessions") && entries.contains("ann@example.test"), "{entries}");
    let log = gateway.log();
    assert!(log.contains("create console-sessions"), "{log}");
    for secret in ["c 1", "c+1", "c%201", &sent["state"], "s3cr3t-canary"] {
        assert!(!entries.contains(secret) && !log.contains(secret), "{secret}");
    }

    // A live tail ends with the session.
    let tail = of_page(&gateway, Method::GET, "/v1/logs/tail", &session);
    let tail = Tail::of(tail.send().await.unwrap()).await;
    assert_eq!(status(of_page(&gateway, Method::DELETE, "/console/session", &session)).await, 200);
    assert_eq!(tail.end().await, "session");
    assert_eq!(status(of_page(&gateway, Method::GET, "/v1/logs", &session)).await, 401);
}

#[tokio::test]
async fn an_answer_counts_only_for_the_browser_that_began() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&provider.settings());
    let first = begin(&gateway, &provider, "").await;
    let second = begin(&gateway, &provider, "").await;
    let state = second.sent["state"].as_str();
    let over = "Begin it again";
    // Of somebody else: the sign-in of an attacker is not finished in another browser.
    let answer = [("state", state), ("code", "c")];
    refused(come_back(&gateway, "", &answer).await, 400, over).await;
    refused(come_back(&gateway, "AAAA", &answer).await, 400, over).await;
    refused(come_back(&gateway, &first.cookie, &answer).await, 400, "another sign-in").await;
    refused(come_back(&gateway, &second.cookie, &[("code", "c")]).await, 400, "another sign-in").await;
    let twice = [("state", state), ("state", state), ("code", "c")];
    refused(come_back(&gateway, &second.cookie, &twice).await, 400, "has state twice").await;
    let issuers =
        [("state", state), ("code", "c"), ("iss", "https://evil.test"), ("iss", "https://evil.test")];
    refused(come_back(&gateway, &second.cookie, &issuers).await, 400, "has iss twice").await;
    let mixed = [("state", state), ("code", "c"), ("iss", "https://evil.test")];
    refused(come_back(&gateway, &second.cookie, &mixed).await, 400, "another identity provider").await;
    let none = [("state", state)];
    refused(come_back(&gateway, &second.cookie, &none).await, 400, "has no code").await;
    // A session's cookie is none of a sign-in, and the other way round.
    let session = signed_in(&gateway, &provider).await;
    refused(come_back(&gateway, &session, &answer).await, 400, over).await;
    assert_eq!(status(of_page(&gateway, Method::GET, "/v1/logs", &second.cookie)).await, 401);
    for (code, text) in
        [("access_denied", "(access_denied)"), ("<script>alert(1)</script>", "an error of its own")]
    {
        let response = come_back(&gateway, &second.cookie, &[("state", state), ("error", code)]).await;
        refused(response, 403, text).await;
    }
    assert_eq!(provider.script.lock().exchanges.len(), 1, "nothing was exchanged but for the session");

    // Another site begins none, and no name that is not this port's.
    for site in ["cross-site", "same-site"] {
        let begun = go(&gateway, "/console/sign-in").header("sec-fetch-site", site).send().await.unwrap();
        assert_eq!(cookie(&begun, BEGUN), None);
        refused(begun, 403, "own page").await;
    }
    for path in ["/console/sign-in", "/console/signed-in"] {
        let rebound = go(&gateway, path).header("host", "evil.example").send().await.unwrap();
        assert_eq!(rebound.headers().get("location"), None);
        assert!(!rebound.status().is_success() && !rebound.status().is_redirection(), "{path}");
    }
}

#[tokio::test]
async fn an_id_token_that_is_not_good_begins_no_session() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&provider.settings());
    let refusals = [
        (json!({"aud": "another"}), "jwt_audience"),
        (json!({"aud": [CLIENT, "another"]}), "jwt_audience"),
        (json!({"azp": "another"}), "jwt_audience"),
        (json!({"iss": "https://evil.test"}), "jwt_issuer"),
        (json!({"exp": 1_000_000_000}), "jwt_expired"),
        (json!({"nonce": "of another sign-in"}), "jwt_nonce"),
        (json!({"nonce": null}), "jwt_nonce"),
        (json!({"email": null}), "jwt_claim_missing"),
        (json!({"role": ["admin"]}), "jwt_role"),
        (json!({"workspace_slug": "none-of-ours"}), "jwt_workspace_unknown"),
    ];
    for (claims, why) in refusals {
        provider.script.lock().claims = claims.clone();
        let begun = begin(&gateway, &provider, "").await;
        let answer = [("state", begun.sent["state"].as_str()), ("code", "c")];
        let response = come_back(&gateway, &begun.cookie, &answer).await;
        assert!(matches!(response.status().as_u16(), 400 | 401 | 403), "{claims}: {}", response.status());
        assert_eq!(cookie(&response, SESSION), None, "{claims}");
        let line = format!("nobody was signed in at /console/signed-in: {why}");
        until(&line, async || gateway.log().contains(&line).then_some(())).await;
    }
    provider.script.lock().claims = json!({});
    for (response, text) in [
        ("{}", "log says how"),
        (r#"{"id_token":7}"#, "does not respond"),
        ("no JSON", "does not respond"),
        (r#"{"id_token":"a.b.c"}"#, "counts for nothing here"),
    ] {
        provider.script.lock().response = Some(response.to_owned());
        let begun = begin(&gateway, &provider, "").await;
        let answer = [("state", begun.sent["state"].as_str()), ("code", "c")];
        let response = come_back(&gateway, &begun.cookie, &answer).await;
        assert_eq!(cookie(&response, SESSION), None);
        let page = response.text().await.unwrap();
        assert!(page.contains("Not signed in") && page.contains(text), "{page}");
    }
}

#[tokio::test]
async fn a_provider_that_lies_of_itself_or_is_gone_begins_no_session() {
    let provider = Provider::start().await;
    provider.script.lock().document = json!({"issuer": "https://evil.test"});
    let gateway = Gateway::start(&provider.settings());
    refused(go(&gateway, "/console/sign-in").send().await.unwrap(), 502, "identity provider").await;
    provider.script.lock().document = json!({"authorization_endpoint": "javascript:alert(1)"});
    refused(go(&gateway, "/console/sign-in").send().await.unwrap(), 502, "identity provider").await;
    provider.script.lock().document = json!({"authorization_response_iss_parameter_supported": true});
    let begun = begin(&gateway, &provider, "").await;
    let state = begun.sent["state"].as_str();
    let silent = come_back(&gateway, &begun.cookie, &[("state", state), ("code", "c")]).await;
    refused(silent, 400, "another identity provider").await;
    let issuer = provider.base();
    let named =
        come_back(&gateway, &begun.cookie, &[("state", state), ("code", "c"), ("iss", &issuer)]).await;
    assert_eq!(named.status(), 303);
}

#[tokio::test]
async fn a_session_ends_with_the_settings_that_let_it_begin() {
    let provider = Provider::start().await;
    let settings = provider.settings();
    let gateway = Gateway::start(&settings);
    let session = signed_in(&gateway, &provider).await;
    let of_key = crate::console::sign_in(&gateway, OPERATOR_KEY).await;
    let reads = async |gateway: &Gateway, cookie: &str| {
        status(of_page(gateway, Method::GET, "/v1/logs", cookie)).await
    };
    assert_eq!(reads(&gateway, &session).await, 200);
    let becomes = async |cookie: &str, wanted: u16| {
        until("the settings are in force", async || (reads(&gateway, cookie).await == wanted).then_some(()))
            .await;
    };
    for (from, to, wanted) in [
        (format!("client_id: {CLIENT}"), "client_id: another".to_owned(), 401),
        (format!("issuer: '{}'", provider.base()), "issuer: 'https://id.test'".to_owned(), 401),
        ("user: email".to_owned(), "user: /none".to_owned(), 401),
    ] {
        gateway.reload(&settings.replace(&from, &to));
        becomes(&session, wanted).await;
        assert_eq!(reads(&gateway, &of_key).await, 200, "{from}");
        gateway.reload(&settings);
        becomes(&session, 200).await;
    }
    gateway.reload(settings.split("console:").next().unwrap());
    becomes(&session, 401).await;
    let gone = go(&gateway, "/console/sign-in").send().await.unwrap();
    refused(gone, 404, "console.sign_in is not in the settings").await;
}

#[tokio::test]
async fn sessions_of_one_person_are_ended_and_stay_ended() {
    let provider = Provider::start().await;
    let gateway = Gateway::start(&provider.settings());
    let reads = async |gateway: &Gateway, cookie: &str| {
        status(of_page(gateway, Method::GET, "/v1/api-keys/self", cookie)).await
    };
    let first = signed_in(&gateway, &provider).await;
    let second = signed_in(&gateway, &provider).await;
    provider.script.lock().claims = json!({"email": "bob@example.test", "sub": "8"});
    let bob = signed_in(&gateway, &provider).await;
    let of_key = crate::console::sign_in(&gateway, OPERATOR_KEY).await;
    // Signed out: known to the store, so that no other process takes the cookie.
    assert_eq!(status(of_page(&gateway, Method::DELETE, "/console/session", &first)).await, 200);
    let gateway = gateway.killed_and_started_again();
    let all =
        async || (reads(&gateway, &first).await, reads(&gateway, &second).await, reads(&gateway, &bob).await);
    // The keys of the provider are there as soon as the process is.
    until("the provider's keys", async || (reads(&gateway, &second).await == 200).then_some(())).await;
    assert_eq!(all().await, (401, 200, 200));
    // Somebody leaves the company.
    let end = |key: &str| {
        let call = client().post(format!("{}/v1/console-sessions/end", gateway.control_url()));
        call.header("x-gateway-api-key", key).json(&json!({"user": "ann@example.test"}))
    };
    let narrow = of_page(&gateway, Method::POST, "/v1/console-sessions/end", &bob);
    assert_eq!(status(narrow.json(&json!({"user": "bob@example.test"}))).await, 403);
    assert_eq!(status(end(OPERATOR_KEY)).await, 200);
    assert_eq!(status(end(OPERATOR_KEY)).await, 200, "once more");
    assert_eq!(all().await, (401, 401, 200));
    assert_eq!(reads(&gateway, &of_key).await, 200);
    let entries = gateway.control(Method::GET, "/v1/audit-logs").send().await.unwrap().text().await.unwrap();
    assert!(entries.contains("/v1/console-sessions/end"), "{entries}");
}

#[test]
fn settings_without_an_identity_provider_are_refused() {
    for (more, text) in [
        ("", "needs auth.jwt, whose issuer signs persons in"),
        (
            "auth: {jwt: {jwks_url: 'https://id.test/jwks', issuer: id, audience: a}}\n",
            "needs an issuer in auth.jwt that is a URL",
        ),
    ] {
        let yaml = format!("{more}console: {{sign_in: {{client_id: a}}}}\n");
        let problems = check(&yaml).stderr;
        assert!(problems.contains("console.sign_in") && problems.contains(text), "{problems}");
    }
}

#[tokio::test]
async fn a_browser_signs_in_at_a_provider_of_another_project() {
    let Some(console) = packages::console() else { return };
    let Some(browser) = ready("sign-in in a browser", crate::console::browser()) else { return };
    let Some(mut provider) = packages::node("oidc", "oidc_provider.mjs") else { return };
    // Both must know each other's address: the gateway first, then the provider, then the settings that name it.
    let gateway = Gateway::start(STANDARD);
    provider.env("GATEWAY", gateway.control_url()).stdin(Stdio::piped()).stdout(Stdio::piped());
    // It ends with its input, when it is dropped.
    let mut provider = provider.spawn().unwrap();
    let mut lines = BufReader::new(provider.stdout.take().unwrap()).lines();
    let base = format!("http://127.0.0.1:{}", lines.next().unwrap().unwrap());
    let settings = with_sign_in(&base, "client_secret: secret of the console");
    gateway.reload(&settings);
    let page = format!("{}/console/session", gateway.control_url());
    until("the settings are in force", async || {
        let how: Value = client().get(&page).send().await.unwrap().json().await.unwrap();
        (how["identity_provider"] == base).then_some(())
    })
    .await;
    let mut trial = Command::new("node");
    trial.arg("smoke/sign_in.mjs").current_dir(&console).env("CHROMIUM", browser);
    trial.env("CONSOLE_URL", gateway.control_url()).env("PROVIDER_URL", &base);
    let output = spawn_blocking(move || trial.output()).await.unwrap().unwrap();
    drop(provider);
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{}", gateway.log());
}
