//! `turnpike keys`: made, listed, rotated and revoked on the store, as an operator calls them, with and without a gateway that runs.
//!
//! The API for the same is tested in `api_keys`.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::command::turnpike;
use crate::support::settings::LISTEN;
use crate::support::stores::on_each_store;
use crate::support::wait::until;
use std::path::Path;

/// Calls `turnpike -c SETTINGS keys ...`: status, standard output, standard error.
fn keys(settings: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = turnpike(&[&["-c", settings.to_str().unwrap(), "keys"], arguments].concat());
    (output.code, output.stdout, output.stderr)
}

/// The key that a command printed.
fn made(settings: &Path, arguments: &[&str]) -> String {
    let (code, text, errors) = keys(settings, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {text}{errors}");
    let key = text.lines().next().unwrap().to_owned();
    assert!(key.starts_with("gk_") && key.len() == 59, "the key is the first line: {text}");
    key
}

/// The id of the key whose public part is that of `key`.
fn id_of(settings: &Path, key: &str) -> String {
    let (_, list, _) = keys(settings, &["list"]);
    let line = list.lines().find(|line| line.contains(&key[3..15])).unwrap_or_else(|| panic!("{list}"));
    let is_id = |part: &&str| part.len() == 36 && part.matches('-').count() == 4;
    line.split(|char: char| char.is_whitespace()).find(is_id).unwrap_or_else(|| panic!("{line}")).to_owned()
}

async fn status(gateway: &Gateway, key: &str) -> u16 {
    let url = format!("{}/v1/api-keys/self", gateway.control_url());
    client().get(url).header("x-gateway-api-key", key).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn keys_are_made_rotated_and_revoked_while_a_gateway_runs() {
    on_each_store(async || {
        let gateway = Gateway::start(LISTEN);
        let settings = gateway.folder().join("turnpike.yaml");
        let create = ["create", "--name", "team-a", "--scope", "configs.read", "--workspace", "default"];
        let first = made(&settings, &create);
        let id = id_of(&settings, &first);
        // The gateway follows within a second; `until` waits longer only on a busy machine.
        until("the key", async || (status(&gateway, &first).await == 200).then_some(())).await;
        let (code, list, _) = keys(&settings, &["list"]);
        assert!(code == Some(0) && list.contains(&id) && list.contains("team-a"), "{list}");
        assert!(!list.contains(&first) && list.contains(&first[3..15]), "the public part alone: {list}");

        let second = made(&settings, &["rotate", &id, "--transition-ms", "0"]);
        assert_eq!(id_of(&settings, &second), id);
        until("the new secret", async || (status(&gateway, &second).await == 200).then_some(())).await;
        assert_eq!(status(&gateway, &first).await, 401, "with no transition the old secret ends at once");
        let third = made(&settings, &["rotate", &id]);
        until("the third secret", async || (status(&gateway, &third).await == 200).then_some(())).await;
        assert_eq!(status(&gateway, &second).await, 200, "both are good for a while");
        let (code, _, errors) = keys(&settings, &["rotate", &id]);
        assert!(code == Some(1) && !errors.is_empty(), "two secrets at most: {errors}");

        let (code, text, _) = keys(&settings, &["revoke", &id]);
        assert!(code == Some(0) && text.contains(&id), "{text}");
        until("the end", async || (status(&gateway, &third).await == 401).then_some(())).await;
        for gone in [&first, &second, &third] {
            assert!(!gateway.log().contains(gone.as_str()), "no key is in the log");
        }
    })
    .await;
}

#[test]
fn a_refused_command_names_the_reason_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("turnpike.yaml");
    std::fs::write(&settings, "").unwrap();
    assert_eq!(turnpike(&["-c", settings.to_str().unwrap(), "store", "migrate"]).code, Some(0));
    let key = made(&settings, &["create", "--name", "k", "--scope", "configs.read", "--organisation"]);
    let id = id_of(&settings, &key);
    for (arguments, wanted) in [
        (&["create", "--name", "k", "--scope", "no.scope"][..], "no.scope"),
        (&["create", "--name", "k", "--scope", "completions.write", "--workspace", "nowhere"], "nowhere"),
        (&["create", "--name", "k", "--scope", "completions.write", "--organisation"], "completions.write"),
        (&["create", "--name", "k", "--scope", "configs.read", "--expires-at", "yesterday"], "yesterday"),
        (&["rotate", "00000000-0000-7000-8000-000000000000"], "00000000"),
        (&["revoke", "nobody"], "nobody"),
    ] {
        let (code, text, errors) = keys(&settings, arguments);
        assert!(
            code.is_some_and(|code| code != 0) && errors.contains(wanted),
            "{arguments:?}: {text}{errors}"
        );
        assert!(text.is_empty(), "{arguments:?}: {text}");
    }
    let (_, list, _) = keys(&settings, &["list"]);
    assert!(
        list.contains(&id) && !list.contains(&key) && list.matches("organisation-service").count() == 1,
        "{list}"
    );
}
