//! A key of an export of Portkey's: a key of the settings with its scopes and limits, whose secret is a variable to set.
//!
//! Not here: keys that are made in the store.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::moved::{VariableUse, id_of};
use super::super::tree::Tree;
use super::config;

/// A key, of which an export has everything but the secret.
pub fn read(import: &mut Import, at: &InputAt<'_>) {
    let Some(name_at) = at.member("name") else { return };
    let name = name_at.text().unwrap_or_default();
    let variable =
        import.moved.new_variable(&format!("{}_KEY", id_of(&name).to_uppercase()), VariableUse::Secret);
    let mut key = Tree::of([("name", Tree::text(name.clone())), ("key", Tree::text(variable.clone()))]);
    if let Some(scopes) = at.member("scopes") {
        let mut taken = Vec::new();
        for scope in scopes.items() {
            let text = scope.text().unwrap_or_default();
            if words::settings::scopes::Scope::parse(&text).is_some() {
                taken.push(Tree::text(text));
                import.findings.exact(&scope, format!("auth.keys[{name}].scopes"));
            } else {
                import.findings.not_taken(&scope, "is no scope here (docs/keys.md)");
            }
        }
        key.set("scopes", Tree::List(taken));
    }
    read_limits(import, at, &name, &mut key);
    if import.moved.key(key) {
        import.findings.different(
            &name_at,
            format!(
                "auth.keys[{name}]: exports have no secrets; set {variable} to the key that its clients send"
            ),
        );
    } else {
        import.findings.not_taken(&name_at, "another key has this name");
    }
}

/// Limits of a key, which are those of a key of the settings as well.
fn read_limits(import: &mut Import, at: &InputAt<'_>, name: &str, key: &mut Tree) {
    for (list, members) in [
        (
            "usage_limits",
            &["type", "credit_limit", "alert_threshold", "periodic_reset", "periodic_reset_days"][..],
        ),
        ("rate_limits", &["type", "unit", "value"][..]),
    ] {
        let Some(limits_at) = at.member(list) else { continue };
        let items = if limits_at.node.is_object() { vec![limits_at] } else { limits_at.items() };
        let mut limits = Vec::new();
        for at in items.iter().filter(|at| !at.entries().is_empty()) {
            let mut limit = Tree::map();
            for member in members {
                if let Some(value) = at.member(member) {
                    limit.set(
                        member,
                        import.copied(&value, config::reader, &format!("auth.keys[{name}].{list}")),
                    );
                }
            }
            limits.push(limit);
        }
        if !limits.is_empty() {
            key.set(list, Tree::List(limits));
        }
    }
}
