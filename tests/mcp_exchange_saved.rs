//! MCP servers that act for persons, on the running binary: what is saved of the exchange of tokens, where tokens may be sent, files, approvals,
//! and the control API, which acts for a person or not at all.
//!
//! Calls are `mcp_exchange`; the identity provider and the server are `support::mcp_persons`.

use crate::support::client::client;
use crate::support::mcp_client::{ALL, call};
use crate::support::mcp_persons::{Issuer, PersonServer, by, called, field, refused, save};
use crate::support::wait;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn what_is_saved_is_checked_masked_and_stays_with_its_hosts() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("    exchange_urls: ['https://sts.example.net']\n");
    save(&gateway, &issuer, &server, &json!({"client_secret_in": "form", "audience": "crm"})).await;
    let path = "/v1/mcp-servers/crm";
    let shown = gateway.read(path).await;
    let wanted = json!({"token_url": issuer.url(), "client_id": "gw", "client_secret": "*****", "client_secret_in": "form", "audience": "crm"});
    assert_eq!(
        (&shown["auth_type"], &shown["configurations"]["token_exchange"]),
        (&json!("token_exchange"), &wanted)
    );
    let put = async |body: Value| {
        let response = gateway.control(Method::PUT, path).json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        let error: Value = response.json().await.unwrap();
        (status, error["error"]["param"].as_str().unwrap_or_default().to_owned())
    };
    let with = |name: &str, value: Value| {
        let mut exchange = wanted.clone();
        exchange[name] = value;
        json!({"configurations": {"token_exchange": exchange}})
    };
    let at = |name: &str| (400, format!("configurations.token_exchange{name}"));
    // The mask keeps the secret where it is, and nowhere else.
    assert_eq!(put(with("scope", json!("read"))).await.0, 200);
    assert_eq!(called(&gateway, &issuer.token("ann", &json!({})), "crm__echo").await, "ann called echo");
    assert_eq!(field(&issuer.exchanges()[0], "client_secret"), "very-secret-1");
    assert_eq!(put(with("token_url", json!("https://sts.example.net/token"))).await, at(".client_secret"));
    assert_eq!(put(json!({"url": "http://127.0.0.1:1/mcp"})).await, at(".client_secret"));
    assert_eq!(put(with("client_secret", json!(""))).await, at(".client_secret"));
    // Clients' tokens go where the settings say.
    let elsewhere = json!({"token_url": "https://evil.example/token", "client_id": "gw"});
    assert_eq!(put(json!({"configurations": {"token_exchange": elsewhere}})).await, at(".token_url"));
    let plain = json!({"token_url": "http://sts.example.net/token", "client_id": "gw"});
    assert_eq!(
        put(json!({"configurations": {"token_exchange": plain}})).await.1,
        "configurations.token_exchange.token_url"
    );
    let public = json!({"token_url": "https://sts.example.net/token", "client_id": "gw"});
    assert_eq!(put(json!({"configurations": {"token_exchange": public}})).await.0, 200);
    let both = json!({"token_exchange": public, "oauth": {"token_url": "https://sts.example.net/token", "client_id": "a", "client_secret": "b"}});
    assert_eq!(put(json!({"configurations": both})).await, at(""));
    let header = json!({"token_exchange": public, "custom_headers": {"authorization": "Bearer x"}});
    assert_eq!(
        put(json!({"configurations": header})).await,
        (400, "configurations.custom_headers.authorization".to_owned())
    );
    assert_eq!(put(json!({"auth_type": "token_exchange", "configurations": {}})).await, at(""));
    assert_eq!(
        put(json!({"auth_type": "headers", "configurations": {"token_exchange": public}})).await.1,
        "auth_type"
    );
    assert_eq!(put(json!({"auth_type": "none"})).await.0, 200);
    assert_eq!(gateway.read(path).await["configurations"], json!({"custom_headers": {}}));
    let audited = gateway.read("/v1/audit-logs").await.to_string();
    assert!(audited.contains("token_exchange") && !audited.contains("very-secret"), "{audited}");
}

#[tokio::test]
async fn the_control_api_calls_in_the_name_of_a_person_or_not_at_all() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    save(&gateway, &issuer, &server, &json!({})).await;
    let token = issuer.token("ann", &json!({}));
    let path = "/v1/mcp-servers/crm";
    let metadata = gateway.read(&format!("{path}/metadata")).await;
    assert_eq!(metadata["sync_status"], "failed", "{metadata}");
    assert!(
        metadata["sync_error"].as_str().unwrap().starts_with("nothing is called without a person"),
        "{metadata}"
    );
    let tested =
        async |call: reqwest::RequestBuilder| -> Value { call.send().await.unwrap().json().await.unwrap() };
    let by_key = tested(gateway.control(Method::POST, &format!("{path}/test"))).await;
    assert_eq!((&by_key["success"], &by_key["status_code"]), (&json!(false), &Value::Null), "{by_key}");
    assert!(by_key["error"].as_str().unwrap().contains("Send a token of the identity provider"), "{by_key}");
    let listed = gateway.control(Method::GET, &format!("{path}/tools")).send().await.unwrap();
    assert_eq!(listed.status(), 403);
    assert!(server.provider.received().is_empty() && issuer.exchanges().is_empty());
    let control = |method: Method, way: &str| {
        client().request(method, format!("{}{path}/{way}", gateway.control_url())).bearer_auth(&token)
    };
    let by_person = tested(control(Method::POST, "test")).await;
    assert_eq!(
        (&by_person["success"], &by_person["server_name"]),
        (&json!(true), &json!("of ann")),
        "{by_person}"
    );
    let tools = tested(control(Method::GET, "tools")).await;
    let names: Vec<&str> =
        tools["data"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "only_ann"], "{tools}");
}

/// An approval is of a definition, and one person's list is not all there is.
#[tokio::test]
async fn approvals_of_one_persons_list_leave_those_of_others() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("    write_roles: [admin]\n");
    save(&gateway, &issuer, &server, &json!({})).await;
    let path = "/v1/mcp-servers/crm";
    let access = json!({"access": {"tools": {"allow": ["only_*"]}, "approved_only": true}});
    assert_eq!(gateway.control(Method::PUT, path).json(&access).send().await.unwrap().status(), 200);
    let scopes = json!({"role": "admin", "scope": "mcp.invoke mcp_servers.read mcp_servers.update"});
    let tokens = ["ann", "bob"].map(|name| issuer.token(name, &scopes));
    for token in &tokens {
        assert!(by(&gateway, token, "/mcp", "tools/list", json!({})).await.names("tools").is_empty());
        let approve =
            client().post(format!("{}{path}/tools/approve", gateway.control_url())).bearer_auth(token);
        let response = approve.json(&json!({"all": true})).send().await.unwrap();
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
    }
    for (token, name) in tokens.iter().zip(["crm__only_ann", "crm__only_bob"]) {
        assert_eq!(by(&gateway, token, "/mcp", "tools/list", json!({})).await.names("tools"), [name]);
    }
    // `echo` of ann and bob differ, so that the approval of the one is a change to the other, whoever lists last.
    let changed = "turnpike_mcp_changed_tools{server=\"crm\"}";
    assert_eq!(gateway.metric(changed).await, Some(0.0), "bob approved what he has");
    let again = issuer.token("ann", &json!({"jti": "2", "scope": "mcp.invoke"}));
    let update = json!({"description": "lists again"});
    assert_eq!(gateway.control(Method::PUT, path).json(&update).send().await.unwrap().status(), 200);
    by(&gateway, &again, "/mcp", "tools/list", json!({})).await;
    assert_eq!(gateway.metric(changed).await, Some(1.0));
}

/// Whoever may save a server must not learn the tokens of its clients, also where the settings have changed since.
#[tokio::test]
async fn tokens_go_where_the_settings_allow_it_now() {
    let issuer = Issuer::start().await;
    let other = Issuer::start().await;
    let server = PersonServer::start().await;
    let lines = format!("    exchange_urls: ['http://127.0.0.1:{}']\n", other.port());
    let gateway = issuer.gateway(&lines);
    save(&gateway, &issuer, &server, &json!({"token_url": other.url()})).await;
    let ann = issuer.token("ann", &json!({}));
    assert_eq!(called(&gateway, &ann, "crm__echo").await, "ann called echo");
    assert_eq!((other.exchanges().len(), issuer.exchanges().len()), (1, 0));
    gateway.reload(&issuer.settings(""));
    let bob = issuer.token("bob", &json!({}));
    let message = wait::until("the reload", async || {
        let got = by(&gateway, &bob, "/mcp", "tools/call", call("crm__echo", json!({}))).await;
        got.body["error"]["message"].as_str().map(str::to_owned)
    })
    .await;
    assert!(message.contains("at no host where tokens may be exchanged"), "{message}");
    assert!(message.contains("auth.jwt.exchange_urls"), "{message}");
    let before = other.exchanges().len();
    // Also not one that was exchanged before.
    assert_eq!(refused(&gateway, &ann).await, message);
    assert_eq!((other.exchanges().len(), issuer.exchanges().len()), (before, 0));
}

/// As an object of a file.
#[tokio::test]
async fn an_exported_server_is_applied_as_it_is() {
    let issuer = Issuer::start().await;
    let server = PersonServer::start().await;
    let gateway = issuer.gateway("");
    let exchange = json!({"token_url": issuer.url(), "client_id": "gw", "client_secret": "very-secret-1", "client_secret_in": "form"});
    let object = json!({"kind": "mcp-servers", "slug": "crm", "name": "crm", "url": server.url(), "access": ALL(),
        "configurations": {"token_exchange": exchange}});
    let apply = async |object: &Value| -> Value {
        let body = json!({"set": "s", "objects": [object]});
        let response = gateway.control(Method::POST, "/v1/apply").json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        let plan: Value = response.json().await.unwrap();
        assert_eq!(status, 200, "{plan}");
        plan["totals"].clone()
    };
    assert_eq!(apply(&object).await, json!({"create": 1}));
    let exported = gateway.read("/v1/export?set=s").await;
    let found =
        exported["objects"].as_array().unwrap().iter().find(|object| object["slug"] == "crm").unwrap();
    // A file has no secret: it names where one is.
    let secret = "MCP_SERVERS_CRM_CONFIGURATIONS_TOKEN_EXCHANGE_CLIENT_SECRET";
    let shown = &found["configurations"]["token_exchange"];
    assert_eq!(
        (&shown["client_secret_in"], &shown["client_secret"]),
        (&json!("form"), &json!({"from_env": secret})),
        "{found}"
    );
    let mut same = found.clone();
    same["configurations"]["token_exchange"]["client_secret"] = json!("very-secret-1");
    assert_eq!(apply(&same).await, json!({"unchanged": 1}), "{found}");
    same["configurations"]["token_exchange"]["audience"] = json!("crm");
    assert_eq!(apply(&same).await, json!({"update": 1}));
    called(&gateway, &issuer.token("ann", &json!({})), "crm__echo").await;
    let sent = issuer.exchanges().pop().unwrap();
    assert_eq!(
        (field(&sent, "client_secret"), field(&sent, "audience")),
        ("very-secret-1".to_owned(), "crm".to_owned())
    );
}
