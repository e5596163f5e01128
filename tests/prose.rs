//! Names in the documentation that do not exist: files, settings, headers, metrics, commands, dependencies, pages; names seen
//! from outside that it lacks; figures that are too old; the lengths of README.md, ARCHITECTURE.md and CHANGELOG.md.
//!
//! It reads what stands in backticks outside of code blocks, and links. Not what sentences claim, and not code blocks: those
//! of recipes are run (`recipes`), those in YAML are checked (`settings_schema`). Each test reports every violation, with its
//! file and line.

mod citations;
mod commands;
mod dependencies;
mod documented;
mod figures;
mod lengths;
mod links;
mod modules;
mod names;

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page of the documentation.
struct Page {
    /// Relative to the repository: `docs/config.md`.
    path: String,
    text: String,
}

/// A text in backticks.
#[derive(Debug, PartialEq)]
struct Span {
    /// Page and line.
    place: String,
    text: String,
}

impl Page {
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"));
        Self { path: path.to_owned(), text }
    }

    /// The lines outside of code blocks, with their numbers from 1.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_code = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            (!is_code && !is_fence).then_some((index + 1, line))
        })
    }

    /// What stands in single backticks, on one line each.
    fn spans(&self) -> Vec<Span> {
        let mut found = Vec::new();
        for (number, line) in self.prose() {
            let texts = line.split('`').enumerate().filter(|(index, _)| index % 2 == 1);
            let place = format!("{}:{number}", self.path);
            found.extend(texts.map(|(_, text)| Span { place: place.clone(), text: text.to_owned() }));
        }
        found
    }
}

/// README.md, ARCHITECTURE.md, and all pages below docs/.
fn pages() -> Vec<Page> {
    let mut paths = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    paths.extend(files("docs", ".md"));
    assert!(paths.len() > 60, "{} pages", paths.len());
    paths.iter().map(|path| Page::read(path)).collect()
}

fn spans() -> Vec<Span> {
    pages().iter().flat_map(Page::spans).collect()
}

/// Every file below a folder of the repository whose name ends so, relative to the repository and sorted.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

/// The path and text of every Rust source below src/.
fn sources() -> Vec<Page> {
    files("src", ".rs").iter().map(|path| Page::read(path)).collect()
}

fn assert_none(offences: &[String], rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// A page that is made for a test of a rule.
fn page(text: &str) -> Page {
    Page { path: "docs/made.md".to_owned(), text: text.to_owned() }
}

#[test]
fn code_blocks_are_not_read() {
    let found = page("a `b` and `c d`\n```sh\n`e`\n```\n`f`\n").spans();
    let texts: Vec<&str> = found.iter().map(|span| span.text.as_str()).collect();
    assert_eq!(texts, ["b", "c d", "f"]);
    assert_eq!(found[2].place, "docs/made.md:5");
}
