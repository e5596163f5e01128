//! Modules that comments name by their path (`engine::guarding`, `state::large_work`) exist.
//!
//! Paths in code are the compiler's business. A path that ends in an item is looked up in its module's text.

use super::{Page, assert_none, root, sources};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The crates with several rooms.
const CRATES: [&str; 5] = ["words", "knowledge", "memory", "judgment", "motion"];
/// Rooms that are crates or folders of the package themselves.
const DOORS: [&str; 4] = ["control", "emulator", "proxy", "main"];

/// The folder of each room, without the ending of its file.
fn rooms() -> BTreeMap<String, PathBuf> {
    let mut found: BTreeMap<String, PathBuf> =
        DOORS.iter().map(|door| ((*door).to_owned(), root().join("src").join(door))).collect();
    for name in CRATES {
        for entry in std::fs::read_dir(root().join("src").join(name)).unwrap() {
            let path = entry.unwrap().path().with_extension("");
            found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), path);
        }
    }
    found
}

/// The paths of modules in the backticks of a comment.
fn named(line: &str) -> Vec<&str> {
    let Some((_, comment)) = line.split_once("//") else { return Vec::new() };
    let texts = comment.split('`').skip(1).step_by(2);
    let is_path = |text: &&str| {
        text.contains("::")
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    texts.filter(is_path).map(|text| text.trim_start_matches("crate::")).collect()
}

/// Whether a path that begins with a room leads to a module, or to an item of one. Others are not looked at.
fn exists(rooms: &BTreeMap<String, PathBuf>, path: &str) -> bool {
    let mut parts = path.split("::").peekable();
    parts.next_if(|first| CRATES.contains(first));
    let Some(mut place) = parts.next().and_then(|room| rooms.get(room)).cloned() else { return true };
    for part in parts {
        let inner = place.join(part);
        if !inner.is_dir() && !inner.with_extension("rs").exists() {
            let files = [place.with_extension("rs"), place.join("mod.rs"), place.join("lib.rs")];
            let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
            return texts.into_iter().any(|text| has_item(&text, part));
        }
        place = inner;
    }
    true
}

/// Whether a module has an item of this name, or lets one out.
fn has_item(text: &str, name: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_name =
        |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    code.into_iter().any(is_name)
}

#[test]
fn modules_that_comments_name_exist() {
    let rooms = rooms();
    assert!(rooms.len() > 20, "{rooms:?}");
    let missing = |source: &Page| {
        let lines = source.text.lines().enumerate();
        let paths =
            lines.flat_map(|(index, line)| named(line).into_iter().map(move |path| (index + 1, path)));
        let false_ones = paths.filter(|(_, path)| !exists(&rooms, path));
        false_ones.map(|(number, path)| format!("{}:{number}: {path}", source.path)).collect::<Vec<_>>()
    };
    assert_none(
        &sources().iter().flat_map(missing).collect::<Vec<_>>(),
        "comments name modules that do not exist",
    );
}

#[test]
fn false_modules_are_found() {
    let rooms = rooms();
    assert_eq!(named("let a = 1; // see `state::targets`, `b`, and `Crate::X`"), ["state::targets"]);
    for path in ["state::nothing", "motion::engine::nothing", "words::api::chat::nothing"] {
        assert!(!exists(&rooms, path), "{path} passes");
    }
    for path in ["state::targets", "memory::state::targets", "engine", "std::nothing", "config::hooks"] {
        assert!(exists(&rooms, path), "{path}");
    }
}
