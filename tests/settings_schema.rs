//! The schema of the settings file as editors get it: the checked-in file is what `turnpike schema` prints, the shipped
//! settings name it, and every settings file of the repository passes it.
//!
//! That it agrees with the reader on every key and value is tested beside it (`settings::schema`).

use crate::support::command::{check, turnpike};
use crate::support::ports::Ports;
use crate::support::settings::{LISTEN, STANDARD};
use jsonschema::Validator;
use serde_json::Value;
use std::path::{Path, PathBuf};

const FILE: &str = "conf/turnpike.schema.json";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(root().join(FILE)).unwrap()).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

/// What the schema says against a YAML text.
fn problems(validator: &Validator, yaml: &str) -> Vec<String> {
    let document: Value = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The blocks of YAML in a page.
fn yaml_blocks(page: &str) -> Vec<String> {
    let blocks = page.split("```yaml\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_checked_in_schema_is_what_the_command_prints() {
    let printed = turnpike(&["schema"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let path = root().join(FILE);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &printed.stdout).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    let hint = "UPDATE_GOLDEN=1 cargo test settings_schema rewrites it";
    assert!(checked_in == printed.stdout, "{FILE} is not what `turnpike schema` prints; {hint}");
    let schema: Value = serde_json::from_str(&checked_in).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn the_shipped_settings_name_the_schema_for_editors() {
    let shipped = std::fs::read_to_string(root().join("conf/turnpike.yaml")).unwrap();
    let named = shipped.lines().next().and_then(|line| line.strip_prefix("# yaml-language-server: $schema="));
    let file = root().join("conf").join(named.expect("the first line names the schema"));
    assert!(file.exists(), "{}", file.display());
}

#[test]
fn every_settings_file_and_every_block_of_the_docs_passes() {
    let validator = validator();
    let mut pages: Vec<PathBuf> = vec![root().join("README.md")];
    let entries = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    let mut texts = vec![
        (
            "conf/turnpike.yaml".to_owned(),
            std::fs::read_to_string(root().join("conf/turnpike.yaml")).unwrap(),
        ),
        ("tests/support/settings.rs".to_owned(), Ports::free().fill(&format!("{LISTEN}{STANDARD}"))),
    ];
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        texts.extend(yaml_blocks(&text).into_iter().map(|block| (page.display().to_string(), block)));
    }
    assert!(texts.len() >= 9, "{}", texts.len());
    for (from, text) in texts {
        let found = problems(&validator, &text);
        assert!(found.is_empty(), "{from}: {found:#?}\n{text}");
    }
}

/// Mistakes of each kind, in a file that is good without them.
#[test]
fn mistakes_are_refused_by_the_schema_and_by_check() {
    let validator = validator();
    let good = "limits: {max_body_bytes: 2048}\nlog: {level: info}\nauth: {keys: [{name: a, key: long-enough}]}\n\
                providers: {a: {provider: openai, api_key: k}}\nconfigs: {c: {provider: '@a', retry: {attempts: 1}}}\n";
    assert_eq!(problems(&validator, good), [""; 0]);
    assert_eq!(check(good).code, Some(0));
    for (from, to) in [
        ("limits:", "lmits:"),
        ("max_body_bytes", "max_body_byte"),
        ("2048", "12"),
        ("2048", "9999999999999"),
        ("2048", "many"),
        ("2048", "1.5"),
        ("{max_body_bytes: 2048}", "[]"),
        ("level: info", "level: loud"),
        ("level: info", "level: 3"),
        ("long-enough", "short"),
        ("name: a, ", ""),
        ("[{name", "{name"),
        ("openai", "opeanai"),
        ("providers: {a:", "providers: {'a b':"),
        ("api_key: k", "api_kye: k"),
        ("attempts: 1", "attempts: -1"),
        ("retry: {attempts: 1}", "retry: {}"),
        ("retry: {attempts: 1}", "strategy: {mode: sometimes}"),
        ("retry: {attempts: 1}", "on_status_codes: [42]"),
    ] {
        let mut bad = good.replacen(from, to, 1);
        if from == "[{name" {
            bad = bad.replacen("}]}", "}}", 1);
        }
        assert_ne!(bad, good, "{from}");
        assert!(!problems(&validator, &bad).is_empty(), "the schema takes\n{bad}");
        assert_eq!(check(&bad).code, Some(1), "check takes\n{bad}");
    }
}
