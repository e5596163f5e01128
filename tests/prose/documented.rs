//! What can be seen from outside stands in the documentation: metrics, error codes, headers of ours, settings.
//!
//! The other way round is `names`.

use super::names::literals;
use super::{Page, assert_none, pages, sources};
use serde_json::Value;
use std::collections::BTreeSet;

/// Literals that begin like a metric: a channel of PostgreSQL, a member of a provider's batch job.
const NO_METRICS: [&str; 2] = ["turnpike_changes", "turnpike_job"];

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The names that a page lacks, in backticks or as the beginning of what stands in them.
fn missing<'a>(names: impl IntoIterator<Item = &'a str>, text: &str) -> Vec<String> {
    let is_there =
        |name: &str| text.match_indices(name).any(|(at, _)| !text[at + name.len()..].starts_with(['_', '-']));
    let names: BTreeSet<&str> = names.into_iter().filter(|name| !is_there(name)).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The code of each row of the table of errors: the last text of `row(…)`.
fn error_codes(source: &str) -> Vec<&str> {
    let rows =
        source.split("row(").skip(1).filter(|row| row.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    rows.filter_map(|row| row.split(')').next()?.rsplit('"').nth(1)).collect()
}

/// The names of all members of a schema's objects, but for those of other definitions.
fn settings<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        found.insert(name);
        settings(member, found);
    }
    let alternatives = ["anyOf", "oneOf"].iter().filter_map(|kind| schema[kind].as_array()).flatten();
    alternatives.for_each(|one| settings(one, found));
    if schema["items"].is_object() {
        settings(&schema["items"], found);
    }
}

#[test]
fn each_metric_is_documented() {
    let sources = sources();
    let shipped = sources
        .iter()
        .filter(|source| !source.path.contains("/emulator/") && !source.path.contains("/tests"));
    let all = shipped.flat_map(|source| literals(&source.text));
    let metrics = all.filter(|text| text.starts_with("turnpike_") && is_name(text) && !text.ends_with('_'));
    let metrics = metrics.filter(|text| !NO_METRICS.contains(text));
    assert_none(&missing(metrics, &Page::read("docs/metrics.md").text), "docs/metrics.md lacks metrics");
}

#[test]
fn each_error_code_is_documented() {
    let sources = sources();
    let source = sources
        .iter()
        .find(|source| source.path.ends_with("/error.rs") && source.text.contains("const fn row"));
    let codes = error_codes(&source.unwrap().text);
    assert!(codes.len() > 25, "{codes:?}");
    assert_none(&missing(codes, &Page::read("docs/errors.md").text), "docs/errors.md lacks codes");
}

#[test]
fn each_header_of_ours_is_documented() {
    let sources = sources();
    let raw = sources.iter().find(|source| source.path.ends_with("config/headers/raw.rs")).unwrap();
    let arms = raw.text.lines().filter(|line| line.contains("=> &mut self."));
    // Those of keys that targets inherit stand with the key.
    let inherited = sources.iter().filter(|source| source.path.contains("config/policies/"));
    let inherited = inherited.flat_map(|source| source.text.lines()).map(str::trim_start);
    let inherited: Vec<&str> = inherited.filter(|line| line.starts_with("names: &[")).collect();
    assert!(inherited.len() > 2, "{inherited:?}");
    let names = arms.chain(inherited).flat_map(literals);
    assert_none(&missing(names, &Page::read("docs/headers.md").text), "docs/headers.md lacks headers");
}

#[test]
fn each_setting_is_documented() {
    let schema: Value = serde_json::from_str(&Page::read("conf/turnpike.schema.json").text).unwrap();
    let mut names = BTreeSet::new();
    settings(&schema, &mut names);
    assert!(names.len() > 150, "{} settings", names.len());
    let mut text = Page::read("conf/turnpike.yaml").text;
    pages().iter().for_each(|page| text.push_str(&page.text));
    assert_none(&missing(names, &text), "conf/turnpike.yaml and docs/ lack settings");
}

#[test]
fn what_is_missing_is_found() {
    assert_eq!(missing(["a_b", "a", "c"], "`a_b` `a`"), ["c"]);
    assert_eq!(missing(["a_b"], "`a_b_c`"), ["a_b"]);
    let rows =
        "A => row(400, BAD, BAD, \"one\"),\nB => {\n row(412, \"x\", \"y\", \"two\")\n}\nfn row(status: u16)";
    assert_eq!(error_codes(rows), ["one", "two"]);
}
