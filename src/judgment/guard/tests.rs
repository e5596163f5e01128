//! The list of checks as a whole: that it is sound, and that `docs/guardrails.md` says what it says.

use super::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use words::config::hooks::{Guardrail, HookKind, HookPhase};
use words::config::node::Node;
use words::config::pattern::PatternBudget;
use words::config::policies::HookLists;
use words::config::read::{Cursor, Problems};
use words::error::Problem;

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
        Type::Id => "text or number".to_owned(),
        Type::List => "list of texts".to_owned(),
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

/// A value of the type.
fn of_type(kind: Type) -> Value {
    match kind {
        Type::Text | Type::Secret | Type::Id | Type::Any => json!("https://example.com"),
        Type::Flag => json!(true),
        Type::Number => json!(1),
        Type::List | Type::Texts => json!(["a"]),
        Type::OneOf(names) => json!(names[0]),
        Type::SomeOf(names) => json!([names[0]]),
        Type::RequestTypes => json!(["embed"]),
        Type::Object | Type::Headers | Type::Schema => json!({}),
    }
}

/// Values that are not of the type.
fn of_other_types(kind: Type) -> Vec<Value> {
    match kind {
        Type::Text | Type::Secret => vec![json!(7), json!(true), json!(["a"]), json!({"a": "b"})],
        Type::Flag => vec![json!("true"), json!(1), json!([true])],
        Type::Number => vec![json!("7"), json!(true), json!([7])],
        Type::Id => vec![json!(true), json!(["a"]), json!({"a": "b"})],
        Type::List => vec![json!("a"), json!("a,b"), json!([7]), json!({"a": "b"}), json!(true)],
        Type::Texts => vec![json!([7]), json!({"a": "b"}), json!(7)],
        Type::OneOf(names) => vec![json!("nothing"), json!([names[0]]), json!(7)],
        Type::SomeOf(names) => vec![json!(names[0]), json!(["nothing"]), json!(7), json!([7])],
        Type::RequestTypes => vec![json!("nothing"), json!(["nothing"]), json!(7), json!([7])],
        Type::Object | Type::Schema => vec![json!("a"), json!(["a"]), json!(7)],
        Type::Headers => vec![json!({"a": 1}), json!(7), json!(["a"])],
        Type::Any => Vec::new(),
    }
}

/// The paths of the problems of a check with these parameters in a config that comes with a request.
fn problem_paths(kind: &CheckKind, parameters: &Map<String, Value>) -> Vec<String> {
    let phase = kind.phases[0];
    let prefix = format!("{}[0].{}.", phase.lists()[1], kind.id);
    let problems = problems_of(&json!([{kind.id: parameters}]), phase);
    let paths = problems.into_iter().map(|problem| problem.path);
    paths.map(|path| path.strip_prefix(&prefix).unwrap_or(&path).to_owned()).collect()
}

/// The problems of guardrails in a config that comes with a request.
fn problems_of(guardrails: &Value, phase: HookPhase) -> Vec<Problem> {
    let problems = Problems::default();
    let patterns = PatternBudget::default();
    let guardrails = guardrails.to_string();
    let node = Node::from_json(guardrails.as_bytes()).unwrap();
    let items = Cursor::root(&node, &problems).list().unwrap();
    let list = items.iter().filter_map(|at| Guardrail::read(at, phase, HookKind::Guardrail)).collect();
    let lists = HookLists { guardrails: Some(list), ..HookLists::default() };
    let compiler =
        HookCompiler { saved: &|_| None, patterns: &patterns, problems: &problems, is_strict: false };
    compiler.compile(&[], &lists, phase);
    problems.into_vec()
}

/// One request is no means to have the gateway call a server a thousand times.
#[test]
fn only_so_many_checks_of_a_phase_may_call_other_servers() {
    let webhook = json!({"default.webhook": {"webhookURL": "https://a.example"}});
    let pair = json!({
        "default.log": {"logURL": "https://a.example"},
        "default.modelJudge": {"provider": "@p", "model": "m", "instructions": "i"},
    });
    let local = json!({"default.contains": {"words": ["a"]}});
    for phase in [HookPhase::Before, HookPhase::After] {
        for (guardrails, is_fine) in [
            (vec![&webhook; 20], true),
            (vec![&webhook; 21], false),
            (vec![&pair; 10], true),
            (vec![&pair; 11], false),
            (vec![&local; 60], true),
        ] {
            let found = problems_of(&json!(guardrails), phase);
            assert_eq!(found.is_empty(), is_fine, "{guardrails:?} {found:?}");
            let is_named = |problem: &Problem| {
                problem.path == phase.lists()[1] && problem.message.contains("at most 20")
            };
            assert!(found.iter().all(is_named), "{found:?}");
        }
    }
}

/// A guardrail that cannot work would let everything pass.
#[test]
fn what_is_missing_or_has_not_its_type_is_refused_when_a_config_is_read() {
    for kind in CHECKS {
        let required = kind.parameters.iter().filter(|parameter| parameter.required);
        let whole: Map<String, Value> =
            required.map(|parameter| (parameter.name.to_owned(), of_type(parameter.kind))).collect();
        for Parameter { name, kind: of, required, .. } in kind.parameters {
            if *required {
                for absent in [None, Some(Value::Null)] {
                    let mut without = whole.clone();
                    without.remove(*name);
                    without.extend(absent.map(|null| ((*name).to_owned(), null)));
                    let found = problem_paths(kind, &without);
                    assert!(found.contains(&(*name).to_owned()), "{}: without {name}: {found:?}", kind.id);
                }
            }
            for wrong in of_other_types(*of) {
                let mut with = whole.clone();
                with.insert((*name).to_owned(), wrong.clone());
                let found = problem_paths(kind, &with);
                assert_eq!(found, [*name], "{}: {name} is {wrong}", kind.id);
            }
        }
    }
}

#[test]
fn what_several_parameters_lack_together_is_refused() {
    for (id, parameters, path) in [
        ("zscaler.guardrails", json!({}), "policyId"),
        ("zscaler.guardrails", json!({"policyId": ""}), "policyId"),
        ("zscaler.guardrails", json!({"parameters": {}}), "policyId"),
        ("panw-prisma-airs.intercept", json!({}), "profile_name"),
        ("default.jwt", json!({}), ""),
        ("default.requestParametersCheck", json!({"tools": {"blockedTypes": "function"}}), "tools"),
        ("default.requestParametersCheck", json!({"tools": {"blocked": []}}), "tools"),
        ("default.requestParametersCheck", json!({"params": {"values": []}}), "params"),
        ("default.requestParametersCheck", json!({"params": {"values": {"model": []}}}), "params"),
        ("default.modelRules", json!({"rules": {"defaults": "gpt-4o"}}), "rules"),
        ("default.jwt", json!({"jwksUri": "https://a.example", "claimValues": {"a": []}}), "claimValues"),
    ] {
        let found = problem_paths(check_kind(id).unwrap(), parameters.as_object().unwrap());
        let is_it = |found: &String| *found == path || (path.is_empty() && found.ends_with(id));
        assert!(found.len() == 1 && found.iter().all(is_it), "{id} {parameters}: {found:?}");
    }
    let fine = [
        ("zscaler.guardrails", json!({"policyId": 7})),
        ("zscaler.guardrails", json!({"policyId": "7", "timeout": 100})),
        ("zscaler.guardrails", json!({"parameters": {"policyId": "7"}})),
        ("default.inlineImageUrls", json!({"providers": ["openai"]})),
        // A value that makes no sense is an error of the result.
        ("default.regexMatch", json!({"rule": "("})),
    ];
    for (id, parameters) in fine {
        let found = problem_paths(check_kind(id).unwrap(), parameters.as_object().unwrap());
        assert!(found.is_empty(), "{id} {parameters}: {found:?}");
    }
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
