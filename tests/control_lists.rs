//! What every list of the control API does with its query: generated from the API's own document, so that a new list is tested as soon as
//! it exists.
//!
//! Not what is in a list (`stored_objects`, `control_access`).

use crate::support::settings::OPERATOR_KEY;
use crate::support::{Gateway, client::client, gateway};
use control::openapi_document;
use reqwest::Method;
use serde_json::{Value, json};

/// The path and the operation of each `GET` that has pages.
fn lists() -> Vec<(String, Value)> {
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let read = paths.iter().filter_map(|(path, item)| Some((path.clone(), item.get("get")?.clone())));
    read.filter(|(_, operation)| parameter(operation, "current_page").is_some()).collect()
}

/// A parameter of the query.
fn parameter<'v>(operation: &'v Value, name: &str) -> Option<&'v Value> {
    let all = operation["parameters"].as_array().unwrap();
    all.iter().find(|parameter| parameter["in"] == "query" && parameter["name"] == name)
}

/// A call that would be found right by its query alone: what the path names need not be there.
async fn get(base: &str, path: &str, query: &str) -> (u16, Value) {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "some-id" } else { segment });
    let url = format!("{base}{}?{query}", segments.collect::<Vec<_>>().join("/"));
    let response = client().get(url).header("x-gateway-api-key", OPERATOR_KEY).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn every_list_refuses_a_parameter_that_it_does_not_have() {
    let gateway = gateway();
    let mut refused = 0;
    for (path, operation) in lists() {
        for base in [gateway.control_url(), gateway.data_url()] {
            if base == gateway.data_url() && operation["x-on-data-port"] == false {
                continue;
            }
            let (status, body) = get(&base, &path, "curent_page=0&zzzzzzzzzz=1").await;
            if path.contains("/groups/") {
                assert!(operation["x-refuses-other-parameters"] == false && status != 403, "{path}: {body}");
                continue;
            }
            assert_eq!(operation["x-refuses-other-parameters"], true, "{path}");
            assert_eq!((status, &body["data"]["errorCode"]), (400, &json!("AB01")), "{path}: {body}");
            let details = body["error"]["details"].as_array().unwrap();
            assert_eq!(details.len(), 2, "{path}: {body}");
            assert_eq!(details[0]["path"], "curent_page");
            assert_eq!(details[0]["message"], "unknown parameter; did you mean current_page?", "{path}");
            let all = details[1]["message"].as_str().unwrap();
            assert!(
                all.starts_with("unknown parameter; this list has ") && all.contains("page_size"),
                "{all}"
            );
            let (status, body) = get(&base, &path, "page_size=1&page_size=2").await;
            assert!(
                status == 400 && body["error"]["details"][0]["message"] == "stands twice",
                "{path}: {body}"
            );
            refused += 1;
        }
    }
    assert!(refused >= 50, "{refused}");
}

/// A list without the filter would have every object, and the first of them be taken for the one that was asked for.
#[tokio::test]
async fn every_list_of_named_objects_takes_their_name() {
    let gateway = gateway();
    let mut named = 0;
    for (path, operation) in lists().into_iter().filter(|(path, _)| !path.contains('{')) {
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        if schema["properties"]["data"]["items"]["properties"].get("name").is_none() {
            continue;
        }
        assert!(parameter(&operation, "name").is_some(), "{path}");
        // Workspaces have Portkey's: `name` is a part of the name.
        let is_whole = parameter(&operation, "exact_name").is_none();
        let (status, body) = get(&gateway.control_url(), &path, "name=no%20such%20name").await;
        assert_eq!((status, &body["total"], &body["data"]), (200, &json!(0), &json!([])), "{path}");
        let (status, body) = get(&gateway.control_url(), &path, "name=").await;
        assert!(
            status == 400 && body["error"]["details"][0]["message"] == "must not be blank",
            "{path}: {body}"
        );
        assert!(!is_whole || parameter(&operation, "search").is_some(), "{path}");
        named += 1;
    }
    assert!(named >= 13, "{named}");
}

/// The names of what a list has.
async fn names(gateway: &Gateway, path: &str) -> Vec<String> {
    let body = gateway.read(path).await;
    let names: Vec<String> = body["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(body["total"], names.len(), "{path}: {body}");
    names
}

#[tokio::test]
async fn a_name_finds_its_object_alone() {
    let gateway = Gateway::start("providers: {of-file: {provider: openai, api_key: k}}\n");
    let provider = json!({"provider": "openai", "key": "sk-0123456789"});
    let config = json!({"config": {"retry": {"attempts": 2}}});
    let policy = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}],
        "type": "requests", "credit_limit": 9, "unit": "rpm", "value": 9,
    });
    let without = |body: &Value, names: &[&str]| {
        let mut body = body.clone();
        names.iter().for_each(|name| drop(body.as_object_mut().unwrap().remove(*name)));
        body
    };
    let kinds = [
        ("/v1/providers", provider.clone()),
        ("/v1/virtual-keys", provider),
        ("/v1/integrations", json!({"ai_provider_id": "openai", "key": "sk-0123456789"})),
        ("/v1/configs", config),
        ("/v1/guardrails", json!({"checks": [{"id": "default.notNull"}], "actions": {"deny": true}})),
        ("/v1/mcp-servers", json!({"url": "https://mcp.example.com/mcp"})),
        ("/v1/collections", json!({})),
        ("/v1/labels", json!({})),
        ("/v1/prompts/partials", json!({"string": "text"})),
        ("/v1/prompts", json!({"string": "text", "parameters": {}, "virtual_key": "of-file", "model": "m"})),
        ("/v1/policies/usage-limits", without(&policy, &["unit", "value"])),
        ("/v1/policies/rate-limits", without(&policy, &["credit_limit"])),
        ("/v1/model-names", json!({"to": "@of-file"})),
    ];
    for (path, body) in kinds {
        // Virtual keys are providers, too.
        let last = path.rsplit('/').next().unwrap();
        let own = |name: &str| format!("{name}-{last}");
        for name in ["dev042", "dev0421", "Dev042"] {
            let mut body = body.clone();
            body["name"] = own(name).into();
            gateway.create(path, &body).await;
        }
        let found =
            async |query: &str, name: &str| names(&gateway, &format!("{path}?{query}={}", own(name))).await;
        assert_eq!(found("name", "dev042").await, [own("dev042")], "{path}");
        assert_eq!(found("search", "DEV0421").await, [own("dev0421")], "{path}");
        assert_eq!(found("search", "dev042").await.len(), 2, "{path}");
        assert!(names(&gateway, path).await.len() >= 3, "{path}");
    }
    assert_eq!(names(&gateway, "/v1/providers?name=of-file").await, ["of-file"]);
    for name in ["dev042", "dev0421"] {
        gateway
            .create("/v1/api-keys/workspace/service", &json!({"name": name, "scopes": ["completions.write"]}))
            .await;
    }
    assert_eq!(names(&gateway, "/v1/api-keys?name=dev042").await, ["dev042"]);
    assert_eq!(names(&gateway, "/v1/api-keys?search=0421").await, ["dev0421"]);
}

#[tokio::test]
async fn lists_take_what_clients_of_portkey_send() {
    let gateway = Gateway::start("");
    let workspace = gateway.create("/v1/admin/workspaces", &json!({"name": "red", "slug": "red"})).await;
    let id = workspace["id"].as_str().unwrap();
    for path in [
        "/v1/admin/users?pageSize=5&currentPage=0&email=a@example.com&role=member",
        "/v1/admin/users/invites?pageSize=5&currentPage=0&email=a@example.com&role=member&status=pending",
        "/v1/admin/workspaces?name=red&pageSize=5&currentPage=0&exact_name=red",
        &format!(
            "/v1/admin/workspaces/{id}/users?page_size=5&current_page=0&email=a@example.com&role=member"
        ),
        // A segment of the path once more.
        &format!("/v1/admin/workspaces/{id}/users?workspaceId={id}"),
        "/v1/api-keys?page_size=5&current_page=0&workspace_id=red",
        "/v1/configs?workspace_id=red",
        "/v1/virtual-keys?workspace_id=red",
        "/v1/providers?current_page=0&page_size=5&workspace_id=red",
        "/v1/integrations?current_page=0&page_size=5&workspace_id=red&type=organisation",
        "/v1/collections?workspace_id=red&current_page=0&page_size=5&search=a",
        "/v1/labels?organization_id=o&workspace_id=red&current_page=0&page_size=5&search=zz",
        "/v1/guardrails?current_page=0&page_size=5&workspace_id=red&organisation_id=o",
        "/v1/mcp-servers?current_page=0&page_size=5&workspace_id=red&search=a&id=a",
        "/v1/prompts?collection_id=default&workspace_id=red&search=a&current_page=0&page_size=5",
        "/v1/logs/exports?workspace_id=red",
    ] {
        let response = gateway.control(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}: {}", response.text().await.unwrap());
    }
    let user =
        json!({"email": "ann@example.com", "role": "member", "workspaces": [{"id": id, "role": "manager"}]});
    let invite = gateway.create("/v1/admin/users/invites", &user).await;
    gateway
        .create(&format!("/v1/admin/users/invites/{}/accept", invite["id"].as_str().unwrap()), &json!({}))
        .await;
    for (filter, count) in
        [("email=ann@example.com", 1), ("email=bob@example.com", 0), ("role=manager", 1), ("role=admin", 0)]
    {
        let found = gateway.read(&format!("/v1/admin/workspaces/{id}/users?{filter}")).await;
        assert_eq!(found["total"], count, "{filter}: {found}");
    }
}
