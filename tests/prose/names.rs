//! Files, settings, headers and metrics that pages name.

use super::{Page, Span, assert_none, files, root, sources, spans};
use serde_json::Value;
use std::collections::BTreeSet;

/// Folders of the repository, with which a path begins.
const FOLDERS: [&str; 10] =
    ["src/", "tests/", "docs/", "conf/", "benches/", "systemd/", "dist/", "fuzz/", ".ci/", ".cargo/"];

/// Dotted names that begin like a section of the settings and are something else.
const NO_SETTINGS: [(&str, &str); 13] = [
    ("cache.not_stored", "a member of access lines"),
    ("cache.key", "a member of access lines"),
    ("limits.available", "a member of /readyz"),
    ("limits.db", "a file"),
    ("logs.db", "a file"),
    ("batches.create", "a method of OpenAI's SDKs"),
    ("batches.retrieve", "a method of OpenAI's SDKs"),
    ("server.address", "an attribute of spans"),
    ("server.port", "an attribute of spans"),
    ("usage.cache_creation_input_tokens", "a member of responses"),
    ("usage.cache_read_input_tokens", "a member of responses"),
    ("usage.iterations", "a member of responses"),
    ("usage.prompt_tokens_details", "a member of responses"),
];

/// What exists.
struct Existing {
    /// Paths of sources, tests, pages and settings.
    files: BTreeSet<String>,
    /// String literals of the sources.
    literals: BTreeSet<String>,
    /// Those of the files that read the gateway's own headers.
    header_endings: BTreeSet<String>,
    schema: Value,
}

impl Existing {
    fn read() -> Self {
        let mut found = Self {
            files: BTreeSet::new(),
            literals: BTreeSet::new(),
            header_endings: BTreeSet::new(),
            schema: serde_json::from_str(&Page::read("conf/turnpike.schema.json").text).unwrap(),
        };
        for folder in ["src", "tests", "docs", "benches", "fuzz"] {
            found.files.extend(files(folder, "").into_iter().filter(|path| !path.contains("/target/")));
        }
        for source in sources() {
            let texts: Vec<String> = literals(&source.text).map(str::to_owned).collect();
            if source.path.contains("config/headers") || source.path.contains("config/policies") {
                found.header_endings.extend(texts.iter().cloned());
            }
            found.literals.extend(texts);
        }
        found
    }

    /// Why what a span names does not exist.
    fn problem(&self, text: &str) -> Option<String> {
        self.file(text)
            .or_else(|| self.header(text))
            .or_else(|| self.metric(text))
            .or_else(|| self.setting(text))
    }

    fn file(&self, text: &str) -> Option<String> {
        if text.contains(['<', '{', '*', ' ', '…', ':', '$']) || text.starts_with('/') {
            return None;
        }
        if FOLDERS.iter().any(|folder| text.starts_with(folder)) {
            let exists = root().join(text.trim_end_matches('/')).exists();
            return (!exists).then(|| format!("no file {text}"));
        }
        if ![".rs", ".md", ".sql", ".lua"].iter().any(|ending| text.ends_with(ending)) {
            return None;
        }
        let ending = format!("/{text}");
        let exists = root().join(text).exists() || self.files.iter().any(|path| path.ends_with(&ending));
        (!exists).then(|| format!("no file {text}"))
    }

    fn header(&self, text: &str) -> Option<String> {
        let is_ours = |prefix: &&str| text.starts_with(*prefix) && text.len() > prefix.len();
        let prefix = ["x-gateway-", "x-emulator-", "x-ratelimit-"].into_iter().find(is_ours)?;
        let name: String =
            text.chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-').collect();
        let exists = if name.ends_with('-') {
            self.literals.iter().any(|literal| literal.starts_with(&name))
                || self.header_endings.iter().any(|ending| format!("{prefix}{ending}").starts_with(&name))
        } else {
            self.literals.contains(&name)
                || prefix == "x-gateway-" && self.header_endings.contains(&name[prefix.len()..])
        };
        (!exists).then(|| format!("no header {name}"))
    }

    fn metric(&self, text: &str) -> Option<String> {
        if !text.starts_with("turnpike_") && !text.starts_with("gen_ai_client_") {
            return None;
        }
        let name: String =
            text.chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_').collect();
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|ending| name.strip_suffix(ending));
        let exists = if name.ends_with('_') {
            self.literals.iter().any(|literal| literal.starts_with(&name))
        } else {
            self.literals.contains(&name) || of_histogram.is_some_and(|name| self.literals.contains(name))
        };
        (!exists).then(|| format!("no metric {name}"))
    }

    fn setting(&self, text: &str) -> Option<String> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_[]<>".contains(c);
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() < 2 || !parts.iter().all(|part| !part.is_empty() && part.chars().all(is_name)) {
            return None;
        }
        let first = parts[0].trim_end_matches("[]");
        let config = &self.schema["$defs"]["config"];
        let is_section = self.schema["properties"].get(first).is_some();
        if !is_section && config["properties"].get(first).is_none()
            || NO_SETTINGS.iter().any(|(name, _)| *name == text)
            || self.literals.contains(text)
        {
            return None;
        }
        let exists = self.leads(&self.schema, &parts) || self.leads(config, &parts);
        (!exists).then(|| format!("no setting or config key {text}"))
    }

    /// Whether a path leads through this schema.
    fn leads(&self, schema: &Value, parts: &[&str]) -> bool {
        let Some((first, rest)) = parts.split_first() else { return true };
        if let Some(reference) = schema["$ref"].as_str() {
            return self.leads(self.schema.pointer(reference.trim_start_matches('#')).unwrap(), parts);
        }
        let alternatives =
            ["anyOf", "oneOf", "allOf"].iter().filter_map(|kind| schema[kind].as_array()).flatten();
        if alternatives.into_iter().any(|one| self.leads(one, parts)) {
            return true;
        }
        if schema["items"].is_object() && self.leads(&schema["items"], parts) {
            return true;
        }
        let name = first.trim_end_matches("[]");
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(member), _) => self.leads(member, rest),
            (None, Value::Object(_)) => self.leads(&schema["additionalProperties"], rest),
            // An object whose members are not ours, such as `override_params`.
            (None, other) => {
                is_object(schema) && schema["properties"].is_null() && other.as_bool() != Some(false)
            }
        }
    }
}

/// Whether an object is allowed here.
fn is_object(schema: &Value) -> bool {
    let kinds = schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
    kinds.iter().any(|kind| kind == "object")
}

/// The string literals of a source, without those in comments.
pub(super) fn literals(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| {
        line.split('"').enumerate().filter(|(index, _)| index % 2 == 1).map(|(_, text)| text)
    })
}

fn problems(existing: &Existing, spans: &[Span]) -> Vec<String> {
    let problem = |span: &Span| existing.problem(&span.text).map(|why| format!("{}: {why}", span.place));
    spans.iter().filter_map(problem).collect()
}

#[test]
fn what_pages_name_exists() {
    let (existing, spans) = (Existing::read(), spans());
    assert!(spans.len() > 3_000, "{} spans", spans.len());
    assert_none(&problems(&existing, &spans), "pages name what does not exist");
}

#[test]
fn false_names_are_found() {
    let existing = Existing::read();
    for name in [
        "src/nowhere.rs",
        "tests/nowhere/",
        "nowhere.md",
        "x-gateway-nothing: 1",
        "x-ratelimit-nothing",
        "turnpike_nothing_total{a}",
        "turnpike_nothing_*",
        "limits.max_nothing",
        "auth.keys[].nothing",
        "strategy.nothing",
        "configs.<id>.nothing",
    ] {
        assert!(existing.problem(name).is_some(), "{name} passes");
    }
    for name in [
        "tests/prose.rs",
        "mod.rs",
        "x-gateway-config: {}",
        "x-gateway-cache-",
        "turnpike_requests_total",
        "turnpike_cache_*",
        "limits.max_held_bytes",
        "auth.keys[].scopes",
        "configs.<id>.retry.attempts",
        "strategy.mode",
        "prompts.render",
        "/v1/models",
    ] {
        assert_eq!(existing.problem(name), None, "{name}");
    }
}

#[test]
fn pages_that_sources_and_settings_name_exist() {
    let mut offences = Vec::new();
    let mut read = sources();
    read.push(Page::read("conf/turnpike.yaml"));
    read.push(Page::read("Makefile"));
    for source in read {
        for (index, line) in source.text.lines().enumerate() {
            for (at, _) in line.match_indices("docs/") {
                let before = line[..at].chars().next_back();
                let name: String = line[at..]
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || "/-_.".contains(*c))
                    .collect();
                let is_page =
                    name.ends_with(".md") && before.is_none_or(|c| !c.is_alphanumeric() && !"/.".contains(c));
                if is_page && !root().join(&name).exists() {
                    offences.push(format!("{}:{}: no page {name}", source.path, index + 1));
                }
            }
        }
    }
    assert_none(&offences, "sources name pages that do not exist");
}
