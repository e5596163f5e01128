//! Rules of the code base: import order, where Pingora may be used, file size, names, and that listed things
//! exist.
//!
//! It reads the sources as text; what the compiler or clippy can check is not repeated here. It does not test
//! the gateway's behaviour. Each test reports every violation, with its file and line.

mod habits;
mod knots;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates with several rooms, and their rooms from left to right (ARCHITECTURE.md). Cargo sees to it that a crate uses only those
/// to its left; that a room uses only rooms to its left within its crate is checked here.
const CRATES: [(&str, &[&str]); 5] = [
    ("words", &["tables", "error", "json", "api", "config", "settings"]),
    ("knowledge", &["provider", "price", "prompt"]),
    ("memory", &["net", "store", "ledger", "auth", "state", "limits", "cache"]),
    ("judgment", &["guard", "route"]),
    ("motion", &["engine", "tools", "batch"]),
];
/// The doors that clients come in through do not use each other; `main` connects them. Cargo lets the package use both crates.
const OTHER_DOORS: [&str; 2] = ["control", "emulator"];
/// Rooms that may use Pingora.
const PINGORA: [&str; 6] = ["net", "engine", "control", "proxy", "emulator", "main"];
/// Data and pure functions: no runtime, no HTTP client, and time is an argument.
const PURE: [&str; 10] =
    ["tables", "error", "json", "api", "config", "settings", "provider", "price", "prompt", "route"];
const CEILING: usize = 600;
/// Meaningless names, as a part of a file's or folder's name.
const EMPTY_NAMES: [&str; 12] = [
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "misc",
    "manager",
    "managers",
    "handler",
    "handlers",
    "processor",
    "stuff",
];

/// Words of the house's former dialect, which may not come back as a part of an identifier: the standard terms of the
/// field say the same (ARCHITECTURE.md, "Words").
const BANNED_PARTS: [&str; 31] = [
    "told", "tell", "tells", "teller", "said", "say", "says", "ask", "asks", "asked", "known", "heard",
    "came", "errand", "course", "standing", "shelf", "accent", "mend", "mends", "mended", "mending", "alike",
    "glance", "words", "world", "seen", "beside", "nobody", "somebody", "callers",
];
/// Identifiers that are somebody else's, or names seen from outside.
/// `words` is the name of the crate on the left.
const FOREIGN_NAMES: [&str; 3] = ["port_or_known_default", "asks", "words"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One source file.
struct Source {
    /// Relative to the repository, with forward slashes: `src/words/api/body.rs`.
    path: String,
    text: String,
}

impl Source {
    /// The rooms of its crate, and the path inside the crate. The package and crates of one room have no list.
    fn place(&self) -> Option<(&'static [&'static str], &str)> {
        let inside = self.path.strip_prefix("src/")?;
        let (first, rest) = inside.split_once('/').unwrap_or((inside, ""));
        match CRATES.iter().find(|(name, _)| *name == first) {
            Some((_, rooms)) => Some((*rooms, rest)),
            None => Some((&[], inside)),
        }
    }

    /// The room it belongs to; the `lib.rs` of a crate with several has none.
    fn room(&self) -> Option<&str> {
        let first = self.place()?.1.split('/').next()?;
        Some(first.strip_suffix(".rs").unwrap_or(first)).filter(|room| *room != "lib")
    }

    /// How many `super::` lead from it to the root of its crate, if that has several rooms.
    fn depth(&self) -> usize {
        let inside = self.place().map_or("", |(_, inside)| inside).trim_end_matches(".rs");
        inside.trim_end_matches("/mod").split('/').count()
    }

    /// Lines with their number from 1, without comment lines.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// The code before the unit tests.
    fn code_without_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = ["mod tests {", "mod tests;"];
        self.code().take_while(move |(_, line)| !tests.contains(line))
    }
}

/// Every file below `folder` (relative to the repository) whose name ends in `ending`, sorted.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.to_str().unwrap().ends_with(ending) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().to_string()
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let paths = folders.iter().flat_map(|folder| files(folder, ".rs"));
    let read =
        |path: PathBuf| Source { path: relative(&path), text: std::fs::read_to_string(&path).unwrap() };
    let found: Vec<Source> = paths.map(read).collect();
    assert!(!found.is_empty(), "no sources in {folders:?}");
    found
}

fn assert_none(offences: &[String], rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// The names after `prefix` on this line: for `crate::{api::x, net}` and `crate::` these are api and net.
fn names_after(line: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in line.match_indices(prefix) {
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &line[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(top_level_names(group)),
            None => names.extend(first_name(rest)),
        }
    }
    names
}

fn first_name(text: &str) -> Option<String> {
    let name: String = text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    Some(name).filter(|name| !name.is_empty())
}

/// The first segment of every path in a group whose opening brace has just been consumed.
fn top_level_names(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut items = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(String::new()),
            _ if depth == 0 => items.last_mut().unwrap().push(c),
            _ => {}
        }
    }
    items.iter().filter_map(|item| first_name(item)).collect()
}

/// Joins a `use` that spans lines into one statement, so that its group is complete.
fn statements(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in source.code() {
        match found.last_mut() {
            Some((_, statement)) if open => statement.push_str(line.trim()),
            _ => found.push((number, line.to_string())),
        }
        let last = &found.last().unwrap().1;
        let is_use = last.trim_start().starts_with("use ") || last.trim_start().starts_with("pub use ");
        open = is_use && !last.trim_end().ends_with(';');
    }
    found
}

#[test]
fn imports_point_left() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        let (Some((rooms, _)), Some(room)) = (source.place(), source.room()) else { continue };
        let place = |room: &str| rooms.iter().position(|listed| *listed == room);
        let here = place(room);
        assert!(rooms.is_empty() || here.is_some(), "{}: not a room in ARCHITECTURE.md", source.path);
        let up = format!("use {}", "super::".repeat(source.depth()));
        for (number, statement) in statements(&source) {
            let mut used = names_after(&statement, "crate::");
            if statement.starts_with(&up) {
                used.extend(names_after(&statement, &up));
            }
            for name in used.iter().filter(|name| place(name) > here) {
                offences.push(format!("{}:{number}: {room} uses {name}", source.path));
            }
        }
    }
    assert_none(&offences, "a room uses only rooms to its left");
}

#[test]
fn doors_do_not_use_each_other() {
    let mut offences = Vec::new();
    for source in sources(&["src/proxy"]) {
        for (number, line) in source.code() {
            for door in OTHER_DOORS {
                if !names_after(line, &format!("{door}::")).is_empty() {
                    offences.push(format!("{}:{number}: proxy uses {door}", source.path));
                }
            }
        }
    }
    assert_none(&offences, "doors do not use each other, main connects them");
}

#[test]
fn pingora_stays_where_sockets_are() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        if source.room().is_some_and(|room| PINGORA.contains(&room)) {
            continue;
        }
        for (number, line) in source.code() {
            if ["pingora::", "pingora_", "use pingora"].iter().any(|name| line.contains(name)) {
                offences.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert_none(&offences, "pingora appears only in net, engine, control, proxy, emulator and main");
}

#[test]
fn the_pure_rooms_know_no_runtime_and_no_clock() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        if !source.room().is_some_and(|room| PURE.contains(&room)) || source.path.ends_with("/tests.rs") {
            continue;
        }
        for (number, line) in source.code_without_tests() {
            let banned = ["tokio::", "reqwest::", "hyper::", "Instant::now", "SystemTime::now"];
            if banned.iter().any(|name| line.contains(name)) {
                offences.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert_none(&offences, "these rooms are pure: no runtime, time is an argument");
}

#[test]
fn every_file_has_a_module_doc_and_is_short_enough() {
    let mut offences = Vec::new();
    for Source { path, text } in sources(&["src", "tests", "benches"]) {
        if !text.starts_with("//! ") {
            offences.push(format!("{path}: does not start with `//!`"));
        }
        let lines = text.lines().count();
        if lines > CEILING {
            offences.push(format!("{path}: {lines} lines, the ceiling is {CEILING}"));
        }
    }
    assert_none(&offences, "every file starts with a module doc and has at most 600 lines");
}

#[test]
fn names_are_meaningful() {
    let mut offences = Vec::new();
    for Source { path, text } in sources(&["src", "tests", "benches"]) {
        let mut parts = path.trim_end_matches(".rs").split(['/', '_']);
        if let Some(part) = parts.find(|part| EMPTY_NAMES.contains(part)) {
            offences.push(format!("{path}: `{part}` is a meaningless name"));
        }
        let mut is_traits = false;
        for (index, line) in text.lines().enumerate() {
            // A trait's functions may be required by another crate.
            if line.starts_with("impl") {
                is_traits = line.contains(" for ");
            }
            if !is_traits && line.trim_start().trim_start_matches("pub ").starts_with("fn get_") {
                offences.push(format!("{path}:{}: a function's name starts with `get_`", index + 1));
            }
        }
    }
    assert_none(&offences, "names are meaningful");
}

/// The text without comments and without what stands in string literals; line breaks stay.
fn without_strings(text: &str) -> String {
    let breaks = |skipped: &str| "\n".repeat(skipped.matches('\n').count());
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, here) = rest.split_at(at);
        code.push_str(before);
        let raw = before.chars().rev().take_while(|c| *c == '#').count();
        let is_raw = before[..before.len() - raw].ends_with('r');
        let length = if here.starts_with("//") {
            here.find('\n').unwrap_or(here.len())
        } else if here.starts_with('"') && is_raw {
            let end = format!("\"{}", "#".repeat(raw));
            here[1..].find(&end).map_or(here.len(), |length| 1 + length + end.len())
        } else if here.starts_with('"') {
            let mut escaped = false;
            let inside = here.strip_prefix('"').unwrap();
            let end = inside.find(|c| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            });
            end.map_or(here.len(), |length| length + 2)
        } else if let Some(inside) = here.strip_prefix("'\\") {
            inside.find('\'').map_or(here.len(), |length| length + 3 + usize::from(here.starts_with("'\\''")))
        } else if here.starts_with('\'') && here.chars().nth(2) == Some('\'') {
            here.char_indices().nth(3).map_or(here.len(), |(end, _)| end)
        } else {
            1
        };
        code.push_str(&breaks(&here[..length]));
        rest = &here[length..];
    }
    code + rest
}

/// `ResponseBody` and `response_body` both have the parts response and body.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in identifier.chars() {
        if c == '_' || c.is_uppercase() {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    parts
}

#[test]
fn strings_and_comments_are_no_identifiers() {
    let text =
        "let a = 'x'; // told\nlet b = \"said \\\" told\nasked\"; c('\\'', r#\"a \"told\" b\"#, '\"'); heard";
    let tokens: Vec<String> = without_strings(text).split_whitespace().map(str::to_owned).collect();
    assert!(tokens.contains(&"heard".to_owned()), "{tokens:?}");
    assert!(
        !["told", "said", "asked"].iter().any(|word| tokens.iter().any(|found| found.contains(word))),
        "{tokens:?}"
    );
    assert_eq!(without_strings(text).lines().count(), text.lines().count());
}

#[test]
fn identifiers_use_the_terms_of_the_field() {
    let mut offences = Vec::new();
    for source in sources(&["src", "tests", "benches"]) {
        for (index, line) in without_strings(&source.text).lines().enumerate() {
            let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for name in names.filter(|name| !FOREIGN_NAMES.contains(name)) {
                if let Some(word) = parts(name).iter().find(|part| BANNED_PARTS.contains(&part.as_str())) {
                    offences.push(format!("{}:{}: `{name}` ({word})", source.path, index + 1));
                }
            }
        }
    }
    assert_none(&offences, "these words have a standard term (ARCHITECTURE.md, \"Words\")");
}

#[test]
fn no_room_is_empty_and_each_crate_lists_its_rooms_from_left_to_right() {
    let all = sources(&["src"]);
    for (name, rooms) in CRATES {
        let own: Vec<&Source> =
            all.iter().filter(|source| source.path.starts_with(&format!("src/{name}/"))).collect();
        for room in rooms {
            let mut lines =
                own.iter().filter(|source| source.room() == Some(room)).flat_map(|room| room.code());
            let lived_in =
                lines.any(|(_, line)| ["fn ", "struct ", "enum "].iter().any(|item| line.contains(item)));
            assert!(lived_in, "src/{name}/{room} is empty");
        }
        let lib =
            own.iter().find(|source| source.path.ends_with("/lib.rs") && source.room().is_none()).unwrap();
        let listed: Vec<&str> =
            lib.code().filter_map(|(_, line)| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
        assert_eq!(listed, rooms, "{} lists the rooms in reading order", lib.path);
    }
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    let manifests = files("src", "Cargo.toml");
    assert!(manifests.len() > CRATES.len(), "{manifests:?}");
    for path in manifests {
        let manifest = std::fs::read_to_string(&path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", relative(&path));
    }
}

#[test]
fn no_todo_is_left() {
    // Concatenated, so that this file does not match itself.
    let marks =
        [concat!("to", "do!("), concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimpl", "emented!(")];
    let skipped = concat!("#[ig", "nore");
    let mut offences = Vec::new();
    for Source { path, text } in sources(&["src", "tests", "benches"]) {
        for (index, line) in text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) || line.contains(skipped) {
                offences.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none(&offences, "nothing is unfinished, and every test runs");
}

#[test]
fn every_test_file_is_part_of_the_one_binary() {
    let main = std::fs::read_to_string(root().join("tests/main.rs")).unwrap();
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("autotests = false"), "Cargo.toml: each test file would be built twice");
    let mut missing = Vec::new();
    for path in files("tests", ".rs").iter().map(|path| relative(path)) {
        let Some(name) = path.strip_prefix("tests/").and_then(|inside| inside.strip_suffix(".rs")) else {
            continue;
        };
        let module = name.strip_suffix("/mod").unwrap_or(name);
        if module != "main" && !module.contains('/') && !main.contains(&format!("mod {module};")) {
            missing.push(path);
        }
    }
    assert_none(&missing, "tests/main.rs does not list these, so they never run");
}

#[test]
fn required_lints_are_on() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for lint in [
        "unsafe_code = \"forbid\"",
        "unwrap_used = \"deny\"",
        "expect_used = \"deny\"",
        "panic = \"deny\"",
        "indexing_slicing = \"deny\"",
        "string_slice = \"deny\"",
        "todo = \"deny\"",
        "await_holding_lock = \"deny\"",
        "print_stdout = \"deny\"",
        "allow_attributes_without_reason = \"deny\"",
    ] {
        assert!(manifest.contains(lint), "Cargo.toml: {lint}");
    }
}

#[test]
fn every_provider_has_goldens() {
    let mut missing = Vec::new();
    for id in knowledge::provider::ids() {
        let folder = format!("tests/golden/{id}");
        if files(&folder, "").is_empty() {
            missing.push(folder);
        }
    }
    assert_none(&missing, "every provider has fixtures");
}

#[test]
fn every_shipped_settings_file_loads() {
    let shipped = files("conf", ".yaml");
    assert!(!shipped.is_empty(), "conf/ has no settings file");
    for path in shipped {
        let check =
            Command::new(env!("CARGO_BIN_EXE_turnpike")).arg("check").arg("-c").arg(&path).output().unwrap();
        let output = String::from_utf8_lossy(&check.stdout) + String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "turnpike check -c {}:\n{output}", relative(&path));
        assert!(!output.is_empty(), "turnpike check prints what it found");
    }
}
