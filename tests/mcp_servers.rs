//! Saved MCP servers on the running binary: create, list, read, update, delete; what a server is by its own account, read from one
//! made with the official Python SDK; nothing of their headers comes back.
//!
//! Who may call is in `control_access`; which URLs and headers are refused, in the unit tests of `control::mcp_servers`.

use crate::support::Gateway;
use crate::support::sdk_server::SdkServer;
use crate::support::stores::{is_postgres, on_each_store};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

const SECRET: &str = "canary-mcp-token";
/// The servers of the tests are on loopback, where nothing of the store may go by default.
const SETTINGS: &str = "custom_hosts: {allow: [127.0.0.1]}\nlog: {level: debug}\n";

/// A call with the operator's key. No response ever contains a secret.
async fn call(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let response = gateway.control(method, path).json(body).send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    assert!(!text.contains("canary"), "{path}: {text}");
    (status, serde_json::from_str(&text).unwrap_or_default())
}

async fn created(gateway: &Gateway, body: &Value) -> Value {
    let (status, made) = call(gateway, Method::POST, "/v1/mcp-servers", body).await;
    assert_eq!(status, 200, "{made}");
    made
}

async fn metadata(gateway: &Gateway, slug: &str) -> Value {
    let path = format!("/v1/mcp-servers/{slug}/metadata");
    let (status, metadata) = call(gateway, Method::GET, &path, &Value::Null).await;
    assert_eq!(status, 200, "{metadata}");
    metadata
}

async fn tested(gateway: &Gateway, slug: &str) -> Value {
    let (status, tested) =
        call(gateway, Method::POST, &format!("/v1/mcp-servers/{slug}/test"), &json!({})).await;
    assert_eq!(status, 200, "{tested}");
    tested
}

#[tokio::test]
async fn servers_are_saved_listed_changed_and_removed() {
    on_each_store(async || {
        let gateway = Gateway::start(SETTINGS);
        let url = "https://tools.example.com/mcp";
        let headers = json!({"Authorization": format!("Bearer {SECRET}")});
        let body = json!({"name": "My tools", "url": url, "description": "Adds.", "slug": "tools",
        "mcp_integration_id": "int-1", "auth_type": "headers", "transport": "http",
        "configurations": {"custom_headers": headers}});
        let made = created(&gateway, &body).await;
        let id = made["id"].as_str().unwrap();
        let (status, read) = call(&gateway, Method::GET, "/v1/mcp-servers/tools", &Value::Null).await;
        assert_eq!(status, 200);
        for (member, value) in [
            ("id", json!(id)),
            ("slug", json!("tools")),
            ("name", json!("My tools")),
            ("url", json!(url)),
            ("auth_type", json!("headers")),
            ("transport", json!("http")),
            ("configurations", json!({"custom_headers": {"authorization": "*****"}})),
            ("mcp_integration_id", json!("int-1")),
            ("status", json!("active")),
            ("object", json!("mcp-server")),
        ] {
            assert_eq!(read[member], value, "{member}");
        }
        let (_, list) = call(&gateway, Method::GET, "/v1/mcp-servers", &Value::Null).await;
        assert_eq!((&list["total"], &list["data"][0]), (&json!(1), &read));
        for (named, total) in [(id, 1), ("tools", 1), ("tool", 0)] {
            let path = format!("/v1/mcp-servers?id={named}");
            let (_, list) = call(&gateway, Method::GET, &path, &Value::Null).await;
            assert_eq!(list["total"], total, "{named}: {list}");
        }
        let (status, taken) = call(&gateway, Method::POST, "/v1/mcp-servers", &body).await;
        assert_eq!((status, &taken["data"]["errorCode"]), (409, &json!("AB07")));

        // What a client read and sends back keeps the secret.
        let update = json!({"name": "Other name", "configurations": read["configurations"]});
        assert_eq!(call(&gateway, Method::PUT, &format!("/v1/mcp-servers/{id}"), &update).await.0, 200);
        let (_, read) = call(&gateway, Method::GET, &format!("/v1/mcp-servers/{id}"), &Value::Null).await;
        assert_eq!((&read["name"], &read["description"]), (&json!("Other name"), &json!("Adds.")));
        assert_eq!(read["configurations"]["custom_headers"]["authorization"], "*****");
        let elsewhere = json!({"url": "https://evil.example.com/mcp"});
        let (status, refused) = call(&gateway, Method::PUT, "/v1/mcp-servers/tools", &elsewhere).await;
        assert_eq!(status, 400);
        assert_eq!(refused["error"]["details"][0]["path"], "configurations.custom_headers", "{refused}");

        assert_eq!(
            call(&gateway, Method::DELETE, "/v1/mcp-servers/tools", &json!({})).await,
            (200, json!({}))
        );
        for path in ["/v1/mcp-servers/tools", "/v1/mcp-servers/tools/metadata"] {
            assert_eq!(call(&gateway, Method::GET, path, &Value::Null).await.0, 404, "{path}");
        }
        let named = created(&gateway, &json!({"name": "No slug!", "url": url})).await;
        assert!(named["slug"].as_str().unwrap().starts_with("mcp-noslug-"), "{named}");
        assert_no_secret(&gateway).await;
    })
    .await;
}

/// Neither in the audit log, nor in the process's own, nor in a file of the store.
async fn assert_no_secret(gateway: &Gateway) {
    let path =
        "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&organisation_id=o";
    let (status, entries) = call(gateway, Method::GET, path, &Value::Null).await;
    assert!(status == 200 && entries.to_string().contains("mcp-servers"), "{entries}");
    let log = gateway.log();
    assert!(!log.contains("canary"), "{log}");
    if is_postgres() {
        return;
    }
    let mut files = 0;
    for entry in std::fs::read_dir(gateway.folder().join("data")).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        assert!(!bytes.windows(6).any(|window| window == b"canary"), "{:?}", entry.path());
        files += 1;
    }
    assert!(files > 0, "no database in {:?}", gateway.folder());
}

#[tokio::test]
async fn what_cannot_be_saved_is_refused_with_every_problem() {
    let gateway = Gateway::start("");
    let url = "https://tools.example.com/mcp";
    for (body, paths) in [
        (json!({}), vec!["name"]),
        (json!({"name": "n"}), vec!["url"]),
        (json!({"name": "n", "url": url, "slug": "ab"}), vec!["slug"]),
        (json!({"name": "n", "url": url, "slug": "s".repeat(51)}), vec!["slug"]),
        (json!({"name": "n", "url": url, "description": "d".repeat(501)}), vec!["description"]),
        (json!({"name": "n", "url": url, "surprise": 1}), vec!["surprise"]),
        (
            json!({"name": "n", "url": url, "auth_type": "oauth_auto", "transport": "sse"}),
            vec!["auth_type", "transport"],
        ),
        // Private addresses are refused unless the settings open them.
        (json!({"name": "n", "url": "http://127.0.0.1:9/mcp"}), vec!["url"]),
        (json!({"name": "n", "url": "http://169.254.169.254/mcp"}), vec!["url"]),
    ] {
        let (status, refused) = call(&gateway, Method::POST, "/v1/mcp-servers", &body).await;
        assert_eq!((status, &refused["data"]["errorCode"]), (400, &json!("AB01")), "{body}: {refused}");
        let details = refused["error"]["details"].as_array().unwrap();
        let found: Vec<&str> = details.iter().map(|detail| detail["path"].as_str().unwrap()).collect();
        assert_eq!(found, paths, "{body}: {refused}");
    }
    for path in [
        "/v1/mcp-servers/unknown/metadata",
        "/v1/mcp-servers/unknown",
        "/v1/mcp-servers/00000000-0000-7000-8000-000000000000/metadata",
    ] {
        let (status, missing) = call(&gateway, Method::GET, path, &Value::Null).await;
        assert_eq!((status, &missing["data"]["errorCode"]), (404, &json!("AB08")), "{path}: {missing}");
    }
}

/// With a range open, names are judged by their addresses, when they are called.
#[tokio::test]
async fn a_name_with_a_private_address_is_refused_after_dns() {
    on_each_store(async || {
        let gateway = Gateway::start("custom_hosts: {allow: [10.9.9.9]}\n");
        let url = format!("http://localhost:{}/mcp", gateway.ports.emulator);
        created(&gateway, &json!({"name": "n", "slug": "private", "url": url})).await;
        let failed = metadata(&gateway, "private").await;
        assert_eq!(
            (&failed["sync_status"], &failed["server_name"]),
            (&json!("failed"), &Value::Null),
            "{failed}"
        );
        assert!(failed["sync_error"].as_str().unwrap().contains("not public"), "{failed}");
        assert_eq!(tested(&gateway, "private").await["status_code"], Value::Null);
    })
    .await;
}

#[tokio::test]
async fn metadata_are_what_a_server_of_the_official_sdk_reports() {
    on_each_store(async || {
        let Some(server) = SdkServer::start() else { return };
        let gateway = Gateway::start(SETTINGS);
        for name in ["stateful", "stateless", "bare"] {
            created(&gateway, &json!({"name": name, "slug": name, "url": server.url(name)})).await;
        }
        for name in ["stateful", "stateless"] {
            // One session for all who want to know at a time, and for all who do for some minutes.
            let first = join_all((0..20).map(|_| metadata(&gateway, name))).await;
            for found in first.iter().chain([&metadata(&gateway, name).await]) {
                assert_reported(found);
                assert_eq!(found, &first[0]);
            }
            assert_eq!(server.calls().await[name], 1, "{name}");
            let tested = tested(&gateway, name).await;
            assert_eq!(
                (&tested["success"], &tested["status_code"], &tested["server_name"], &tested["error"]),
                (&json!(true), &json!(200), &json!("test-tools"), &Value::Null),
            );
            assert_eq!(tested["url"], server.url(name));
            assert!(tested["response_time_ms"].as_u64().unwrap() < 10_000);
            assert_eq!(server.calls().await[name], 2, "a test is a session of its own");
        }
        let bare = metadata(&gateway, "bare").await;
        assert_eq!(
            (&bare["server_name"], &bare["sync_status"]),
            (&json!("bare"), &json!("synced")),
            "{bare}"
        );
        let flags = bare["capability_flags"].as_object().unwrap();
        assert!(flags.values().all(|flag| flag == &json!(false)) && bare["tools"] == json!([]), "{bare}");
        // Another address is another server: nothing of the old one is shown.
        let update = json!({"url": server.url("none")});
        assert_eq!(call(&gateway, Method::PUT, "/v1/mcp-servers/stateful", &update).await.0, 200);
        let changed = metadata(&gateway, "stateful").await;
        assert_eq!(
            (&changed["sync_status"], &changed["server_name"]),
            (&json!("failed"), &Value::Null),
            "{changed}"
        );
        assert!(changed["sync_error"].as_str().unwrap().contains("404"), "{changed}");
    })
    .await;
}

fn assert_reported(found: &Value) {
    for (member, value) in [
        ("server_name", json!("test-tools")),
        ("server_version", json!("1.2.3")),
        ("title", json!("Tools of the tests")),
        ("description", json!("Adds numbers.")),
        // Not the one that a page must not show.
        (
            "icons",
            json!([{"src": "https://tools.example/icon.png", "mime_type": "image/png", "sizes": ["48x48"]}]),
        ),
        ("tools", json!(["add", "subtract"])),
        ("prompts", json!(["greeting"])),
        ("resources", json!(["settings"])),
        ("sync_status", json!("synced")),
        ("sync_error", Value::Null),
    ] {
        assert_eq!(found[member], value, "{member}: {found}");
    }
    assert!(found["protocol_version"].as_str().unwrap() >= "2025-06-18", "{found}");
    for flag in ["tools", "prompts", "resources"] {
        assert_eq!(found["capability_flags"][flag], true, "{flag}: {found}");
    }
    assert!(found["last_synced_at"].as_str().unwrap().ends_with('Z'), "{found}");
}

/// A server that repeats what it refuses must not get the secret into a response.
#[tokio::test]
async fn headers_reach_the_server_only() {
    on_each_store(async || {
        let Some(server) = SdkServer::start() else { return };
        let gateway = Gateway::start(SETTINGS);
        let with_token = |slug: &str, token: &str| {
            json!({"name": slug, "slug": slug, "url": server.url("guarded"),
            "configurations": {"custom_headers": {"Authorization": format!("Bearer {token}")}}})
        };
        created(&gateway, &with_token("right", "of-the-tests")).await;
        assert_reported(&metadata(&gateway, "right").await);
        created(&gateway, &with_token("wrong", SECRET)).await;
        let refused = metadata(&gateway, "wrong").await;
        assert_eq!(
            (&refused["sync_status"], &refused["last_synced_at"]),
            (&json!("failed"), &Value::Null),
            "{refused}"
        );
        let tested = tested(&gateway, "wrong").await;
        assert_eq!((&tested["success"], &tested["status_code"]), (&json!(false), &json!(401)), "{tested}");
        assert!(tested["error"].as_str().unwrap().contains("wrong credentials"), "it is repeated: {tested}");
        // The right ones are used as soon as they are saved.
        let (status, _) =
            call(&gateway, Method::PUT, "/v1/mcp-servers/wrong", &with_token("another", "of-the-tests"))
                .await;
        assert_eq!(status, 400, "the slug cannot be changed");
        let update = json!({"configurations": {"custom_headers": {"authorization": "Bearer of-the-tests"}}});
        assert_eq!(call(&gateway, Method::PUT, "/v1/mcp-servers/wrong", &update).await.0, 200);
        assert_reported(&metadata(&gateway, "wrong").await);
        assert_no_secret(&gateway).await;
    })
    .await;
}

/// A server that does not answer, or answers something else, is a failed synchronisation and no error of the request.
#[tokio::test]
async fn servers_that_are_none_are_a_failed_synchronisation() {
    on_each_store(async || {
        let gateway = Gateway::start(SETTINGS);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = format!("http://{}/mcp", listener.local_addr().unwrap());
        let emulator = gateway.emulator_url();
        let unused = crate::support::ports::Ports::free().data;
        for (slug, url) in [
            ("refusing", format!("http://127.0.0.1:{unused}/mcp")),
            ("emulator", format!("{emulator}/v1/chat/completions")),
            ("silent", silent),
        ] {
            created(&gateway, &json!({"name": slug, "slug": slug, "url": url})).await;
        }
        for slug in ["refusing", "emulator"] {
            let failed = metadata(&gateway, slug).await;
            assert_eq!(
                (&failed["sync_status"], &failed["capability_flags"]),
                (&json!("failed"), &Value::Null),
                "{failed}"
            );
            assert!(failed["sync_error"].as_str().unwrap().starts_with("initialize: "), "{failed}");
            assert_eq!(tested(&gateway, slug).await["success"], false);
        }
        // It is not waited for to the end: the request shows what is there, and a later one the end.
        let pending = metadata(&gateway, "silent").await;
        assert_eq!(
            (&pending["sync_status"], &pending["sync_error"]),
            (&json!("pending"), &Value::Null),
            "{pending}"
        );
        let failed = metadata(&gateway, "silent").await;
        assert!(failed["sync_status"] != "synced", "{failed}");
        drop(listener);
    })
    .await;
}
