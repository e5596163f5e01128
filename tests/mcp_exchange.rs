//! MCP servers that act for persons, on the running binary: the client's token is exchanged for one that the server takes (RFC 8693), persons
//! share nothing, clients without a token learn what to do, and token endpoints that fail, lie and hang.
//!
//! The identity provider and the server are `support::mcp_persons`.

use crate::support::Gateway;
use crate::support::client::{client, new_trace};
use crate::support::mcp_client::{ALL, SETTINGS, call, old};
use crate::support::mcp_fake::http;
use crate::support::mcp_persons::{
    Issuer, PLAIN, PersonServer, by, called, field, fields, good, refused, save,
};
use crate::support::provider::Provider;
use crate::support::round_models::call as model_call;
use crate::support::round_models::{chat, chat_model};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

#[tokio::test]
async fn the_clients_token_is_exchanged_and_never_reaches_the_server() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    let more = json!({"audience": "crm-api", "scope": "read write", "requested_token_type": ACCESS_TOKEN});
    save(&gateway, &issuer, &server, &more).await;
    let token = issuer.token("ann", &json!({}));
    let listed = by(&gateway, &token, "/mcp", "tools/list", json!({})).await;
    assert_eq!(listed.names("tools"), ["crm__echo", "crm__only_ann"]);
    assert_eq!(called(&gateway, &token, "crm__echo").await, "ann called echo");
    assert_eq!(called(&gateway, &token, "crm__only_ann").await, "ann called only_ann");
    for method in ["initialize", "notifications/initialized", "tools/list", "tools/call"] {
        let sent = server.received(method);
        assert!(!sent.is_empty(), "{method}");
        assert!(
            sent.iter().all(|(_, sent)| sent.header("authorization") == Some("Bearer x-ann-1")),
            "{method}"
        );
    }
    let exchanges = issuer.exchanges();
    assert_eq!(exchanges.len(), 1, "one exchange for all");
    let pairs: Vec<(String, String)> = fields(&exchanges[0]);
    let wanted = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", token.as_str()),
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", ACCESS_TOKEN),
        ("audience", "crm-api"),
        ("resource", &server.url()),
        ("scope", "read write"),
    ];
    assert_eq!(pairs, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let sent = &exchanges[0];
    // gw:very-secret-1
    assert_eq!(sent.header("authorization"), Some("Basic Z3c6dmVyeS1zZWNyZXQtMQ=="));
    assert_eq!(sent.header("content-type"), Some("application/x-www-form-urlencoded"));
    // Neither the token nor a part of it is anywhere at the server, or in the log.
    let signature = token.rsplit('.').next().unwrap();
    for message in server.provider.received() {
        let head =
            message.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect::<String>();
        let text = format!("{}\n{head}\n{}", message.start, message.text());
        assert!(!text.contains(signature) && !text.contains("eyJ"), "{text}");
    }
    let log = gateway.log();
    for secret in [signature, "x-ann-1", "very-secret-1"] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn persons_share_neither_sessions_nor_lists() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({"client_secret_in": "form", "resource": ""})).await;
    let persons = ["ann", "bob", "cid"];
    let tokens: Vec<String> = persons.iter().map(|name| issuer.token(name, &json!({}))).collect();
    // All at once, each several times, so that they race for what is kept.
    let work = persons.iter().zip(&tokens).cycle().take(24).map(async |(name, token)| {
        let listed = by(&gateway, token, "/mcp/crm", "tools/list", json!({})).await;
        assert_eq!(listed.names("tools"), ["echo", &format!("only_{name}")]);
        assert_eq!(called(&gateway, token, "crm__echo").await, format!("{name} called echo"));
        let other = persons.iter().find(|other| *other != name).unwrap();
        let hidden =
            by(&gateway, token, "/mcp", "tools/call", call(&format!("crm__only_{other}"), json!({}))).await;
        assert_eq!(hidden.code(), -32602, "{}", hidden.body);
    });
    join_all(work).await;
    assert_eq!(server.sessions(), persons, "one session for each");
    // A message within the session of another person would have got 403, and failed above.
    for (person, message) in server.received("tools/call") {
        assert_eq!(message.header("mcp-session-id"), Some(format!("s-{person}").as_str()));
    }
    let exchanges = issuer.exchanges();
    assert_eq!(exchanges.len(), 3, "one at a time for each token");
    for sent in &exchanges {
        let names: Vec<String> = fields(sent).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["grant_type", "subject_token", "subject_token_type", "client_id", "client_secret"]
        );
        assert_eq!(
            (sent.header("authorization"), field(sent, "client_secret")),
            (None, "very-secret-1".to_owned())
        );
    }
    // A new token of the same person is exchanged anew, and goes on in the person's session.
    let renewed = issuer.token("ann", &json!({"jti": "2"}));
    assert_eq!(called(&gateway, &renewed, "crm__only_ann").await, "ann called only_ann");
    assert_eq!((issuer.exchanges().len(), server.sessions().len()), (4, 3));
    let (_, last) = server.received("tools/call").pop().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer x-ann-4"));
    // The same subject of another version of the record is another one.
    let update = json!({"description": "changed"});
    assert_eq!(
        gateway.control(Method::PUT, "/v1/mcp-servers/crm").json(&update).send().await.unwrap().status(),
        200
    );
    assert_eq!(called(&gateway, &renewed, "crm__echo").await, "ann called echo");
    assert_eq!((issuer.exchanges().len(), server.sessions().len()), (5, 4));
}

#[tokio::test]
async fn clients_without_a_token_learn_what_to_do() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    gateway
        .create("/v1/mcp-bundles", &json!({"name": "Few", "slug": "few", "servers": [{"server": "crm"}]}))
        .await;
    let listed = by(&gateway, PLAIN, "/mcp", "tools/list", json!({})).await;
    assert!(listed.names("tools").is_empty());
    let warning = listed.headers["x-gateway-warnings"].to_str().unwrap();
    assert_eq!(warning, "crm: not listed without a token of the identity provider");
    let message = "The MCP server crm is used in the name of a person, and a service key names none. Send a token of the identity \
                   provider (auth.jwt of the settings) in its place.";
    assert_eq!(refused(&gateway, PLAIN).await, message);
    for path in ["/mcp/crm", "/mcp/few"] {
        for (method, params) in
            [("initialize", json!({})), ("tools/list", json!({})), ("tools/call", call("echo", json!({})))]
        {
            let got = by(&gateway, PLAIN, path, method, params).await;
            assert_eq!(
                (got.status, &got.body["error"]["message"]),
                (403, &json!(message)),
                "{path} {method}"
            );
        }
    }
    let provider = chat_model(|| json!([])).await;
    let entry = json!({"type": "mcp", "server_label": "crm", "require_approval": "never"});
    let (status, answer) = chat_by(&gateway, PLAIN, &provider.base_url(), &entry).await;
    assert_eq!((status, &answer["error"]["message"]), (403, &json!(message)), "{answer}");
    assert_eq!(answer["error"]["param"], "tools[0].server_label");
    assert!(
        server.provider.received().is_empty()
            && issuer.exchanges().is_empty()
            && provider.received().is_empty()
    );
}

/// The same where the port demands no key, and no identity provider is named.
#[tokio::test]
async fn clients_of_an_open_port_learn_the_same() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = Gateway::start(SETTINGS);
    save(&gateway, &issuer, &server, &json!({})).await;
    assert!(old(&gateway, "/mcp", "tools/list", json!({})).await.names("tools").is_empty());
    let got = old(&gateway, "/mcp", "tools/call", call("crm__echo", json!({}))).await;
    assert!(
        got.body["error"]["message"].as_str().unwrap().contains("in the name of a person"),
        "{}",
        got.body
    );
    // A token that nobody verifies is no token.
    let got =
        by(&gateway, &issuer.token("ann", &json!({})), "/mcp", "tools/call", call("crm__echo", json!({})))
            .await;
    assert!(got.body["error"]["message"].is_string(), "{}", got.body);
    assert!(server.provider.received().is_empty() && issuer.exchanges().is_empty());
}

/// A chat of a client with this key or token.
async fn chat_by(gateway: &Gateway, key: &str, host: &str, entry: &Value) -> (u16, Value) {
    let response = client()
        .post(format!("{}/chat/completions", gateway.base_url()))
        .bearer_auth("sk-callers-own-0123")
        .header("x-gateway-api-key", key)
        .header("x-gateway-provider", "openai")
        .header("x-gateway-custom-host", host)
        .header("x-gateway-trace-id", new_trace())
        .json(&chat(false, &json!({"tools": [entry]})))
        .send()
        .await
        .unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn the_rounds_of_a_chat_call_in_the_name_of_their_client() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    let provider = chat_model(|| json!([model_call(0, "c1", "crm__only_bob", &json!({}))])).await;
    let entry = json!({"type": "mcp", "server_label": "crm", "require_approval": "never"});
    let token = issuer.token("bob", &json!({}));
    let (status, answer) = chat_by(&gateway, &token, &provider.base_url(), &entry).await;
    assert_eq!((status, &answer["mcp_calls"][0]["status"]), (200, &json!("completed")), "{answer}");
    let second = provider.received().pop().unwrap().text();
    assert!(second.contains("bob called only_bob"), "{second}");
    assert!(provider.received().iter().all(|sent| !sent.text().contains(&token)));
    let (_, sent) = server.received("tools/call").pop().unwrap();
    assert_eq!(sent.header("authorization"), Some("Bearer x-bob-1"));
    // Another client is told why there are no tools.
    issuer.set(|_, _| http("400 Bad Request", "", "application/json", r#"{"error":"invalid_target"}"#));
    let (status, answer) =
        chat_by(&gateway, &issuer.token("ann", &json!({})), &provider.base_url(), &entry).await;
    assert_eq!((status, &answer["error"]["param"]), (502, &json!("tools[0].server_label")), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("invalid_target") && message.contains("the operator must check audience"),
        "{message}"
    );
}

#[tokio::test]
async fn a_token_that_is_over_is_not_kept() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    issuer.set(|number, subject| good(number, subject, 0));
    let ann = issuer.token("ann", &json!({}));
    called(&gateway, &ann, "crm__echo").await;
    let before = issuer.exchanges().len();
    called(&gateway, &ann, "crm__echo").await;
    assert!(issuer.exchanges().len() > before, "its time was over at once");
    // No longer than the client's own: clocks may differ by a minute, so that one is taken that ended just now.
    issuer.set(|number, subject| good(number, subject, 3600));
    let end = jiff::Timestamp::now().as_second() - 20;
    let bob = issuer.token("bob", &json!({"exp": end}));
    called(&gateway, &bob, "crm__echo").await;
    let before = issuer.exchanges().len();
    called(&gateway, &bob, "crm__echo").await;
    assert!(issuer.exchanges().len() > before, "the client's token was over");
    let cid = issuer.token("cid", &json!({}));
    called(&gateway, &cid, "crm__echo").await;
    let before = issuer.exchanges().len();
    called(&gateway, &cid, "crm__echo").await;
    assert_eq!(issuer.exchanges().len(), before, "a good one is kept");
}

#[tokio::test]
async fn a_server_that_refuses_a_token_costs_no_storm() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    let ann = issuer.token("ann", &json!({}));
    called(&gateway, &ann, "crm__echo").await;
    server.revoke("x-ann-1");
    for _ in 0..3 {
        assert_eq!(refused(&gateway, &ann).await, "The MCP server does not take the gateway's request.");
    }
    // As with the gateway's own tokens: a new one is fetched a minute after the last one, and not with each call.
    assert_eq!(issuer.exchanges().len(), 1);
    let bob = issuer.token("bob", &json!({}));
    assert_eq!(called(&gateway, &bob, "crm__echo").await, "bob called echo", "others are not concerned");
}

#[tokio::test]
async fn token_endpoints_that_fail_and_lie_are_errors_with_advice() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    let json_of = |body: String| http("200 OK", "", "application/json", &body);
    let with = move |more: Value| {
        let mut all = json!({"access_token": "x-eve-1", "token_type": "Bearer", "expires_in": 60});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json_of(all.to_string())
    };
    let own = issuer.token("echo", &json!({}));
    let giant = format!(
        "{{\"access_token\":\"x-eve-1\",\"token_type\":\"Bearer\",\"pad\":\"{}\"}}",
        "x".repeat(1 << 20)
    );
    for (subject, answer, wanted) in [
        ("down", http("503 Service Unavailable", "", "text/plain", "down"), "status 503"),
        ("closed", Vec::new(), "got no usable answer"),
        ("giant", json_of(giant), "got no usable answer"),
        ("malformed", json_of("{\"access_token\":".to_owned()), "is no token"),
        ("elsewhere", http("302 Found", "location: http://127.0.0.1:1/\r\n", "text/plain", ""), "status 302"),
        (
            "refused",
            http(
                "400 Bad Request",
                "",
                "application/json",
                r#"{"error":"invalid_grant","error_description":"eyJ.leak"}"#,
            ),
            "sign in again",
        ),
        ("n_a", with(json!({"token_type": "N_A"})), "token_type"),
        (
            "saml",
            with(json!({"issued_token_type": "urn:ietf:params:oauth:token-type:saml2"})),
            "issued_token_type",
        ),
        ("header", with(json!({"access_token": "a\r\nx-evil: 1"})), "does not fit a header"),
        ("echo", with(json!({"access_token": own})), "the client's own token"),
    ] {
        issuer.set(move |_, _| answer.clone());
        let token = if subject == "echo" { own.clone() } else { issuer.token(subject, &json!({})) };
        let message = refused(&gateway, &token).await;
        assert!(message.starts_with("The exchange of the client's token"), "{subject}: {message}");
        assert!(message.contains(wanted) && !message.contains("eyJ"), "{subject}: {message}");
        // A failure counts for a moment: the list that follows has no exchange of its own, and says the same.
        let count = issuer.exchanges().len();
        let listed = by(&gateway, &token, "/mcp/crm", "tools/list", json!({})).await;
        assert_eq!(listed.body["error"]["message"], json!(message), "{subject}: {}", listed.body);
        assert_eq!(issuer.exchanges().len(), count, "{subject}");
    }
    assert!(server.provider.received().is_empty(), "nothing is sent without a token");
    // It is for each token alone, and over soon.
    issuer.set(|number, subject| good(number, subject, 60));
    assert_eq!(called(&gateway, &issuer.token("ann", &json!({})), "crm__echo").await, "ann called echo");
    let metrics = gateway.metrics().await;
    assert!(metrics.contains("turnpike_grants_total{outcome=\"failed\"} 10"), "{metrics}");
    assert!(metrics.contains("turnpike_grants_total{outcome=\"fetched\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_token_endpoint_that_hangs_is_given_up() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    // The head comes, and the body never.
    issuer.set(|_, _| {
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{".to_vec()
    });
    let begin = std::time::Instant::now();
    let message = refused(&gateway, &issuer.token("ann", &json!({}))).await;
    assert!(begin.elapsed().as_secs() < 18, "{:?}", begin.elapsed());
    assert!(message.starts_with("The exchange of the client's token"), "{message}");
    assert!(server.provider.received().is_empty());
    assert_eq!(issuer.exchanges().len(), 1, "the failure is remembered");
}

/// The operations of an API are called with the issued token as well.
#[tokio::test]
async fn an_api_is_called_in_the_name_of_a_person() {
    let issuer = Issuer::start().await;
    let api = Provider::start(|message| {
        let who = message.header("authorization").unwrap_or("nobody").to_owned();
        http("200 OK", "", "application/json", &json!({"who": who}).to_string())
    })
    .await;
    let gateway = issuer.gateway("");
    let document = json!({"openapi": "3.1.0", "info": {"title": "Me", "version": "1"},
        "paths": {"/me": {"get": {"operationId": "me", "responses": {"200": {"description": "ok"}}}}}});
    let object = json!({"name": "Me", "slug": "self", "url": format!("http://127.0.0.1:{}", api.port), "access": ALL(),
        "openapi": {"document": document}, "configurations": {"token_exchange": {"token_url": issuer.url(), "client_id": "gw"}}});
    gateway.create("/v1/mcp-servers", &object).await;
    let token = issuer.token("ann", &json!({}));
    let got = by(&gateway, &token, "/mcp", "tools/call", call("self__me", json!({}))).await;
    assert_eq!(got.result()["structuredContent"], json!({"who": "Bearer x-ann-1"}), "{}", got.body);
    assert_eq!(field(&issuer.exchanges()[0], "client_id"), "gw", "a public client names itself");
    assert!(issuer.exchanges()[0].header("authorization").is_none());
    let got = by(&gateway, PLAIN, "/mcp", "tools/call", call("self__me", json!({}))).await;
    assert!(
        got.body["error"]["message"].as_str().unwrap().contains("in the name of a person"),
        "{}",
        got.body
    );
    assert_eq!(api.received().len(), 1);
    // Its list is that of its document, for whoever may read it.
    let tools = gateway.read("/v1/mcp-servers/self/tools").await;
    assert_eq!(tools["data"][0]["name"], "me", "{tools}");
}
