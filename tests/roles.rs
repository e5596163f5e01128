//! What a person's key may do on the control plane: every route × every role × the workspace's switches, against the matrix of
//! `docs/keys.md`.
//!
//! The routes are those of the OpenAPI document, so a new one is tested as soon as it exists. Not what the routes do.

use crate::batches::{CHAT, Client, chats};
use crate::log_tail::Tail;
use crate::support::client::{client, hello, new_trace};
use crate::support::settings::{LISTEN, STANDARD};
use crate::support::{Gateway, wait};
use control::openapi_document;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use words::settings::scopes::{KeyType, Scope};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Person {
    Owner,
    Admin,
    WorkspaceAdmin,
    Manager,
    Member,
    /// A user of the organisation who is not in the workspace.
    Stranger,
}

use Person::{Admin, Manager, Member, Owner, Stranger, WorkspaceAdmin};

const PEOPLE: [Person; 6] = [Owner, Admin, WorkspaceAdmin, Manager, Member, Stranger];

/// The matrix: what a scope is a right to, and for managers and members the switch and what holds without it.
fn allowed(person: Person, scope: Scope, switches: &BTreeMap<&'static str, bool>) -> bool {
    let (resource, action) = scope.as_str().split_once('.').unwrap();
    let reads = ["list", "read", "view", "export"].contains(&action);
    let switched = |name: &str, default: bool| switches.get(name).copied().unwrap_or(default);
    let calls = ["completions.write", "logs.write", "feedbacks.write", "prompts.render", "guardrails.invoke"];
    match person {
        _ if calls.contains(&scope.as_str()) => true,
        Owner | WorkspaceAdmin => true,
        Admin if resource == "logs" => switched("organisationAdminsViewLogs", true),
        Admin => true,
        Stranger => false,
        Manager | Member => {
            let who = if person == Manager { "managers" } else { "members" };
            let is_manager = person == Manager;
            let (what, default) = match resource {
                "workspaces" | "policies" if !reads => {
                    return is_manager && switched("managersUpdateWs", false);
                }
                "workspace_users" if !reads => ("WsUsers", false),
                "workspace_users" => ("WsUsers", true),
                "configs" => ("Configs", is_manager || reads),
                "prompts" => ("Prompts", is_manager || reads),
                "guardrails" => ("Guardrails", is_manager || reads),
                "virtual_keys" | "providers" => ("VirtualKeys", is_manager || reads),
                "logs" => ("Logs", true),
                "analytics" => ("Analytics", true),
                "workspace_integrations" => ("WsIntegrations", is_manager || reads),
                "workspace_mcp_integrations" => ("WsMcpIntegrations", is_manager || reads),
                "mcp_servers" => ("McpServers", is_manager || reads),
                _ => return is_manager || reads,
            };
            switched(&format!("{who}{}{what}", if reads { "View" } else { "Write" }), default)
        }
    }
}

/// Every switch that Portkey names.
fn all_switches(value: bool) -> BTreeMap<&'static str, bool> {
    const NAMES: &str = "membersViewConfigs membersWriteConfigs managersViewConfigs managersWriteConfigs membersViewPrompts \
        membersWritePrompts managersViewPrompts managersWritePrompts membersViewGuardrails membersWriteGuardrails managersViewGuardrails \
        managersWriteGuardrails membersViewVirtualKeys membersWriteVirtualKeys managersViewVirtualKeys managersWriteVirtualKeys \
        membersViewLogs managersViewLogs membersViewAnalytics managersViewAnalytics managersWriteWsUsers managersWriteWsIntegrations \
        managersWriteWsMcpIntegrations managersWriteMcpServers managersUpdateWs organisationAdminsViewLogs";
    NAMES.split(' ').filter(|name| !name.is_empty()).map(|name| (name, value)).collect()
}

async fn done(call: reqwest::RequestBuilder) -> Value {
    let response = call.send().await.unwrap();
    let (status, body) = (response.status(), response.json::<Value>().await.unwrap());
    assert_eq!(status, 200, "{body}");
    body
}

/// A user of the organisation with a role there and maybe in the workspace `team`; and a key of the user in that workspace.
async fn person(gateway: &Gateway, person: Person) -> (String, String) {
    let in_workspace = match person {
        WorkspaceAdmin => Some("admin"),
        Manager => Some("manager"),
        Member => Some("member"),
        Owner | Admin | Stranger => None,
    };
    let workspaces: Vec<Value> =
        in_workspace.into_iter().map(|role| json!({"id": "team", "role": role})).collect();
    let role = if person == Admin { "admin" } else { "member" };
    let invite = json!({"email": format!("{person:?}@example.com"), "role": role, "workspaces": workspaces});
    let invited = done(gateway.control(Method::POST, "/v1/admin/users/invites").json(&invite)).await;
    let accept = format!("/v1/admin/users/invites/{}/accept", invited["id"].as_str().unwrap());
    let user = done(gateway.control(Method::POST, &accept)).await["id"].as_str().unwrap().to_owned();
    if person == Owner {
        let path = format!("/v1/admin/users/{user}");
        done(gateway.control(Method::PUT, &path).json(&json!({"role": "owner"}))).await;
    }
    let scopes: Vec<&str> = KeyType::WorkspaceUser.scopes().iter().map(Scope::as_str).collect();
    let key = json!({"name": "own", "user_id": user, "workspace_id": "team", "scopes": scopes});
    let made = done(gateway.control(Method::POST, "/v1/api-keys/workspace/user").json(&key)).await;
    (user, made["key"].as_str().unwrap().to_owned())
}

async fn call(gateway: &Gateway, key: &str, method: Method, path: &str) -> (u16, String) {
    let url = format!("{}{path}", gateway.control_url());
    let call = client().request(method, url).header("x-gateway-api-key", key);
    let response = call.header("content-type", "application/json").body("{}").send().await.unwrap();
    let status = response.status().as_u16();
    // One that follows the log has no end.
    let is_open = response.headers()["content-type"] == "text/event-stream";
    (status, if is_open { String::new() } else { response.text().await.unwrap() })
}

#[tokio::test]
async fn a_key_of_a_person_may_do_what_the_role_allows() {
    let gateway = Gateway::start(LISTEN);
    let team = json!({"name": "team", "slug": "team"});
    done(gateway.control(Method::POST, "/v1/admin/workspaces").json(&team)).await;
    let mut keys = Vec::new();
    for one in PEOPLE {
        keys.push((one, person(&gateway, one).await.1));
    }
    let document = openapi_document();
    let held = KeyType::WorkspaceUser.scopes();
    let (mut refused, mut served) = (0, 0);
    for switches in [BTreeMap::new(), all_switches(true), all_switches(false)] {
        let settings = json!({"security_settings": switches});
        done(gateway.control(Method::PUT, "/v1/admin/workspaces/team").json(&settings)).await;
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let scopes = operation["x-scopes"].as_array().cloned().unwrap_or_default();
                let scopes: Vec<Scope> =
                    scopes.iter().map(|scope| Scope::parse(scope.as_str().unwrap()).unwrap()).collect();
                if scopes.is_empty() || path == "/metrics" {
                    continue;
                }
                let method: Method = method.to_uppercase().parse().unwrap();
                let filled = |segment: &str| {
                    if segment.starts_with('{') { "some-id".to_owned() } else { segment.to_owned() }
                };
                let path: String = path.split('/').map(filled).collect::<Vec<_>>().join("/");
                for (person, key) in &keys {
                    let wanted = scopes
                        .iter()
                        .any(|scope| held.contains(*scope) && allowed(*person, *scope, &switches));
                    let (status, body) = call(&gateway, key, method.clone(), &path).await;
                    let is_refused = status == 403
                        && ["role of its user", "is no member of", "lacks the scope"]
                            .iter()
                            .any(|why| body.contains(why));
                    assert_eq!(
                        !is_refused, wanted,
                        "{person:?} {method} {path} {switches:?}: {status} {body}"
                    );
                    *(if wanted { &mut served } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert!(refused > 400 && served > 400, "{refused} {served}");
}

#[tokio::test]
async fn a_role_holds_for_what_a_route_does_and_changes_at_once() {
    let gateway = Gateway::start(LISTEN);
    let team = json!({"name": "team", "slug": "team"});
    done(gateway.control(Method::POST, "/v1/admin/workspaces").json(&team)).await;
    let (user, key) = person(&gateway, Member).await;
    let config = json!({"name": "c", "slug": "co", "config": {"retry": {"attempts": 2}}});
    let create = || {
        let url = format!("{}/v1/configs", gateway.control_url());
        client().post(url).header("x-gateway-api-key", &key).json(&config).send()
    };
    let response = create().await.unwrap();
    let (status, body) = (response.status(), response.text().await.unwrap());
    assert!(status == 403 && body.contains("(member)") && body.contains("configs.create"), "{status} {body}");
    // What one role may, the other may not, from one request to the next.
    let member = format!("/v1/admin/workspaces/team/users/{user}");
    done(gateway.control(Method::PUT, &member).json(&json!({"role": "manager"}))).await;
    assert_eq!(create().await.unwrap().status(), 200);
    // The refused try is in the audit log.
    let log = done(gateway.control(Method::GET, "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&organisation_id=x&response_status_code=403")).await;
    assert!(log["records"].as_array().unwrap().iter().any(|record| record["uri"] == "/v1/configs"), "{log}");
    // With the membership the user's keys of the workspace end.
    assert_eq!(call(&gateway, &key, Method::GET, "/v1/configs").await.0, 200);
    done(gateway.control(Method::DELETE, &member)).await;
    assert_eq!(call(&gateway, &key, Method::GET, "/v1/configs").await.0, 401);
}

/// A gateway with a member and a manager of the workspace `team`, each with a key and the trace id of a request that was made with it.
async fn two_people() -> (Gateway, [(String, String); 2]) {
    let gateway = Gateway::start(&format!("{STANDARD}logs: {{payloads: all}}\n"));
    let team = json!({"name": "team", "slug": "team"});
    done(gateway.control(Method::POST, "/v1/admin/workspaces").json(&team)).await;
    let mut people = [Member, Manager].map(|_| (String::new(), new_trace()));
    for (one, (key, trace)) in [Member, Manager].into_iter().zip(&mut people) {
        *key = person(&gateway, one).await.1;
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
        let call = call.header("x-gateway-api-key", &*key).header("x-gateway-provider", "@emulator");
        assert_eq!(call.header("x-gateway-trace-id", &*trace).send().await.unwrap().status(), 200);
    }
    let first = &people[0].0;
    wait::until("the logs", async || (traces(&gateway, first).await.len() == 2).then_some(())).await;
    (gateway, people)
}

async fn get(gateway: &Gateway, key: &str, path: &str) -> (u16, Value) {
    let (status, text) = call(gateway, key, Method::GET, path).await;
    (status, serde_json::from_str(&text).unwrap_or_default())
}

/// The trace ids of the logs that a key shows.
async fn traces(gateway: &Gateway, key: &str) -> Vec<String> {
    let (status, found) = get(gateway, key, "/v1/logs").await;
    assert_eq!(status, 200, "{found}");
    let trace = |log: &Value| log["trace_id"].as_str().unwrap().to_owned();
    found["data"].as_array().unwrap().iter().map(trace).collect()
}

async fn switch(gateway: &Gateway, switches: Value) {
    let body = json!({"security_settings": switches});
    done(gateway.control(Method::PUT, "/v1/admin/workspaces/team").json(&body)).await;
}

/// Makes an export with these members.
async fn export(gateway: &Gateway, key: &str, columns: Value) -> (u16, Value) {
    let url = format!("{}/v1/logs/exports", gateway.control_url());
    let body = json!({"filters": {}, "requested_data": columns});
    let response = client().post(url).header("x-gateway-api-key", key).json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json::<Value>().await.unwrap())
}

#[tokio::test]
async fn a_person_may_be_restricted_to_requests_of_its_own_keys() {
    let (gateway, [(member, own), (manager, other)]) = two_people().await;
    let of_manager = export(&gateway, &manager, json!(["id"])).await.1["id"].as_str().unwrap().to_owned();
    let tail = client().get(format!("{}/v1/logs/tail", gateway.control_url()));
    let tail = Tail::of(tail.header("x-gateway-api-key", &member).send().await.unwrap()).await;
    switch(&gateway, json!({"membersViewAllData": false})).await;
    assert_eq!(tail.end().await, "rights");
    assert_eq!(traces(&gateway, &member).await, std::slice::from_ref(&own));
    assert_eq!(traces(&gateway, &manager).await.len(), 2);
    assert_eq!(get(&gateway, &member, &format!("/v1/logs/{own}")).await.0, 200);
    assert_eq!(get(&gateway, &member, &format!("/v1/logs/{other}")).await.0, 404);
    let log = get(&gateway, &manager, &format!("/v1/logs/{other}")).await.1;
    let (id, key) = (log["id"].as_str().unwrap(), log["metrics"]["api_key_id"].as_str().unwrap());
    assert_eq!(get(&gateway, &member, &format!("/v1/logs/{id}")).await.0, 404);
    assert_eq!(get(&gateway, &member, &format!("/v1/logs?api_key_ids={key}")).await.1["total"], 0);
    let (now, day) = (jiff::Timestamp::now(), jiff::SignedDuration::from_hours(24));
    let range = format!("time_of_generation_min={}&time_of_generation_max={}", now - day, now + day);
    for (key, count) in [(&member, 1), (&manager, 2)] {
        let requests = get(&gateway, key, &format!("/v1/analytics/graphs/requests?{range}")).await.1;
        assert_eq!(requests["summary"]["total"], count, "{requests}");
        let groups = get(&gateway, key, &format!("/v1/logs/groups/api_key?{range}")).await.1;
        assert_eq!(groups["total"], count, "{groups}");
        assert_eq!(export(&gateway, key, json!(["id"])).await.1["total"], count);
    }
    let listed = get(&gateway, &member, "/v1/logs/exports").await.1;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(get(&gateway, &member, &format!("/v1/logs/exports/{of_manager}")).await.0, 404);
    switch(&gateway, json!({"managersViewAllData": false, "membersViewLogs": false})).await;
    assert_eq!(traces(&gateway, &manager).await, [other]);
    assert_eq!(get(&gateway, &member, "/v1/logs").await.0, 403);
}

/// An export shows what its key may see when it is read, not what it might when it was made.
#[tokio::test]
async fn an_export_is_restricted_with_the_person_who_made_it() {
    let (gateway, [(member, own), _]) = two_people().await;
    let draft = export(&gateway, &member, json!(["trace_id"])).await.1;
    let draft = format!("/v1/logs/exports/{}", draft["id"].as_str().unwrap());
    let started = export(&gateway, &member, json!(["trace_id"])).await.1;
    let started = format!("/v1/logs/exports/{}", started["id"].as_str().unwrap());
    let with_bodies = export(&gateway, &member, json!(["trace_id", "response"])).await.1;
    let with_bodies = format!("/v1/logs/exports/{}", with_bodies["id"].as_str().unwrap());
    assert_eq!(call(&gateway, &member, Method::POST, &format!("{started}/start")).await.0, 200);
    let link = async |export: &str| {
        let (status, link) = get(&gateway, &member, &format!("{export}/download")).await;
        assert_eq!(status, 200, "{link}");
        link["signed_url"].as_str().unwrap().to_owned()
    };
    let file = async |url: &str| {
        let response = client().get(url).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let lines = text.lines().filter(|_| status == 200);
        let traces = lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["trace_id"].clone());
        (status, traces.collect::<Vec<Value>>())
    };
    let before = link(&started).await;
    assert_eq!(file(&before).await.1.len(), 2);
    switch(&gateway, json!({"membersViewAllData": false})).await;
    assert_eq!(call(&gateway, &member, Method::POST, &format!("{draft}/start")).await.0, 200);
    for url in [before.clone(), link(&started).await, link(&draft).await] {
        assert_eq!(file(&url).await, (200, vec![json!(own)]), "{url}");
    }
    switch(&gateway, json!({"membersViewLogs": false, "membersViewLogMetadata": true})).await;
    assert_eq!(call(&gateway, &member, Method::POST, &format!("{with_bodies}/start")).await.0, 400);
    assert_eq!(file(&before).await.0, 200);
    switch(&gateway, json!({"membersViewLogs": false})).await;
    assert_eq!(file(&before).await.0, 403, "the role does not allow exports any more");
}

#[tokio::test]
async fn a_person_may_be_shown_logs_without_their_bodies() {
    let (gateway, [(member, _), (manager, other)]) = two_people().await;
    let made = export(&gateway, &manager, json!(["id", "response"])).await.1;
    let made = format!("/v1/logs/exports/{}", made["id"].as_str().unwrap());
    assert_eq!(call(&gateway, &manager, Method::POST, &format!("{made}/start")).await.0, 200);
    switch(&gateway, json!({"membersViewLogs": false, "membersViewLogMetadata": true})).await;
    for (key, has_bodies) in [(&member, false), (&manager, true)] {
        assert_eq!(traces(&gateway, key).await.len(), 2);
        let log = get(&gateway, key, &format!("/v1/logs/{other}")).await.1;
        assert_eq!(log["response"]["body"].is_object(), has_bodies, "{log}");
        let status = if has_bodies { 200 } else { 400 };
        assert_eq!(export(&gateway, key, json!(["id", "response"])).await.0, status);
        assert_eq!(get(&gateway, key, &format!("{made}/download")).await.0, status);
        assert_eq!(export(&gateway, key, json!(["id"])).await.0, 200);
    }
}

/// Files and batches are held to the rule of logs, at both ports.
#[tokio::test]
async fn files_and_batches_of_others_are_not_there_for_a_person_with_own_requests_only() {
    let (gateway, [(member, _), (manager, _)]) = two_people().await;
    let own = Client { gateway: &gateway, key: &member };
    let others = Client { gateway: &gateway, key: &manager };
    let file = others.upload(chats(1)).await;
    let batch = others.create(&file, CHAT, &json!({"provider": "@emulator"})).await;
    let file = format!("/files/{}", file["id"].as_str().unwrap());
    let batch = format!("/batches/{}", batch["id"].as_str().unwrap());
    assert_eq!(own.get(&file).await.0, 200, "a member sees all without the switch");
    switch(&gateway, json!({"membersViewAllData": false})).await;
    let mine = own.upload(chats(1)).await;
    for (method, path) in [
        (Method::GET, file.clone()),
        (Method::GET, format!("{file}/content")),
        (Method::DELETE, file.clone()),
        (Method::GET, batch.clone()),
        (Method::GET, format!("{batch}/output")),
        (Method::POST, format!("{batch}/cancel")),
    ] {
        let (status, body) = own.read(own.call(method.clone(), &path)).await;
        assert_eq!(status, 404, "{method} {path}: {body}");
    }
    let files = own.get("/files").await.1;
    assert!(files["data"].as_array().unwrap().iter().all(|file| file["id"] == mine["id"]), "{files}");
    assert_eq!(own.get("/batches").await.1["data"], json!([]));
    for (key, count) in [(&member, 0), (&manager, 1)] {
        let managed = get(&gateway, key, "/v1/managed-batches").await.1;
        assert_eq!(managed["data"].as_array().unwrap().len(), count, "{managed}");
        let one = get(&gateway, key, &format!("/v1/managed-{}", batch.trim_start_matches('/'))).await.0;
        assert_eq!(one, if count == 1 { 200 } else { 404 }, "{managed}");
    }
    assert_eq!(others.get(&file).await.0, 200);
    assert_eq!(own.get(&format!("/files/{}", mine["id"].as_str().unwrap())).await.0, 200);
}
