//! Comments cite only documents that a reader has: files of the repository, and addresses.
//!
//! The others were notes beside the checkout, known by "reference 12.1" or "the spec".

use super::{Page, assert_none, files};

/// How such documents were cited. A number follows the last one.
const CITATIONS: [&str; 9] = [
    "owner's card",
    "control-plane.md",
    "behaviour.md",
    "reference section",
    "reference gateway",
    "(spec ",
    "spec \"",
    "the spec's",
    "reference ",
];

/// Whether a line cites a document that is not here.
fn is_offence(line: &str) -> bool {
    let lower = line.to_lowercase();
    CITATIONS.iter().any(|citation| {
        let mut places = lower.match_indices(citation);
        places.any(|(at, _)| {
            let next = lower[at + citation.len()..].chars().next();
            *citation != "reference " || next.is_some_and(|c| c.is_ascii_digit())
        })
    })
}

#[test]
fn comments_cite_what_readers_have() {
    let mut paths = vec!["Cargo.toml".to_owned()];
    for folder in ["src", "tests", "benches"] {
        paths.extend(files(folder, ".rs"));
    }
    paths.extend(files("src", "/Cargo.toml"));
    let mut offences = Vec::new();
    for path in paths.iter().filter(|path| !path.starts_with("tests/prose/")) {
        let page = Page::read(path);
        let lines = page.text.lines().enumerate().filter(|(_, line)| is_offence(line));
        offences.extend(lines.map(|(index, line)| format!("{path}:{}: {}", index + 1, line.trim())));
    }
    assert_none(&offences, "write the fact, or name a page of docs/");
}

#[test]
fn citations_are_found() {
    for line in [
        "//! Labels (reference 1.7): a name",
        "/// Spec \"Cache\".",
        "// The spec's own",
        "# what the owner's card names",
    ] {
        assert!(is_offence(line), "{line} passes");
    }
    for line in ["/// A reference to an item.", "let spec = reference(1);", "/// Closed: reference counts."] {
        assert!(!is_offence(line), "{line}");
    }
}
