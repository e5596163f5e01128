//! The list of checks as a whole: that it is sound, and that `docs/guardrails.md` says what it says.

use super::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use words::config::hooks::HookPhase;

/// In `docs/guardrails.md`: what follows is written by the test below.
const MARKER: &str = "<!-- checks: written by a test -->";

#[test]
fn every_check_has_a_name_and_sound_parameters_of_its_own() {
    let mut names = BTreeSet::new();
    for kind in CHECKS {
        assert!(kind.id.split('.').count() == 2, "{}", kind.id);
        assert!(kind.about.ends_with('.') && !kind.phases.is_empty(), "{}", kind.id);
        for name in kind.aliases.iter().chain([&kind.id]) {
            assert!(names.insert(*name), "{name} is there twice");
            assert_eq!(check_kind(name).map(|found| found.id), Some(kind.id));
        }
        if let Some(name) = kind.id.strip_prefix("default.") {
            assert_eq!(check_kind(name).map(|found| found.id), Some(kind.id));
        }
        let mut parameters = BTreeSet::new();
        for Parameter { name, kind: of_type, required, default, about } in kind.parameters {
            assert!(parameters.insert(name), "{}: {name} is there twice", kind.id);
            assert!(about.ends_with('.'), "{}: {name}", kind.id);
            if !default.is_empty() {
                assert!(!required, "{}: {name}", kind.id);
                let default = serde_json::from_str(default).unwrap();
                assert_eq!(of_type.problem(&default), None, "{}: {name}", kind.id);
            }
        }
    }
    assert!(check_kind("default.nothing").is_none() && check_kind("nothing").is_none());
}

fn type_name(kind: Type) -> String {
    let list = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match kind {
        Type::Text => "text".to_owned(),
        Type::Secret => "text, never shown".to_owned(),
        Type::Flag => "true or false".to_owned(),
        Type::Number => "number".to_owned(),
        Type::Texts => "list of texts, or one".to_owned(),
        Type::Schema => "object, true or false".to_owned(),
        Type::RequestTypes => "list of types, or a text of them with commas".to_owned(),
        Type::OneOf(names) => format!("one of {}", list(names)),
        Type::SomeOf(names) => format!("list of some of {}", list(names)),
        Type::Object => "object".to_owned(),
        Type::Headers => "object of texts, or its JSON as a text".to_owned(),
        Type::Any => "any JSON".to_owned(),
    }
}

fn phases(kind: &CheckKind) -> &'static str {
    match (kind.phases.contains(&HookPhase::Before), kind.phases.contains(&HookPhase::After)) {
        (true, true) => "requests and responses",
        (true, false) => "requests",
        (false, _) => "responses",
    }
}

fn section(page: &mut String, kind: &CheckKind) {
    let cell = |text: &str| text.replace('|', "\\|");
    writeln!(page, "\n### `{}`\n\n{} For {}.", kind.id, kind.about, phases(kind)).unwrap();
    if !kind.aliases.is_empty() {
        let aliases: Vec<String> = kind.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        writeln!(page, "\nOther spellings: {}.", aliases.join(", ")).unwrap();
    }
    if !kind.source.is_empty() {
        writeln!(page, "\nSource: <{}>", kind.source).unwrap();
    }
    if kind.parameters.is_empty() {
        return;
    }
    page.push_str("\n| Parameter | Type | Default | Meaning |\n|---|---|---|---|\n");
    for parameter in kind.parameters {
        let default = match (parameter.required, parameter.default) {
            (true, _) => "required".to_owned(),
            (false, "") => String::new(),
            (false, default) => format!("`{default}`"),
        };
        let of_type = cell(&type_name(parameter.kind));
        let about = cell(parameter.about);
        writeln!(page, "| `{}` | {of_type} | {} | {about} |", parameter.name, cell(&default)).unwrap();
    }
}

/// What is generated of `docs/guardrails.md`.
fn generated() -> String {
    let mut page = format!(
        "{MARKER}\n\n## Checks\n\n\
         Generated from the list of checks (`UPDATE_GOLDEN=1 cargo test guard`); do not edit. The id of a check of the family\n\
         `default.` may be written without the family.\n\n\
         Patterns have JavaScript's syntax without look-around and back-references: those would take more than time linear in the\n\
         text and are refused. `\\w`, `\\d` and `\\b` are of ASCII; a `[` within a class is written `\\[`. A pattern whose tables would\n\
         be too large is refused too, with the usual reason for it.\n\n\
         | Check | For |\n|---|---|\n"
    );
    for kind in CHECKS {
        let anchor: String = kind.id.chars().filter(|c| *c != '.').collect::<String>().to_lowercase();
        writeln!(page, "| [`{}`](#{anchor}) | {} |", kind.id, phases(kind)).unwrap();
    }
    CHECKS.iter().for_each(|kind| section(&mut page, kind));
    page
}

#[test]
fn the_documentation_page_matches_the_checks() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guardrails.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_else(|_| "# Guardrails\n\n".to_owned());
    let written = committed.split(MARKER).next().unwrap_or_default();
    let page = format!("{written}{}", generated());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    // Not assert_eq, which would print two whole pages.
    assert!(page == committed, "docs/guardrails.md is behind: UPDATE_GOLDEN=1 cargo test guard");
}

/// The finding of a check may be shown to any client: parameters that are keys are marked as such.
#[test]
fn keys_are_marked_as_secrets() {
    for kind in CHECKS {
        for parameter in kind.parameters {
            let name = parameter.name.to_lowercase();
            let is_key = ["apikey", "api_key", "secret", "password"].iter().any(|part| name.ends_with(part));
            assert!(!is_key || parameter.kind == Type::Secret, "{}: {}", kind.id, parameter.name);
        }
    }
    assert_eq!(Type::Secret.problem(&Value::from(5)).as_deref(), Some("must be a text"));
}
