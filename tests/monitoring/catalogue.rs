//! The metric families as docs/metrics.md lists them: type, labels, and the values of labels that have a fixed list.
//!
//! That the list is that of the binary is tested in `live`, against a scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The values of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Values {
    /// Names of objects, models, versions.
    Any,
    Listed(BTreeSet<String>),
}

/// One family.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) labels: BTreeMap<String, Values>,
}

pub(super) fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// What stands in backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of a row of a table, if the line is one whose first cell is a name in backticks.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    cells.first()?.starts_with('`').then_some(cells)
}

/// Every family of the page.
pub(super) fn families() -> BTreeMap<String, Family> {
    let text = page("docs/metrics.md");
    let mut found = BTreeMap::new();
    let sections = text.split("\n## ");
    for section in sections {
        let has_unit = section.starts_with("Calls to providers");
        for cells in section.lines().filter_map(row) {
            let Some(name) = spans(cells[0]).next().filter(|_| cells.len() >= 4) else { continue };
            let kind = cells[1].split(',').next().unwrap().to_owned();
            let labels = labels(name, cells[if has_unit { 3 } else { 2 }]);
            assert!(["counter", "gauge", "histogram"].contains(&kind.as_str()), "{name}: {kind}");
            assert!(
                found.insert(name.to_owned(), Family { kind, labels }).is_none(),
                "{name} is there twice"
            );
        }
        if section.starts_with("The process\n") {
            for name in spans(section).filter(|name| name.starts_with("process_")) {
                let kind = if name.ends_with("_total") { "counter" } else { "gauge" }.to_owned();
                found.insert(name.to_owned(), Family { kind, labels: BTreeMap::new() });
            }
        }
    }
    assert!(found.len() > 80, "{} families", found.len());
    found
}

/// The labels of a family: `` `a`, `b`: `x`, `y`; `c` `` are three, of which `b` has two values.
fn labels(family: &str, cell: &str) -> BTreeMap<String, Values> {
    let mut found = BTreeMap::new();
    if cell.contains("the three below") {
        let names = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
        found.extend(names.map(|name| (name.to_owned(), Values::Any)));
    }
    for part in cell.split(';') {
        let (names, listed) = part.split_once("`: ").unwrap_or((part, ""));
        let names: Vec<&str> = names.split('`').map(|name| name.trim_matches([' ', ','])).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| is_name(name)).collect();
        for name in &names {
            found.insert((*name).to_owned(), open_list(family, name));
        }
        let listed: BTreeSet<String> = spans(listed).map(str::to_owned).collect();
        if let (Some(name), false) = (names.last(), listed.is_empty()) {
            found.insert((*name).to_owned(), Values::Listed(listed));
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// The values of labels whose lists are on another page, or further down.
fn open_list(family: &str, label: &str) -> Values {
    match (family, label) {
        (_, "status") => Values::Listed(statuses()),
        ("turnpike_attempts_total", "outcome") => {
            let mut all = statuses();
            all.extend(codes());
            all.extend(["answered", "outrun"].map(str::to_owned));
            Values::Listed(all)
        }
        (_, "code") => Values::Listed(codes()),
        _ => Values::Any,
    }
}

/// The statuses that are labels: each number from 100 on, because the page has ranges, and the classes.
fn statuses() -> BTreeSet<String> {
    let classes = (1..=5).map(|class| format!("{class}xx"));
    (100..600).map(|status| status.to_string()).chain(classes).collect()
}

/// The codes of docs/errors.md.
fn codes() -> BTreeSet<String> {
    let text = page("docs/errors.md");
    let section = text.split("\n## Codes\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows =
        section.lines().filter(|line| line.starts_with("| ") && line[2..].starts_with(char::is_numeric));
    let cells = rows.map(|line| line.split('|').nth(2).unwrap().split("; in the body").next().unwrap());
    let found: BTreeSet<String> = cells.flat_map(spans).map(str::to_owned).collect();
    assert!(found.len() > 30, "{found:?}");
    found
}

/// The family that a series belongs to: itself, or the histogram whose part it is.
pub(super) fn family_of<'a>(
    families: &'a BTreeMap<String, Family>,
    series: &str,
) -> Option<(&'a str, &'a Family)> {
    let of = |name: &str| families.get_key_value(name).map(|(name, family)| (name.as_str(), family));
    let part_of = |end: &str| of(series.strip_suffix(end)?).filter(|(_, family)| family.kind == "histogram");
    ["_bucket", "_sum", "_count"]
        .into_iter()
        .find_map(part_of)
        .or_else(|| of(series).filter(|(_, family)| family.kind != "histogram"))
}

#[test]
fn cells_are_read() {
    let listed = |values: &[&str]| Values::Listed(values.iter().map(|value| (*value).to_owned()).collect());
    let found = labels("x", "`a`, `b`: `x`, `y`; `c`");
    assert_eq!(found["a"], Values::Any);
    assert_eq!((&found["b"], &found["c"]), (&listed(&["x", "y"]), &Values::Any));
    assert_eq!(found.len(), 3);
    assert!(labels("x", "").is_empty());
    assert!(codes().contains("upstream_timeout") && !codes().contains("budget_reserved"));
}
