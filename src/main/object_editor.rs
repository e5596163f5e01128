//! `turnpike edit` without a file: an object in the editor of whoever runs it, and what was changed of it.
//!
//! Only members that a change may have are shown, and only those that were changed are sent: secrets of the others stay as they are. A
//! changed one with a masked secret in it is not sent, since the mask would take the place of the secret.

use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The editor where no variable names one.
const DEFAULT_EDITOR: &str = "vi";
/// What stands for a secret in what the gateway shows, alone or within a text.
const MASK: &str = "*****";

/// Opens the members of an object that may be changed, and hands the changed ones to `send`. Returns whether there were any.
///
/// # Errors
/// No editor, a text that is no JSON object, a changed member with a masked secret, and what `send` says; the edited file stays then,
/// and is named.
pub fn edit(
    object: &Value,
    members: &[&str],
    send: impl FnOnce(&Value) -> Result<(), String>,
) -> Result<bool, String> {
    let before = editable(object, members);
    let path = written(&before)?;
    let kept = |why: String| format!("{why}\nWhat you wrote is in {}", path.display());
    if let Err(why) = open(&path) {
        let _ = std::fs::remove_file(&path);
        return Err(why);
    }
    let text = std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let after: Map<String, Value> =
        serde_json::from_str(&text).map_err(|why| kept(format!("no JSON object: {why}")))?;
    let change = changes(&before, after);
    let is_changed = !change.is_empty();
    if is_changed {
        check_masks(&before, &change).and_then(|()| send(&Value::Object(change))).map_err(kept)?;
    }
    // It has served, and may hold something private.
    let _ = std::fs::remove_file(&path);
    Ok(is_changed)
}

/// The members of an object that a change may have; all where nobody says which.
fn editable(object: &Value, members: &[&str]) -> Map<String, Value> {
    let shown = object.as_object().into_iter().flatten();
    let is_shown = |name: &str| members.is_empty() || members.contains(&name);
    shown.filter(|(name, _)| is_shown(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The members that are others than before; those that were taken away are null, which clears them.
fn changes(before: &Map<String, Value>, after: Map<String, Value>) -> Map<String, Value> {
    let gone = before.iter().filter(|(name, value)| !value.is_null() && !after.contains_key(*name));
    let mut changed: Map<String, Value> = gone.map(|(name, _)| (name.clone(), Value::Null)).collect();
    changed.extend(after.into_iter().filter(|(name, value)| before.get(name) != Some(value)));
    changed
}

/// # Errors
/// A changed member still has a secret as the gateway shows it.
fn check_masks(before: &Map<String, Value>, change: &Map<String, Value>) -> Result<(), String> {
    let is_masked = |name: &str, value: &Value| has_mask(value) && before.get(name).is_some_and(has_mask);
    match change.iter().find(|(name, value)| is_masked(name, value)) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "nothing was sent: {name} was changed and still has {MASK}, which would take the place of a secret that is not shown. Write the \
             secret there, or leave {name} as it is. Where {MASK} is meant, `turnpike edit --file` sends it"
        )),
    }
}

fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(items) => items.iter().any(has_mask),
        Value::Object(members) => members.values().any(has_mask),
        _ => false,
    }
}

/// Writes the object to a file that its owner alone can read.
fn written(object: &Map<String, Value>) -> Result<PathBuf, String> {
    let text = serde_json::to_string_pretty(object).map_err(|why| why.to_string())?;
    let path = std::env::temp_dir().join(format!("turnpike-{}.json", uuid::Uuid::now_v7()));
    let failed = |why: std::io::Error| format!("{}: {why}", path.display());
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
    Ok(path)
}

/// Runs the editor, which may be a command with arguments.
fn open(path: &Path) -> Result<(), String> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let named = named.unwrap_or_else(|| DEFAULT_EDITOR.to_owned());
    let mut parts = named.split_whitespace();
    let program = parts.next().unwrap_or(DEFAULT_EDITOR);
    let status = Command::new(program).args(parts).arg(path).status();
    let status = status.map_err(|why| format!("the editor {program}: {why}; EDITOR names another one"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the editor {program} failed ({status}); nothing was changed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_was_changed_is_sent() {
        let object =
            json!({"id": 1, "name": "a", "key": "sk*****789", "note": null, "limits": {"a": 1}, "gone": 2});
        let before = editable(&object, &["name", "key", "note", "limits", "gone"]);
        assert_eq!(before.get("id"), None);
        let after = json!({"name": "b", "key": "sk*****789", "limits": {"a": 2}, "new": true});
        let after = after.as_object().unwrap().clone();
        let changed = Value::Object(changes(&before, after));
        assert_eq!(changed, json!({"gone": null, "name": "b", "limits": {"a": 2}, "new": true}));
        assert!(changes(&before, before.clone()).is_empty());
        assert_eq!(editable(&object, &[]).len(), 6);
    }

    #[test]
    fn a_mask_is_never_sent_in_place_of_a_secret() {
        let before = json!({
            "name": "a", "key": "sk*****789", "note": "plain",
            "checks": [{"id": "default.webhook", "parameters": {"webhookURL": "https://*****@h.example/a", "headers": {"X-A": "*****"}}}],
        });
        let before = before.as_object().unwrap();
        let check = |change: Value| check_masks(before, change.as_object().unwrap());
        let address = |url: &str, header: &str| json!({"checks": [{"parameters": {"webhookURL": url, "headers": {"X-A": header}}}]});
        for bad in [
            json!({"key": "sk*****780"}),
            address("https://*****@h.example/b", "written"),
            address("https://h.example/b", "*****"),
        ] {
            let why = check(bad.clone()).unwrap_err();
            assert!(why.contains("*****") && why.contains("--file"), "{bad}: {why}");
        }
        for good in [
            json!({"name": "b", "key": "sk-new", "checks": null}),
            address("https://h.example/b", "written"),
            // Of the user: nothing was masked there.
            json!({"note": "*****", "new": "*****"}),
        ] {
            assert_eq!(check(good.clone()), Ok(()), "{good}");
        }
    }
}
