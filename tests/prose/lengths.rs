//! README.md, ARCHITECTURE.md and CHANGELOG.md stay short enough to be read whole.

use super::{Page, assert_none};

/// The most characters of a line.
const WIDTH: usize = 140;
/// The most lines of a page.
const LINES: [(&str, usize); 2] = [("README.md", 250), ("ARCHITECTURE.md", 200)];
/// The most lines of an entry of CHANGELOG.md.
const ENTRY: usize = 2;

fn wide_lines(page: &Page) -> Vec<String> {
    let wide = page.text.lines().enumerate().filter(|(_, line)| line.chars().count() > WIDTH);
    wide.map(|(index, line)| format!("{}:{}: {} characters", page.path, index + 1, line.chars().count()))
        .collect()
}

/// The entries of a changelog with too many lines, by their first.
fn long_entries(changelog: &str) -> Vec<String> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for line in changelog.lines() {
        match found.last_mut() {
            _ if line.starts_with("- ") => found.push((line, 1)),
            Some((_, count)) if line.starts_with("  ") => *count += 1,
            _ => {}
        }
    }
    found.into_iter().filter(|(_, count)| *count > ENTRY).map(|(line, _)| line.to_owned()).collect()
}

#[test]
fn pages_are_short() {
    let mut offences = Vec::new();
    for (path, most) in LINES {
        let page = Page::read(path);
        let lines = page.text.lines().count();
        if lines > most {
            offences.push(format!("{path}: {lines} lines; at most {most}"));
        }
        offences.extend(wide_lines(&page));
    }
    offences.extend(wide_lines(&Page::read("CHANGELOG.md")));
    assert_none(&offences, "too long; move it to a page of docs/");
}

#[test]
fn the_changelog_has_short_entries_below_an_unreleased_version() {
    let changelog = Page::read("CHANGELOG.md").text;
    assert_none(&long_entries(&changelog), "an entry has at most two lines");
    let first = changelog.lines().find(|line| line.starts_with("## "));
    assert_eq!(first, Some("## [Unreleased]"));
}

#[test]
fn what_is_too_long_is_found() {
    let wide = super::page(&format!("{}\n{}\n", "a".repeat(WIDTH), "é".repeat(WIDTH + 1)));
    assert_eq!(wide_lines(&wide), ["docs/made.md:2: 141 characters"]);
    assert_eq!(long_entries("- a\n  b\n- c\n  d\n  e\n"), ["- c"]);
}
