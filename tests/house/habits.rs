//! Habits that make code harder to read, and that no lint of the compiler or clippy finds.
//!
//! Code that is being rewritten is exempt until that is done, by name. Nothing is parsed: the text is searched for the usual layout, so
//! an unusual one may be missed.

use super::{assert_none, sources, without_strings};
use std::collections::BTreeMap;

/// Code that is being rewritten.
const EXEMPT: [&str; 1] = ["src/words/settings/"];
/// The most lines of a `mod.rs`: the documentation of its module, the list of its files, its trait.
const MOD_LINES: usize = 200;
/// Modules whose `mod.rs` is still longer.
const LONG_MODS: [&str; 6] = [
    "src/memory/limits/journal/mod.rs",
    "src/memory/limits/mod.rs",
    "src/memory/limits/shared/mod.rs",
    "src/memory/limits/shared/postgres/mod.rs",
    "src/memory/state/mod.rs",
    "src/memory/state/stored/mod.rs",
];

fn is_exempt(path: &str) -> bool {
    EXEMPT.iter().any(|exempt| path.starts_with(exempt))
}

/// The line of a place in a text, from 1.
fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The lines of functions that take a parameter apart as a tuple, `(a, b): (A, B)`. The lint on the number of parameters counts
/// these as one. Not of those that take a reference to a pair, which is kept somewhere as a pair.
fn tuple_parameters(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let mut round = 0;
        let mut angled = 0;
        let mut begins = false;
        let mut before = ' ';
        for (place, c) in code[at..].char_indices() {
            match c {
                '{' | ';' if round == 0 => break,
                '(' => {
                    let ends =
                        code[at + place..].split_once(')').is_some_and(|(_, rest)| rest.starts_with(": ("));
                    if begins && ends && round == 1 && angled == 0 {
                        found.push(line(code, at + place));
                    }
                    round += 1;
                    begins = round == 1 && angled == 0;
                }
                ')' if round == 1 && angled == 0 => break,
                ')' => round -= 1,
                '<' => angled += 1,
                '>' if before != '-' => angled -= 1,
                ',' => begins = round == 1 && angled == 0,
                c if !c.is_whitespace() => begins = false,
                _ => {}
            }
            before = c;
        }
    }
    found
}

/// The lines of two statements in one, `let (a, b) = (x, y);`.
fn double_lets(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, begin) in code.match_indices("let (") {
        let is_statement = code[..at].trim_end_matches(' ').chars().next_back().is_none_or(|c| c == '\n');
        let Some((names, rest)) = code[at + begin.len()..].split_once(')') else { continue };
        let is_name = |name: &str| {
            let name = name.trim().trim_start_matches("mut ");
            name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let value =
            rest.trim_start().strip_prefix('=').and_then(|value| value.trim_start().strip_prefix('('));
        let Some(value) = value.filter(|_| is_statement && names.split(',').all(is_name)) else { continue };
        let mut depth = 1;
        let end = value.find(|c| {
            depth += match c {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        if end.is_some_and(|end| value[end + 1..].trim_start().starts_with(';')) {
            found.push(line(code, at));
        }
    }
    found
}

#[test]
fn no_function_takes_a_tuple_apart_in_its_parameters() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        if is_exempt(&source.path) {
            continue;
        }
        let lines = tuple_parameters(&without_strings(&source.text));
        offences.extend(lines.iter().map(|line| format!("{}:{line}", source.path)));
    }
    assert_none(&offences, "a pair that is one thing has a type; others are two parameters");
}

#[test]
fn each_statement_binds_one_value() {
    let mut offences = Vec::new();
    for source in sources(&["src"]).into_iter().filter(|source| !is_exempt(&source.path)) {
        let lines = double_lets(&without_strings(&source.text));
        offences.extend(lines.iter().map(|line| format!("{}:{line}", source.path)));
    }
    assert_none(&offences, "`let (a, b) = (x, y);` is two statements");
}

#[test]
fn a_mod_file_is_short() {
    let mut offences = Vec::new();
    for source in sources(&["src"]) {
        let lines = source.text.lines().count();
        let is_listed = LONG_MODS.contains(&source.path.as_str());
        if source.path.ends_with("/mod.rs") && (lines > MOD_LINES) != is_listed {
            offences.push(format!("{}: {lines} lines, listed as long: {is_listed}", source.path));
        }
    }
    assert_none(&offences, "a `mod.rs` has at most 200 lines, and those that have are not listed as long");
}

#[test]
fn each_public_type_of_a_crate_has_a_name_of_its_own() {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for source in sources(&["src"]) {
        let folder = source.path.split('/').nth(1).unwrap_or_default();
        for (number, line) in source.code_without_tests() {
            let Some(item) = line.trim_start().strip_prefix("pub ") else { continue };
            let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
            let Some(name) = kinds.iter().find_map(|kind| item.strip_prefix(kind)) else { continue };
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            let place = format!("{}:{number}", source.path);
            places.entry((folder.to_owned(), name.to_owned())).or_default().push(place);
        }
    }
    let double = places.iter().filter(|(_, places)| places.len() > 1);
    let offences: Vec<String> =
        double.map(|((_, name), places)| format!("{name}: {}", places.join(", "))).collect();
    assert_none(&offences, "no two public types of a crate have one name");
}

#[test]
fn the_habits_are_found() {
    for bad in [
        "fn f((a, b): (A, B)) {}",
        "fn f(\n    a: A,\n    (b, c): (B, C),\n) -> D {",
        "fn f<T: Fn(A) -> B>(a: HashMap<A, (B, C)>, (b, c): (B, C));",
    ] {
        assert_eq!(tuple_parameters(bad).len(), 1, "{bad}");
    }
    for good in [
        "fn f(a: (A, B), b: HashMap<A, (B, C)>, c: fn(A, (B, C)) -> D) -> (A, B) { g((a, b)) }",
        "fn f<T: Fn((A, B), (A, B))>(a: impl Fn(A) -> B, b: [(A, B); 2]) {}",
        "let f = |(a, b): (A, B)| a;",
        "fn f((a, b): &(A, B), (c, d) in pairs()) {}",
    ] {
        assert!(tuple_parameters(good).is_empty(), "{good}");
    }
    for bad in ["let (a, b) = (x, y);", "\n    let (mut a, b) = (\n        f(x),\n        (y, z),\n    );"] {
        assert_eq!(double_lets(bad).len(), 1, "{bad}");
    }
    for good in [
        "let (a, b) = (x.f)(y);",
        "let (a, b) = f(x, y);",
        "if let (a, b) = (x, y) {",
        "let (a, Some(b)) = (x, y);",
    ] {
        assert!(double_lets(good).is_empty(), "{good}");
    }
}
