//! Links between pages, and to their headings.

use super::{Page, assert_none, pages, root};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// The targets of links, each with its line: what stands in `](…)`, also where the text of a link goes over two lines.
fn targets(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in page.prose() {
        for (at, _) in line.match_indices("](") {
            if let Some((target, _)) = line[at + 2..].split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of a page, as GitHub makes them of its headings.
fn anchors(page: &Page) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in page.prose() {
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim()) else {
            continue;
        };
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let anchor: String =
            heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-");
        let earlier = found.iter().filter(|other| **other == anchor).count();
        found.push(if earlier == 0 { anchor } else { format!("{anchor}-{earlier}") });
    }
    found
}

/// A path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = clean.pop(),
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

fn problems(pages: &[Page]) -> Vec<String> {
    let anchors: HashMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(page))).collect();
    let mut found = Vec::new();
    for page in pages {
        for (number, target) in targets(page) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = Path::new(&page.path).parent().unwrap();
            let file = if path.is_empty() { PathBuf::from(&page.path) } else { resolved(&folder.join(path)) };
            let is_there = page.path == "docs/made.md" && path.is_empty() || root().join(&file).exists();
            let has_anchor = anchor.is_empty()
                || anchors.get(file.to_str().unwrap()).is_none_or(|all| all.iter().any(|one| one == anchor));
            if !is_there || !has_anchor {
                found.push(format!("{}:{number}: {target}", page.path));
            }
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut pages = pages();
    pages.push(Page::read("CHANGELOG.md"));
    assert_none(&problems(&pages), "links that lead nowhere");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text = "# One thing\n[a](config.md) [b](nowhere.md) [c](#one-thing) [d](#two) [e](../README.md) [f](https://x.y/)\n";
    let found = problems(&[super::page(text)]);
    assert_eq!(found, ["docs/made.md:2: nowhere.md", "docs/made.md:2: #two"]);
}
