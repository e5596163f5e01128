//! `turnpike get`, `create`, `edit` and `delete` against a running gateway.
//!
//! That they reach every route of objects is tested beside the table (`control::objects`); what the routes do is not tested here.

use crate::support::Gateway;
use crate::support::command::Finished;
use crate::support::settings::{LISTEN, OPERATOR_KEY, STANDARD};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

/// Runs a command with the operator's key in the environment, and this text as its standard input.
fn run_with(gateway: &Gateway, arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
    command.args(arguments).env_clear().env("TURNPIKE_URL", gateway.control_url());
    command.envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that reads nothing may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn run(gateway: &Gateway, arguments: &[&str], input: &str) -> Finished {
    run_with(gateway, arguments, &[("TURNPIKE_KEY", OPERATOR_KEY)], input)
}

/// What a command prints that must succeed.
fn printed(gateway: &Gateway, arguments: &[&str], input: &str) -> String {
    let end = run(gateway, arguments, input);
    assert_eq!(end.code, Some(0), "{arguments:?}: {}{}", end.stdout, end.stderr);
    end.stdout
}

/// What a command says that must fail.
fn refusal(gateway: &Gateway, arguments: &[&str], input: &str) -> String {
    let end = run(gateway, arguments, input);
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""), "{arguments:?}: {}", end.stderr);
    end.stderr
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn objects_are_made_shown_changed_and_deleted() {
    let gateway = Gateway::start(STANDARD);
    let config = json!({"name": "dev042", "slug": "mine", "config": {"retry": {"attempts": 2}}}).to_string();
    let made = printed(&gateway, &["create", "configs"], &config);
    assert!(made.contains("slug") && made.contains("mine"), "{made}");
    let other = json!({"name": "dev043", "slug": "other", "config": {"retry": {"attempts": 3}}}).to_string();
    let made = json_of(&printed(&gateway, &["create", "configs", "--json"], &other));
    assert!(made["id"].is_string(), "{made}");

    let table = printed(&gateway, &["get", "configs"], "");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].contains("SLUG") && lines[0].contains("NAME"), "{table}");
    assert!(table.contains("dev042") && table.contains("dev043"), "{table}");
    let chosen = printed(&gateway, &["get", "configs", "-q", "name=dev042"], "");
    assert!(chosen.contains("dev042") && !chosen.contains("dev043"), "{chosen}");
    let list = json_of(&printed(&gateway, &["get", "configs", "--json", "-q", "name=dev042"], ""));
    assert_eq!((list.as_array().unwrap().len(), &list[0]["slug"]), (1, &json!("mine")));
    let one = json_of(&printed(&gateway, &["get", "configs", "mine", "--json"], ""));
    assert_eq!(one["name"], "dev042", "{one}");
    let members = printed(&gateway, &["get", "configs", "mine"], "");
    assert!(members.lines().any(|line| line.starts_with("name ") && line.ends_with("dev042")), "{members}");

    let folder = tempfile::tempdir().unwrap();
    let change = folder.path().join("change.json");
    std::fs::write(&change, r#"{"name": "renamed"}"#).unwrap();
    let change = change.to_str().unwrap();
    assert_eq!(printed(&gateway, &["edit", "configs", "mine", "--file", change], ""), "changed mine\n");
    assert!(printed(&gateway, &["get", "configs", "mine"], "").contains("renamed"));
    assert_eq!(printed(&gateway, &["delete", "configs", "mine"], ""), "deleted mine\n");
    let gone = refusal(&gateway, &["get", "configs", "mine"], "");
    assert!(gone.contains("404: There is no config \"mine\""), "{gone}");
}

#[tokio::test]
async fn a_list_is_read_page_by_page_up_to_a_limit() {
    let gateway = Gateway::start(STANDARD);
    for number in 0..103 {
        gateway.create("/v1/labels", &json!({"name": format!("label-{number}")})).await;
    }
    // Three are there in every workspace.
    let all = json_of(&printed(&gateway, &["get", "labels", "--json"], ""));
    assert_eq!(all.as_array().unwrap().len(), 106);
    let some = run(&gateway, &["get", "labels", "--limit", "7"], "");
    assert_eq!((some.code, some.stdout.lines().count()), (Some(0), 8), "{}", some.stdout);
    assert!(some.stderr.contains("7 of 106 are shown"), "{}", some.stderr);
    let page = json_of(&printed(&gateway, &["get", "labels", "--json", "-q", "page_size=5"], ""));
    assert_eq!(page.as_array().unwrap().len(), 5);
}

#[test]
fn objects_below_others_are_named_by_their_path() {
    let gateway = Gateway::start(STANDARD);
    let prompt = json!({
        "name": "Greeting", "slug": "greeting", "string": "Hello {{name}}", "parameters": {}, "model": "m",
        "virtual_key": "emulator"
    });
    printed(&gateway, &["create", "prompts"], &prompt.to_string());
    let versions = json_of(&printed(&gateway, &["get", "prompts/greeting/versions", "--json"], ""));
    assert_eq!(versions[0]["prompt_version"], 1, "{versions}");
    let label = r#"{"label_id": "production"}"#;
    printed(&gateway, &["edit", "prompts/greeting/versions", "1", "--file", "-"], label);
    let one = json_of(&printed(&gateway, &["get", "prompts/greeting/versions", "1", "--json"], ""));
    assert_eq!(one["prompt_version_labels"], json!(["production"]));
    let policy = json!({
        "name": "p", "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}],
        "type": "requests", "credit_limit": 9
    });
    printed(&gateway, &["create", "usage-limits"], &policy.to_string());
    assert!(printed(&gateway, &["get", "policies/usage-limits"], "").contains("requests"));
    let key = json!({"name": "made", "scopes": ["completions.write"]}).to_string();
    let made = json_of(&printed(&gateway, &["create", "api-keys/workspace/service", "--json"], &key));
    assert!(made["key"].as_str().unwrap().starts_with("gk_"), "{made}");
    let untyped = refusal(&gateway, &["create", "api-keys"], &key);
    assert!(
        untyped.contains("without its type: api-keys/organisation/service, api-keys/workspace/service"),
        "{untyped}"
    );
    printed(&gateway, &["delete", "api-keys", made["id"].as_str().unwrap()], "");
}

#[test]
fn an_editor_changes_the_members_that_a_change_may_have() {
    let gateway = Gateway::start(STANDARD);
    let body = json!({"name": "before", "slug": "kept", "config": {"retry": {"attempts": 2}}}).to_string();
    printed(&gateway, &["create", "configs"], &body);
    let folder = tempfile::tempdir().unwrap();
    let temp = folder.path().to_str().unwrap();
    let editor = |text: &str| {
        let file = folder.path().join("editor.sh");
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let edit = |editor: &str| {
        let environment =
            [("TURNPIKE_KEY", OPERATOR_KEY), ("EDITOR", editor), ("TMPDIR", temp), ("PATH", "/usr/bin:/bin")];
        run_with(&gateway, &["edit", "configs", "kept"], &environment, "")
    };
    let left = || std::fs::read_dir(folder.path()).unwrap().count() - 1;
    let end = edit(&editor("grep -q slug \"$1\" && exit 3; sed -i s/before/after/ \"$1\""));
    assert_eq!((end.code, end.stdout.as_str(), left()), (Some(0), "changed kept\n", 0), "{}", end.stderr);
    let shown = json_of(&printed(&gateway, &["get", "configs", "kept", "--json"], ""));
    assert_eq!(shown["name"], "after", "{shown}");
    let end = edit(&editor("sed -i 's/\"attempts\": 2/\"attempts\": 3/' \"$1\""));
    assert_eq!(end.stdout, "changed kept\n", "{}", end.stderr);
    let shown = json_of(&printed(&gateway, &["get", "configs", "kept", "--json"], ""));
    assert_eq!(shown["data"]["config"]["retry"]["attempts"], 3, "{shown}");
    let end = edit(&editor("true"));
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "nothing was changed\n"), "{}", end.stderr);
    // What was written is not lost where the gateway refuses it, or where it is no JSON.
    let end = edit(&editor("sed -i 's/after/ /' \"$1\""));
    assert!(
        end.code == Some(1) && end.stderr.contains("400: ") && end.stderr.contains(temp),
        "{}",
        end.stderr
    );
    let end = edit(&editor("echo nothing > \"$1\""));
    assert!(end.code == Some(1) && end.stderr.contains("no JSON object"), "{}", end.stderr);
    assert_eq!(left(), 2);
    let end = edit("/nowhere/editor");
    assert!(end.code == Some(1) && end.stderr.contains("EDITOR names another one"), "{}", end.stderr);
}

#[test]
fn refusals_name_what_is_wrong() {
    let gateway =
        Gateway::start(&format!("{LISTEN}auth: {{keys: [{{name: operator, key: {OPERATOR_KEY}}}]}}\n"));
    let kind = refusal(&gateway, &["get", "confgs"], "");
    assert!(kind.contains("did you mean configs?"), "{kind}");
    let parameter = refusal(&gateway, &["get", "configs", "-q", "nmae=x"], "");
    assert!(parameter.contains("400: ") && parameter.contains("did you mean name?"), "{parameter}");
    let body = refusal(&gateway, &["create", "configs"], r#"{"slug": "a b", "confg": {}}"#);
    assert!(body.contains("\n  confg: ") && body.contains("\n  slug: "), "{body}");
    let text = refusal(&gateway, &["create", "configs"], "[]");
    assert!(text.contains("standard input: no JSON object"), "{text}");
    let nothing = refusal(&gateway, &["delete", "audit-logs", "1"], "");
    assert!(nothing.contains("audit-logs cannot be deleted"), "{nothing}");
    let end = run_with(&gateway, &["get", "configs"], &[], "");
    assert!(
        end.code == Some(1) && end.stderr.contains("401: ") && end.stderr.contains("TURNPIKE_KEY"),
        "{}",
        end.stderr
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{OPERATOR_KEY}\n")).unwrap();
    let by_file = ["get", "configs", "--key-file", file.to_str().unwrap()];
    assert_eq!(run_with(&gateway, &by_file, &[], "").code, Some(0));
    assert_eq!(run_with(&gateway, &["get", "configs", "--key", OPERATOR_KEY], &[], "").code, Some(0));
    let gone = run(&gateway, &["get", "configs", "--url", "http://127.0.0.1:1"], "");
    assert!(gone.code == Some(1) && gone.stderr.contains("--url names another"), "{}", gone.stderr);
    let wrong = run(&gateway, &["get", "configs", "-q", "name"], "");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("NAME=VALUE"), "{}", wrong.stderr);
}
