//! Exports of logs: from the draft to the file, its link, what is in it, and who may have it.

use crate::support::client::{chat, client, hello, new_trace, status};
use crate::support::settings::{KEY, LISTEN, OPERATOR_KEY, STANDARD};
use crate::support::stores::on_each_store;
use crate::support::{Gateway, wait};
use flate2::read::GzDecoder;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::Read as _;

async fn call_as(gateway: &Gateway, key: &str, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}{path}", gateway.control_url());
    let call = client().request(method, url).header("x-gateway-api-key", key);
    let call = if body.is_null() { call } else { call.json(body) };
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

async fn call(gateway: &Gateway, method: Method, path: &str, body: &Value) -> Value {
    let (status, answer) = call_as(gateway, OPERATOR_KEY, method, path, body).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Waits until the log store has so many logs.
async fn until_logged(gateway: &Gateway, count: u64) {
    wait::until("the logs", async || {
        let found = call(gateway, Method::GET, "/v1/logs?page_size=1", &Value::Null).await;
        (found["total"].as_u64() >= Some(count)).then_some(())
    })
    .await;
}

/// Makes an export with these filters, starts it, and returns its id and the link to its file.
async fn exported(gateway: &Gateway, filters: Value, columns: &[&str]) -> (String, String) {
    let body = json!({"filters": filters, "requested_data": columns, "description": "of a test"});
    let made = call(gateway, Method::POST, "/v1/logs/exports", &body).await;
    let id = made["id"].as_str().unwrap().to_owned();
    call(gateway, Method::POST, &format!("/v1/logs/exports/{id}/start"), &Value::Null).await;
    let found = call(gateway, Method::GET, &format!("/v1/logs/exports/{id}"), &Value::Null).await;
    assert_eq!((&found["status"], &found["object"]), (&json!("success"), &json!("export")), "{found}");
    let link = call(gateway, Method::GET, &format!("/v1/logs/exports/{id}/download"), &Value::Null).await;
    (id, link["signed_url"].as_str().unwrap().to_owned())
}

/// The lines of a file; no key is sent.
async fn lines(url: &str) -> Vec<Value> {
    let response = client().get(url).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/x-ndjson".parse().unwrap())
    );
    let text = response.text().await.unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn an_export_has_the_requested_members_of_the_logs_that_match() {
    on_each_store(async || {
        let gateway = Gateway::start(&format!("{STANDARD}logs: {{payloads: all}}\n"));
        let mut traces = Vec::new();
        for number in 0..45 {
            let trace = new_trace();
            let request = chat(&gateway, &trace, &hello(number % 5 == 0));
            let user = if number < 40 { "ann" } else { "bob" };
            let request = request.header("x-gateway-metadata", json!({"_user": user}).to_string());
            assert_eq!(status(request).await, 200);
            traces.push(trace);
        }
        until_logged(&gateway, 45).await;
        let filters = json!({"metadata": {"_user": "ann"}, "status_code": [200], "virtual_keys": "emulator"});
        let (_, url) =
            exported(&gateway, filters.clone(), &["trace_id", "cost", "request", "response"]).await;
        let found = lines(&url).await;
        // As the list of logs has them: two that end at almost the same time may be in it in either order.
        let listed = call(&gateway, Method::GET, "/v1/logs?page_size=100", &Value::Null).await;
        let in_order = listed["data"].as_array().unwrap().iter().filter_map(|log| log["trace_id"].as_str());
        let mut newest_first: Vec<&str> =
            in_order.filter(|trace| traces.iter().take(40).any(|wanted| wanted == trace)).collect();
        assert_eq!(newest_first.len(), 40, "{listed}");
        let found_traces: Vec<&str> = found.iter().map(|line| line["trace_id"].as_str().unwrap()).collect();
        assert_eq!(found_traces, newest_first);
        for line in &found {
            assert_eq!(line.as_object().unwrap().len(), 4, "{line}");
            assert_eq!(line["request"]["body"]["model"], "gpt-4o-mini", "{line}");
            assert!(!line["response"]["body"].is_null() && line["cost"].as_f64() > Some(0.0), "{line}");
        }
        // A page of it, and compressed.
        let mut page = filters;
        (page["page_size"], page["current_page"]) = (json!(7), json!(2));
        let (_, url) = exported(&gateway, page, &["trace_id"]).await;
        newest_first.drain(..14);
        newest_first.truncate(7);
        let response = client().get(&url).header("accept-encoding", "gzip").send().await.unwrap();
        assert_eq!(response.headers()["content-encoding"], "gzip");
        let mut text = String::new();
        GzDecoder::new(response.bytes().await.unwrap().as_ref()).read_to_string(&mut text).unwrap();
        let wanted: String =
            newest_first.iter().map(|trace| format!("{{\"trace_id\":\"{trace}\"}}\n")).collect();
        assert_eq!(text, wanted);
        // What comes after the start is not in it.
        let (_, url) = exported(&gateway, json!({}), &["id"]).await;
        assert_eq!(status(chat(&gateway, &new_trace(), &hello(false))).await, 200);
        until_logged(&gateway, 46).await;
        assert_eq!(lines(&url).await.len(), 45);
        let audit =
            call(&gateway, Method::GET, "/v1/audit-logs?resource_type=log_exports", &Value::Null).await;
        for action in ["create", "start", "download"] {
            let is_it = |entry: &Value| entry["action"] == action;
            assert!(audit["records"].as_array().unwrap().iter().any(is_it), "{action}: {audit}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_link_is_good_for_its_export_and_its_time_and_outlives_a_restart() {
    on_each_store(async || {
        let gateway = Gateway::start(STANDARD);
        let trace = new_trace();
        assert_eq!(status(chat(&gateway, &trace, &hello(false))).await, 200);
        until_logged(&gateway, 1).await;
        let (id, url) = exported(&gateway, json!({"trace_id": trace}), &["trace_id"]).await;
        assert!(url.starts_with(&gateway.control_url()), "{url}");
        let (other, _) = exported(&gateway, json!({}), &["trace_id"]).await;
        let later = url.replace("expires=1", "expires=2");
        for wrong in [
            url.replace(&id, &other),
            later,
            url.replace("signature=", "signature=00"),
            url.split('&').next().unwrap().to_owned(),
        ] {
            assert_ne!(wrong, url);
            let refused = client().get(&wrong).send().await.unwrap().status().as_u16();
            assert!([400, 403].contains(&refused), "{wrong}: {refused}");
        }
        let gateway = gateway.killed_and_started_again();
        assert_eq!(lines(&url).await, [json!({"trace_id": trace})]);
        // Over the data port as well.
        let link = client().get(format!("{}/logs/exports/{id}/download", gateway.base_url()));
        let link: Value =
            link.header("x-gateway-api-key", OPERATOR_KEY).send().await.unwrap().json().await.unwrap();
        let of_data_port = link["signed_url"].as_str().unwrap();
        assert!(of_data_port.starts_with(&gateway.data_url()), "{of_data_port}");
        assert_eq!(lines(of_data_port).await.len(), 1);
        call(&gateway, Method::POST, &format!("/v1/logs/exports/{id}/cancel"), &Value::Null).await;
        assert_eq!(client().get(&url).send().await.unwrap().status().as_u16(), 403);
        let path = format!("/v1/logs/exports/{id}");
        for (method, path) in [
            (Method::PUT, path.clone()),
            (Method::POST, format!("{path}/start")),
            (Method::POST, format!("{path}/cancel")),
            (Method::GET, format!("{path}/download")),
        ] {
            let (status, body) = call_as(&gateway, OPERATOR_KEY, method, &path, &json!({})).await;
            assert_eq!((status, &body["data"]["errorCode"]), (409, &json!("AB07")), "{path}: {body}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_draft_can_be_changed_and_mistakes_are_refused_with_their_paths() {
    let gateway = Gateway::start(STANDARD);
    let body = json!({"filters": {"cost_min": "x", "status_code": "abc", "nothing": 1}, "requested_data": ["id", "key"]});
    let (status, refused) = call_as(&gateway, OPERATOR_KEY, Method::POST, "/v1/logs/exports", &body).await;
    let details = refused["error"]["details"].as_array().unwrap();
    let paths: Vec<&str> = details.iter().map(|detail| detail["path"].as_str().unwrap()).collect();
    assert_eq!(
        (status, paths),
        (400, vec!["filters.cost_min", "filters.nothing", "requested_data[1]"]),
        "{refused}"
    );
    let body = json!({"filters": {"status_code": "abc"}, "requested_data": ["id"]});
    let (status, refused) = call_as(&gateway, OPERATOR_KEY, Method::POST, "/v1/logs/exports", &body).await;
    assert_eq!(
        (status, &refused["error"]["details"][0]["path"]),
        (400, &json!("filters.status_code")),
        "{refused}"
    );
    let made =
        call(&gateway, Method::POST, "/v1/logs/exports", &json!({"filters": {}, "requested_data": ["id"]}))
            .await;
    assert_eq!((&made["total"], &made["object"]), (&json!(0), &json!("export")));
    let path = format!("/v1/logs/exports/{}", made["id"].as_str().unwrap());
    let (status, _) =
        call_as(&gateway, OPERATOR_KEY, Method::GET, &format!("{path}/download"), &Value::Null).await;
    assert_eq!(status, 409);
    let change = json!({"filters": {"ai_model": "gpt-4o"}, "description": "for the accountants"});
    call(&gateway, Method::PUT, &path, &change).await;
    let found = call(&gateway, Method::GET, &path, &Value::Null).await;
    assert_eq!(
        (&found["filters"], &found["description"]),
        (&change["filters"], &change["description"]),
        "{found}"
    );
    assert_eq!((&found["status"], &found["requested_data"]), (&json!("draft"), &json!(["id"])));
    let list = call(&gateway, Method::GET, "/v1/logs/exports", &Value::Null).await;
    assert_eq!((&list["total"], &list["data"][0]), (&json!(1), &found));
    let (status, _) =
        call_as(&gateway, OPERATOR_KEY, Method::GET, "/v1/logs/exports/nothing", &Value::Null).await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_key_of_a_workspace_exports_what_it_may_see() {
    on_each_store(async || {
        let gateway = Gateway::start(&format!(
            "{LISTEN}
auth:
  keys:
    - {{name: operator, key: {OPERATOR_KEY}}}
    - {{name: tests, key: {KEY}, workspace: one}}
    - {{name: others, key: tp-others-0123456789, workspace: two}}
custom_hosts: {{allow: [127.0.0.1]}}
providers:
  emulator: {{provider: openai, api_key: k, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}
"
        ));
        for slug in ["one", "two"] {
            call(&gateway, Method::POST, "/v1/admin/workspaces", &json!({"name": slug, "slug": slug})).await;
        }
        let traces = [new_trace(), new_trace(), new_trace()];
        for (trace, key) in traces.iter().zip([KEY, "tp-others-0123456789", OPERATOR_KEY]) {
            let request =
                client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
            let request =
                request.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", trace);
            assert_eq!(status(request.header("x-gateway-api-key", key)).await, 200);
        }
        until_logged(&gateway, 3).await;
        let (all, url) = exported(&gateway, json!({}), &["trace_id"]).await;
        assert_eq!(lines(&url).await.len(), 3);
        let (_, url) = exported(&gateway, json!({"workspace_slug": "two"}), &["trace_id"]).await;
        assert_eq!(lines(&url).await, [json!({"trace_id": traces[1]})]);
        let body = json!({"filters": {}, "requested_data": ["trace_id"]});
        let (_, made) = call_as(&gateway, KEY, Method::POST, "/v1/logs/exports", &body).await;
        let own = made["id"].as_str().unwrap();
        let (status, _) =
            call_as(&gateway, KEY, Method::POST, &format!("/v1/logs/exports/{own}/start"), &Value::Null)
                .await;
        assert_eq!(status, 200, "{made}");
        let (_, link) =
            call_as(&gateway, KEY, Method::GET, &format!("/v1/logs/exports/{own}/download"), &Value::Null)
                .await;
        assert_eq!(lines(link["signed_url"].as_str().unwrap()).await, [json!({"trace_id": traces[0]})]);
        // The exports of others, of the organisation too, are none of its business.
        let (_, list) = call_as(&gateway, KEY, Method::GET, "/v1/logs/exports", &Value::Null).await;
        assert_eq!((&list["total"], &list["data"][0]["id"]), (&json!(1), &json!(own)), "{list}");
        for (key, id) in [(KEY, all.as_str()), ("tp-others-0123456789", own)] {
            for (method, end) in [(Method::GET, ""), (Method::GET, "/download"), (Method::POST, "/cancel")] {
                let path = format!("/v1/logs/exports/{id}{end}");
                assert_eq!(call_as(&gateway, key, method, &path, &Value::Null).await.0, 404, "{path}");
            }
        }
        for filters in [json!({"workspace_slug": "two"}), json!({"workspace_id": "two"})] {
            let body = json!({"filters": filters, "requested_data": ["id"]});
            assert_eq!(call_as(&gateway, KEY, Method::POST, "/v1/logs/exports", &body).await.0, 403);
        }
    })
    .await;
}

#[tokio::test]
async fn no_export_has_what_the_operator_denies() {
    let denying = format!("{STANDARD}logs: {{export_denied_fields: [request, response]}}\n");
    let gateway = Gateway::start(STANDARD);
    assert_eq!(status(chat(&gateway, &new_trace(), &hello(false))).await, 200);
    until_logged(&gateway, 1).await;
    let path = "/v1/logs/exports/field-restrictions";
    let free = call(&gateway, Method::GET, path, &Value::Null).await;
    assert_eq!((&free["denied_fields"], free["allowed_fields"].as_array().unwrap().len()), (&json!([]), 48));
    let (before, url) = exported(&gateway, json!({}), &["trace_id", "request"]).await;
    assert_eq!(lines(&url).await.len(), 1);
    gateway.reload(&denying);
    let found = wait::until("the settings", async || {
        let found = call(&gateway, Method::GET, path, &Value::Null).await;
        (found["denied_fields"] == json!(["request", "response"])).then_some(found)
    })
    .await;
    assert!(!found["allowed_fields"].as_array().unwrap().contains(&json!("request")), "{found}");
    let body = json!({"filters": {}, "requested_data": ["response", "id", "request"]});
    let (code, refused) = call_as(&gateway, OPERATOR_KEY, Method::POST, "/v1/logs/exports", &body).await;
    let paths: Vec<&Value> =
        refused["error"]["details"].as_array().unwrap().iter().map(|problem| &problem["path"]).collect();
    assert_eq!((code, paths), (400, vec![&json!("requested_data[0]"), &json!("requested_data[2]")]));
    let (_, url) = exported(&gateway, json!({}), &["trace_id"]).await;
    assert_eq!(lines(&url).await.len(), 1);
    // One that was made before, and a draft that is changed.
    let download = format!("/v1/logs/exports/{before}/download");
    assert_eq!(call_as(&gateway, OPERATOR_KEY, Method::GET, &download, &Value::Null).await.0, 400);
    let draft =
        call(&gateway, Method::POST, "/v1/logs/exports", &json!({"filters": {}, "requested_data": ["id"]}))
            .await;
    let draft = format!("/v1/logs/exports/{}", draft["id"].as_str().unwrap());
    let change = json!({"requested_data": ["request"]});
    assert_eq!(call_as(&gateway, OPERATOR_KEY, Method::PUT, &draft, &change).await.0, 400);
}

/// A key of the workspace `default` that may export, and its id.
async fn exporting_key(gateway: &Gateway, more: &Value) -> (String, String) {
    let mut body = json!({"name": "exports", "scopes": ["logs.export", "logs.list"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = call(gateway, Method::POST, "/v1/api-keys/workspace/service", &body).await;
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_link_ends_with_the_key_that_made_it() {
    let gateway = Gateway::start(STANDARD);
    let (id, _) = exported(&gateway, json!({"workspace_slug": "default"}), &["id"]).await;
    let path = format!("/v1/logs/exports/{id}/download");
    let link = async |key: &str| {
        let (status, link) = call_as(&gateway, key, Method::GET, &path, &Value::Null).await;
        assert_eq!(status, 200, "{link}");
        link["signed_url"].as_str().unwrap().to_owned()
    };
    let fetched = async |url: &str| client().get(url).send().await.unwrap().status().as_u16();
    let of = |id: &str| format!("/v1/api-keys/{id}");
    for what in ["deleted", "rotated", "without its scope"] {
        let (key_id, key) = exporting_key(&gateway, &json!({})).await;
        let (_, other) = exporting_key(&gateway, &json!({})).await;
        let url = link(&key).await;
        let stays = link(&other).await;
        assert_eq!((fetched(&url).await, fetched(&stays).await), (200, 200), "{what}");
        let forged = url.replace(&key_id, "01900000-0000-7000-8000-0000000000ff");
        assert_eq!(fetched(&forged).await, 403);
        match what {
            "deleted" => call(&gateway, Method::DELETE, &of(&key_id), &Value::Null).await,
            "rotated" => {
                let body = json!({"key_transition_period_ms": 0});
                call(&gateway, Method::POST, &format!("{}/rotate", of(&key_id)), &body).await
            }
            _ => call(&gateway, Method::PUT, &of(&key_id), &json!({"scopes": ["logs.list"]})).await,
        };
        assert_eq!((fetched(&url).await, fetched(&stays).await), (403, 200), "{what}");
    }
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let (_, key) = exporting_key(&gateway, &json!({"expires_at": end.to_string()})).await;
    let url = link(&key).await;
    assert_eq!(fetched(&url).await, 200);
    wait::until("the end of the key", async || (fetched(&url).await == 403).then_some(())).await;
}
