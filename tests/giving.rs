//! Nobody gives what they do not hold: a manager of a workspace, a key with few scopes and a restricted member at each route that gives
//! roles, rights or keys. The list of those routes is tested in `control/giving.rs`.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::settings::{LISTEN, OPERATOR_KEY};
use reqwest::Method;
use serde_json::{Value, json};
use words::settings::scopes::{KeyType, Scope};

async fn send(gateway: &Gateway, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}{path}", gateway.control_url());
    let call = client().request(method.parse::<Method>().unwrap(), url).header("x-gateway-api-key", key);
    let response = call.json(body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

async fn done(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Value {
    let (status, body) = send(gateway, OPERATOR_KEY, method, path, body).await;
    assert_eq!(status, 200, "{method} {path}: {body}");
    body
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name}: {value}")).to_owned()
}

/// A user with a role in the workspace `team`, and a key of that user with all that such a key may hold.
async fn person(gateway: &Gateway, name: &str, role: &str) -> (String, String) {
    let invite = json!({
        "email": format!("{name}@example.com"), "role": "member", "workspaces": [{"id": "team", "role": role}],
    });
    let invited = done(gateway, "POST", "/v1/admin/users/invites", &invite).await;
    let accept = format!("/v1/admin/users/invites/{}/accept", text(&invited, "id"));
    let user = text(&done(gateway, "POST", &accept, &json!({})).await, "id");
    let all: Vec<Scope> = KeyType::WorkspaceUser.scopes().iter().collect();
    (user.clone(), user_key(gateway, &user, &all).await)
}

async fn user_key(gateway: &Gateway, user: &str, scopes: &[Scope]) -> String {
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let key = json!({"name": "own", "user_id": user, "workspace_id": "team", "scopes": scopes});
    text(&done(gateway, "POST", "/v1/api-keys/workspace/user", &key).await, "key")
}

async fn service_key(gateway: &Gateway, kind: &str, scopes: &[Scope]) -> String {
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let mut key = json!({"name": "service", "scopes": scopes});
    if kind == "workspace" {
        key["workspace_id"] = "team".into();
    }
    text(&done(gateway, "POST", &format!("/v1/api-keys/{kind}/service"), &key).await, "key")
}

async fn with_team() -> Gateway {
    let gateway = Gateway::start(LISTEN);
    done(&gateway, "POST", "/v1/admin/workspaces", &json!({"name": "team", "slug": "team"})).await;
    gateway
}

#[tokio::test]
async fn a_manager_makes_managers_at_most() {
    let gateway = with_team().await;
    let (manager, key) = person(&gateway, "manager", "manager").await;
    let (member, _) = person(&gateway, "member", "member").await;
    let (outside, _) = person(&gateway, "outside", "member").await;
    let team = "/v1/admin/workspaces/team";
    done(&gateway, "DELETE", &format!("{team}/users/{outside}"), &json!({})).await;
    let switches = json!({"managersWriteWsUsers": true, "managersUpdateWs": true});
    done(&gateway, "PUT", team, &json!({"security_settings": switches})).await;
    let users = format!("{team}/users");
    let of_member = format!("{users}/{member}");
    let with = |name: &str, value: bool| {
        let mut switches = switches.clone();
        switches[name] = value.into();
        json!({"security_settings": switches})
    };
    for (method, path, body, wanted) in [
        ("PUT", format!("{users}/{manager}"), json!({"role": "admin"}), 403),
        ("PUT", of_member.clone(), json!({"role": "admin"}), 403),
        ("PUT", of_member.clone(), json!({"role": "manager"}), 200),
        ("PUT", of_member, json!({"role": "member"}), 200),
        ("POST", users.clone(), json!({"users": [{"id": outside, "role": "admin"}]}), 403),
        ("POST", users, json!({"users": [{"id": outside, "role": "manager"}]}), 200),
        // What a role may do is given by switches, too.
        ("PUT", team.to_owned(), with("managersWriteApiKeys", true), 403),
        ("PUT", team.to_owned(), with("membersWriteConfigs", true), 200),
    ] {
        let (status, answer) = send(&gateway, &key, method, &path, &body).await;
        assert_eq!(status, wanted, "{method} {path} {body}: {answer}");
    }
    let shown = done(&gateway, "GET", &format!("{team}/users/{manager}"), &json!({})).await;
    assert_eq!(shown["role"], "manager", "{shown}");
}

#[tokio::test]
async fn a_persons_key_gives_no_role_beyond_its_scopes() {
    use Scope::*;
    let gateway = with_team().await;
    let (admin, full) = person(&gateway, "admin", "admin").await;
    let (manager, _) = person(&gateway, "manager", "manager").await;
    let (member, _) = person(&gateway, "member", "member").await;
    let narrow =
        user_key(&gateway, &admin, &[WorkspaceUsersUpdate, WorkspaceUsersDelete, WorkspacesUpdate]).await;
    let team = "/v1/admin/workspaces/team";
    let of_manager = format!("{team}/users/{manager}");
    let of_member = format!("{team}/users/{member}");
    let switch = json!({"security_settings": {"membersWriteConfigs": true}});
    for (key, method, path, body, wanted) in [
        (&narrow, "PUT", &of_member, json!({"role": "admin"}), 403),
        (&narrow, "PUT", &of_member, json!({"role": "manager"}), 403),
        (&narrow, "PUT", &of_member, json!({"role": "member"}), 200),
        (&narrow, "PUT", &of_manager, json!({"role": "member"}), 403),
        (&narrow, "DELETE", &of_manager, json!({}), 403),
        (&narrow, "PUT", &team.to_owned(), switch.clone(), 403),
        (&narrow, "PUT", &team.to_owned(), json!({"description": "d"}), 200),
        (&full, "PUT", &of_member, json!({"role": "admin"}), 200),
        (&full, "PUT", &of_manager, json!({"role": "member"}), 200),
        (&full, "PUT", &team.to_owned(), switch, 200),
    ] {
        let (status, answer) = send(&gateway, key, method, path, &body).await;
        assert_eq!(status, wanted, "{method} {path} {body}: {answer}");
    }
}

#[tokio::test]
async fn a_key_gives_no_role_with_rights_that_it_does_not_hold() {
    use Scope::*;
    let gateway = with_team().await;
    let (user, _) = person(&gateway, "user", "member").await;
    let narrow = service_key(&gateway, "workspace", &[WorkspaceUsersUpdate, WorkspaceUsersCreate]).await;
    let settings = service_key(&gateway, "workspace", &[WorkspacesUpdate]).await;
    let full =
        service_key(&gateway, "workspace", &KeyType::WorkspaceService.scopes().iter().collect::<Vec<_>>())
            .await;
    let inviting = service_key(
        &gateway,
        "organisation",
        &[OrganisationUsersCreate, OrganisationUsersUpdate, WorkspacesCreate],
    )
    .await;
    let administrator = service_key(
        &gateway,
        "organisation",
        &KeyType::OrganisationService.scopes().iter().collect::<Vec<_>>(),
    )
    .await;
    let invite = |address: &str, role: &str, in_team: &str| json!({"email": address, "role": role, "workspaces": [{"id": "team", "role": in_team}]});
    let (invites, of_user, member) = (
        "/v1/admin/users/invites".to_owned(),
        format!("/v1/admin/users/{user}"),
        format!("/v1/admin/workspaces/team/users/{user}"),
    );
    let workspace = |name: &str, role: &str| json!({"name": name, "users": [{"id": user, "role": role}]});
    let made = done(&gateway, "POST", &invites, &invite("a@example.com", "admin", "member")).await;
    let of_admin = format!("{invites}/{}", text(&made, "id"));
    let made = done(&gateway, "POST", &invites, &invite("b@example.com", "member", "admin")).await;
    let in_team = format!("{invites}/{}", text(&made, "id"));
    let team = "/v1/admin/workspaces/team".to_owned();
    let switch = json!({"security_settings": {"membersWriteConfigs": true}});
    for (key, method, path, body, wanted) in [
        (&narrow, "PUT", member.clone(), json!({"role": "admin"}), 403),
        (&narrow, "PUT", member.clone(), json!({"role": "manager"}), 403),
        (&narrow, "PUT", member.clone(), json!({"role": "member"}), 200),
        (&full, "PUT", member, json!({"role": "admin"}), 200),
        (&settings, "PUT", team.clone(), switch.clone(), 403),
        (&settings, "PUT", team.clone(), json!({"description": "d"}), 200),
        (&full, "PUT", team, switch, 200),
        (&inviting, "POST", invites.clone(), invite("c@example.com", "admin", "member"), 403),
        (&inviting, "POST", invites.clone(), invite("c@example.com", "member", "admin"), 403),
        (&inviting, "POST", invites.clone(), invite("c@example.com", "member", "member"), 200),
        (&inviting, "POST", format!("{of_admin}/resend"), json!({}), 403),
        (&inviting, "POST", format!("{of_admin}/accept"), json!({}), 403),
        (&inviting, "POST", format!("{in_team}/accept"), json!({}), 403),
        (&inviting, "PUT", of_user.clone(), json!({"role": "owner"}), 403),
        (&inviting, "PUT", of_user.clone(), json!({"first_name": "Ann"}), 200),
        (&inviting, "POST", "/v1/admin/workspaces".to_owned(), workspace("one", "admin"), 403),
        (&inviting, "POST", "/v1/admin/workspaces".to_owned(), workspace("two", "member"), 200),
        (&administrator, "POST", format!("{of_admin}/resend"), json!({}), 200),
        (&administrator, "POST", format!("{of_admin}/accept"), json!({}), 200),
        (&administrator, "POST", format!("{in_team}/accept"), json!({}), 200),
        (&administrator, "PUT", of_user, json!({"role": "owner"}), 200),
    ] {
        let (status, answer) = send(&gateway, key, method, &path, &body).await;
        assert_eq!(status, wanted, "{method} {path} {body}: {answer}");
    }
}

#[tokio::test]
async fn no_key_acts_for_a_person_with_more_rights() {
    use Scope::*;
    let gateway = with_team().await;
    let (admin, _) = person(&gateway, "admin", "admin").await;
    let (member, _) = person(&gateway, "member", "member").await;
    let making = service_key(
        &gateway,
        "workspace",
        &[WorkspaceUserApiKeysCreate, WorkspaceUserApiKeysRotate, WorkspaceUserApiKeysUpdate, LogsView],
    )
    .await;
    let key =
        |user: &str| json!({"name": "k", "user_id": user, "workspace_id": "team", "scopes": ["logs.view"]});
    let of_admin = text(&done(&gateway, "POST", "/v1/api-keys/workspace/user", &key(&admin)).await, "id");
    let of_member = text(&done(&gateway, "POST", "/v1/api-keys/workspace/user", &key(&member)).await, "id");
    for (method, path, body, wanted) in [
        ("POST", "/v1/api-keys/workspace/user".to_owned(), key(&admin), 403),
        ("POST", "/v1/api-keys/workspace/user".to_owned(), key(&member), 200),
        ("POST", format!("/v1/api-keys/{of_admin}/rotate"), json!({}), 403),
        ("POST", format!("/v1/api-keys/{of_member}/rotate"), json!({}), 200),
        ("PUT", format!("/v1/api-keys/{of_admin}"), json!({"name": "n"}), 403),
        ("PUT", format!("/v1/api-keys/{of_member}"), json!({"name": "n"}), 200),
    ] {
        let (status, answer) = send(&gateway, &making, method, &path, &body).await;
        assert_eq!(status, wanted, "{method} {path} {body}: {answer}");
    }
}

#[tokio::test]
async fn refused_calls_of_a_key_fill_no_audit_log_and_no_entry_has_a_key() {
    let gateway = with_team().await;
    let (_, key) = person(&gateway, "member", "member").await;
    for _ in 0..80 {
        assert_eq!(send(&gateway, &key, "POST", "/v1/configs", &json!({})).await.0, 403);
    }
    let url = format!("{}/v1/configs/none-{key}?key={key}&a=b", gateway.control_url());
    let refused = client().put(&url).body("{}").send().await.unwrap();
    assert_eq!(refused.status(), 401, "no key of a query counts here");
    let note = json!({"name": format!("of {OPERATOR_KEY}"), "config": {"retry": {"attempts": 2}}});
    done(&gateway, "POST", &format!("/v1/configs?api-key={OPERATOR_KEY}"), &note).await;
    let path = "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&organisation_id=x&resource_type=configs&page_size=100";
    let log = done(&gateway, "GET", path, &json!({})).await;
    assert_eq!(log["total"], 62, "60 of 80, one without a key, and one that was made");
    let log = log.to_string();
    assert!(!log.contains(&key) && !log.contains(OPERATOR_KEY) && log.contains("api-key=*****"), "{log}");
    assert!(gateway.log().contains("are left out of the audit log"));
}

#[tokio::test]
async fn addresses_of_alerts_are_checked() {
    let gateway = with_team().await;
    for (address, wanted) in
        [("ops@example.com", 200), ("not an address", 400), ("a@b\r\nBcc: c@d.example", 400), ("<a@b>", 400)]
    {
        let key = json!({"name": "k", "workspace_id": "team", "scopes": ["completions.write"], "alert_emails": [address]});
        let (status, body) =
            send(&gateway, OPERATOR_KEY, "POST", "/v1/api-keys/workspace/service", &key).await;
        assert_eq!(status, wanted, "{address:?}: {body}");
        assert!(wanted == 200 || body.to_string().contains("alert_emails[0]"), "{body}");
    }
}

#[tokio::test]
async fn writing_logs_can_be_a_right_of_its_own() {
    let log = json!({"request": {"url": "https://api.example.com", "body": {}}, "response": {"body": {}}});
    for (setting, wanted) in [("false", [200, 200]), ("true", [403, 200])] {
        let keys = format!("[{{name: operator, key: {OPERATOR_KEY}, scopes: [administration]}}]");
        let auth = format!("auth: {{separate_logs_write: {setting}, keys: {keys}}}");
        let gateway = Gateway::start(&format!("{LISTEN}{auth}\n"));
        done(&gateway, "POST", "/v1/admin/workspaces", &json!({"name": "team", "slug": "team"})).await;
        for (scope, wanted) in [Scope::CompletionsWrite, Scope::LogsWrite].into_iter().zip(wanted) {
            let key = service_key(&gateway, "workspace", &[scope]).await;
            let (status, body) = send(&gateway, &key, "POST", "/v1/logs", &log).await;
            assert_eq!(status, wanted, "{setting} {scope}: {body}");
        }
    }
}
