//! The figures of docs/benchmarks.md that the load bench printed are not too old: their commit is not far behind the rooms that decide
//! what a request costs, and the settings of the bench are those of today.
//!
//! Not whether the figures are right: only a machine that does nothing else can say that.

use super::{Page, root};
use std::process::Command;

/// What a request goes through.
const ROOMS: [&str; 4] = ["src/motion/engine", "src/memory/limits", "src/memory/ledger", "src/proxy"];
/// How many commits to those may follow the figures.
const MOST_COMMITS: usize = 200;
const SETTINGS: &str = "benches/load/settings.yaml";

/// What git prints, without the last line break.
fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").arg("-C").arg(root()).args(arguments).output();
    let output = output.map_err(|why| format!("git: {why}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The commit that a section of the page names first: `commit 7b1ccfb`.
fn commit<'a>(page: &'a Page, section: &str) -> Option<&'a str> {
    let text = page.text.split("\n## ").find(|text| text.starts_with(section))?;
    let (_, rest) = text.split_once("commit ")?;
    rest.split(|c: char| !c.is_ascii_hexdigit()).next().filter(|hash| hash.len() >= 7)
}

#[test]
fn the_figures_of_the_load_bench_are_not_too_old() {
    // The sources of a release have no history.
    if git(&["rev-parse", "--is-shallow-repository"]) != Ok("false".to_owned()) {
        return eprintln!("skipped: the history of the sources is not here");
    }
    let page = Page::read("docs/benchmarks.md");
    let commit = commit(&page, "As shipped").expect("the section \"As shipped\" names its commit");
    let range = format!("{commit}..HEAD");
    let arguments = ["rev-list", "--count", &range, "--"];
    let since =
        git(&[&arguments[..], &ROOMS].concat()).unwrap_or_else(|why| panic!("commit {commit}: {why}"));
    let since: usize = since.parse().unwrap();
    assert!(
        since <= MOST_COMMITS,
        "{since} commits since {commit} changed {ROOMS:?}: run the load bench again"
    );
    let settings = git(&["show", &format!("{commit}:{SETTINGS}")]).unwrap();
    let today = std::fs::read_to_string(root().join(SETTINGS)).unwrap();
    assert_eq!(settings, today.trim_end(), "{SETTINGS} is not that of {commit}: run the load bench again");
}

#[test]
fn the_commit_of_a_section_is_found() {
    let page = super::page(
        "# A\n\nOf commit aaaaaaa.\n\n## As shipped\n\n2026-11-28, commit 7b1ccfb, b\n\n## C\ncommit 8888888",
    );
    assert_eq!(commit(&page, "As shipped"), Some("7b1ccfb"));
    assert_eq!(commit(&page, "C"), Some("8888888"));
    assert_eq!(commit(&page, "D"), None);
}
