//! docs/dependencies.md has every direct dependency of the workspace, and no other.

use super::{Page, assert_none, files};
use std::collections::BTreeSet;

/// The names in the dependency sections of a manifest, each with what is said of it.
fn entries(manifest: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            is_inside = section.ends_with("dependencies]");
        } else if let Some((name, rest)) =
            line.split_once(['=', '.']).filter(|_| is_inside && !line.starts_with('#'))
        {
            found.push((name.trim(), rest));
        }
    }
    found
}

/// The dependencies of these manifests, without the crates of the workspace itself, which have a path.
fn direct(manifests: &[String]) -> BTreeSet<String> {
    let all: Vec<(&str, &str)> = manifests.iter().flat_map(|manifest| entries(manifest)).collect();
    let own: BTreeSet<&str> =
        all.iter().filter(|(_, rest)| rest.contains("path = ")).map(|(name, _)| *name).collect();
    all.iter().filter(|(name, _)| !own.contains(name)).map(|(name, _)| (*name).to_owned()).collect()
}

/// The names in the first column of a page's tables.
fn listed(page: &Page) -> BTreeSet<String> {
    let rows = page.prose().filter(|(_, line)| line.starts_with("| `"));
    let cells = rows.filter_map(|(_, line)| line.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn each_dependency_has_its_reason() {
    let mut paths = vec!["Cargo.toml".to_owned()];
    paths.extend(files("src", "/Cargo.toml"));
    let manifests: Vec<String> = paths.iter().map(|path| Page::read(path).text).collect();
    let all = direct(&manifests);
    let listed = listed(&Page::read("docs/dependencies.md"));
    let missing = lacking(&all, &listed).map(|name| format!("{name}: no row"));
    let needless = lacking(&listed, &all).map(|name| format!("{name}: no dependency"));
    assert_none(&missing.chain(needless).collect::<Vec<_>>(), "docs/dependencies.md");
}

/// The names of one set that the other lacks.
fn lacking<'a>(one: &'a BTreeSet<String>, other: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
    one.difference(other)
}

#[test]
fn both_ways_of_writing_a_dependency_are_read() {
    let root = "[package]\nname = \"x\"\n[workspace.dependencies]\n# a comment = 1\nbytes = \"1\"\nown = { path = \"..\" }\n\
                [lints.rust]\nunsafe_code = \"forbid\"\n";
    let inner =
        "[dependencies]\nown.workspace = true\nhttp.workspace = true\n[dev-dependencies]\ntokio = \"1\"\n";
    let names: Vec<String> = direct(&[root.to_owned(), inner.to_owned()]).into_iter().collect();
    assert_eq!(names, ["bytes", "http", "tokio"]);
    let page = super::page("| `a`, `b` | why `c` |\n| other | `d` |\n");
    assert_eq!(listed(&page).into_iter().collect::<Vec<_>>(), ["a", "b"]);
}
