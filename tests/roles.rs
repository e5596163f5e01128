//! What a person's key may do on the control plane: every route × every role × the workspace's switches, against the matrix of
//! reference 4.4.
//!
//! The routes are those of the OpenAPI document, so a new one is tested as soon as it exists. Not what the routes do.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::settings::LISTEN;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnpike::control::openapi_document;
use turnpike::settings::scopes::{KeyType, Scope};

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

/// Every switch that the reference names.
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
    (response.status().as_u16(), response.text().await.unwrap())
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
