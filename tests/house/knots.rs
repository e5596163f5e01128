//! What runs a request stays untied: types of few fields, objects with methods in few files, no circles of imports.
//!
//! Nothing is parsed, as in `habits`: an unusual layout may be missed. Imports are followed to the file that defines what they name.

use super::{Source, assert_none, sources, without_strings};
use std::collections::{BTreeMap, BTreeSet};

/// The rooms that are held to it.
const ROOMS: [&str; 2] = ["src/motion/engine", "src/proxy"];
const MAX_FIELDS: usize = 12;
const MAX_FLAGS: usize = 3;
const MAX_FILES_OF_METHODS: usize = 2;
/// The most files that import each other in a circle.
const MAX_CIRCLE: usize = 3;

/// Without comments, strings and unit tests.
fn code(source: &Source) -> String {
    let code = without_strings(&source.text);
    code.split("#[cfg(test)]").next().unwrap_or_default().to_owned()
}

/// The lines of each struct's fields, by its name.
fn structs(code: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((_, after)) = line.split_once("struct ").filter(|_| line.ends_with('{')) else { continue };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().take_while(|line| line.trim_end() != format!("{:indent$}}}", ""));
        let is_field = |line: &&str| {
            line.len() - line.trim_start().len() == indent + 4
                && line.contains(':')
                && !line.trim_start().starts_with('#')
        };
        let name = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        found.push((name, inside.filter(is_field).collect()));
    }
    found
}

/// The types that have methods in a file, not those of traits.
fn with_methods(code: &str) -> BTreeSet<&str> {
    let heads = code.lines().filter(|line| line.starts_with("impl") && !line.contains(" for "));
    let of_type = |head: &'_ str| -> usize {
        let mut depth = 0;
        let end = head.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0 && c == ' '
        });
        end.map_or(0, |end| end + 1)
    };
    let name = |head: &'_ str| head.find(|c: char| !c.is_alphanumeric()).unwrap_or(head.len());
    heads.map(|head| &head[of_type(head)..]).map(|rest| &rest[..name(rest)]).collect()
}

/// The paths of a `use`, one for each name.
fn expanded(before: &str, tree: &str) -> Vec<String> {
    let Some((head, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree);
        return vec![format!("{before}{}", path.trim())];
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let before = format!("{before}{}", head.trim());
    let mut depth = 0;
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty()).flat_map(|part| expanded(&before, part.trim())).collect()
}

/// What a file imports, and whether it gives that on to others.
fn imports(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((visibility, tree)) = line.split_once("use ") else { continue };
        let gives = visibility.starts_with("pub");
        if !gives && !visibility.is_empty() {
            continue;
        }
        let mut tree = tree.to_owned();
        while !tree.ends_with(';') {
            tree.push_str(lines.next().unwrap_or(";").trim());
        }
        let paths = expanded("", tree.trim_end_matches(';')).into_iter();
        found.extend(paths.map(|path| (path.trim_end_matches("::self").to_owned(), gives)));
    }
    found
}

/// The imports of each module of a room; the room's own `mod.rs` is "".
type Modules = BTreeMap<String, Vec<(String, bool)>>;

/// The module that defines what a path names, seen from another module. `None`: it is in another room.
fn definer(modules: &Modules, from: &str, path: &str, room: &str) -> Option<String> {
    let mut segments: Vec<&str> = from.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut path = path.split("::").peekable();
    match *path.peek()? {
        "crate" => {
            segments.clear();
            path.next();
            path.next().filter(|first| *first == room)?;
        }
        "super" => {
            while path.next_if_eq(&"super").is_some() {
                segments.pop();
            }
        }
        first => {
            let child = [segments.as_slice(), &[first]].concat().join("/");
            modules.get(&child)?;
        }
    }
    while let Some(next) = path.peek() {
        let inner = [segments.as_slice(), &[next]].concat();
        if !modules.contains_key(&inner.join("/")) {
            break;
        }
        segments = inner;
        path.next();
    }
    let module = segments.join("/");
    let given = path.next().and_then(|name| {
        let mut given = modules.get(&module)?.iter().filter(|(_, gives)| *gives);
        given.find(|(path, _)| path.rsplit("::").next() == Some(name))
    });
    match given {
        Some((path, _)) => definer(modules, &module, path, room),
        None => Some(module),
    }
}

/// The modules that import each other, directly or not: each such set once.
fn circles(modules: &Modules, room: &str) -> BTreeSet<Vec<String>> {
    let of_module = |module: &String| -> BTreeSet<String> {
        let used = modules[module].iter().filter(|(_, gives)| !gives);
        used.filter_map(|(path, _)| definer(modules, module, path, room))
            .filter(|used| used != module)
            .collect()
    };
    let direct: BTreeMap<&String, BTreeSet<String>> =
        modules.keys().map(|module| (module, of_module(module))).collect();
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            open.extend(direct[module].iter().filter(|next| reached.insert((*next).clone())));
        }
        reached
    };
    let all: BTreeMap<&String, BTreeSet<String>> =
        modules.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &&String| {
        let mutual = all[*module].iter().filter(|other| all[other].contains(*module));
        mutual.cloned().collect::<Vec<_>>()
    };
    modules.keys().map(|module| circle(&module)).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn types_have_few_fields_and_flags() {
    let mut offences = Vec::new();
    for source in sources(&ROOMS) {
        for (name, fields) in structs(&code(&source)) {
            let flags = fields.iter().filter(|field| field.ends_with(": bool,")).count();
            if fields.len() > MAX_FIELDS || flags > MAX_FLAGS {
                offences.push(format!("{}: {name}: {} fields, {flags} flags", source.path, fields.len()));
            }
        }
    }
    assert_none(&offences, "a type has at most 12 fields and three flags: what belongs together has a type");
}

#[test]
fn objects_have_their_methods_in_few_files() {
    let mut files = BTreeMap::<String, BTreeSet<String>>::new();
    for source in sources(&ROOMS) {
        for name in with_methods(&code(&source)) {
            files.entry(name.to_owned()).or_default().insert(source.path.clone());
        }
    }
    let many = files.iter().filter(|(_, files)| files.len() > MAX_FILES_OF_METHODS);
    let offences: Vec<String> = many.map(|(name, files)| format!("{name}: {files:?}")).collect();
    assert_none(&offences, "an object has methods in at most two files");
}

#[test]
fn few_files_of_the_engine_import_each_other() {
    let mut modules = Modules::new();
    for source in sources(&["src/motion/engine"]) {
        let inside = source.path.trim_start_matches("src/motion/engine/").trim_end_matches(".rs");
        let module = if inside == "mod" { "" } else { inside.trim_end_matches("/mod") };
        modules.insert(module.to_owned(), imports(&code(&source)));
    }
    let long = circles(&modules, "engine").into_iter().filter(|circle| circle.len() > MAX_CIRCLE);
    let offences: Vec<String> = long.map(|circle| circle.join(", ")).collect();
    assert_none(&offences, "at most three files import each other in a circle");
}

#[test]
fn the_knots_are_found() {
    let code = "pub struct A<T> {\n    pub a: bool,\n    b: Map<\n        C,\n    >,\n}\nimpl<T: B<C>> A<T> {\nimpl D for E {\n";
    assert_eq!(structs(code), [("A", vec!["    pub a: bool,", "    b: Map<"])]);
    assert_eq!(with_methods(code), BTreeSet::from(["A"]));
    let used = imports("use super::a::{\n    self,\n    b::{C as D, E},\n};\npub(super) use f::G;\n");
    let used: Vec<(&str, bool)> = used.iter().map(|(path, gives)| (path.as_str(), *gives)).collect();
    assert_eq!(
        used,
        [("super::a", false), ("super::a::b::C", false), ("super::a::b::E", false), ("f::G", true)]
    );
    let modules = |of: &[(&str, &str)]| -> Modules {
        of.iter().map(|(name, code)| ((*name).to_owned(), imports(code))).collect()
    };
    let through_a_door = modules(&[
        ("", "use a::A;"),
        ("a", "pub use b::A;"),
        ("a/b", "use crate::room::c::C;"),
        ("c", "use super::Room;"),
    ]);
    let circle = ["", "a/b", "c"].map(str::to_owned).to_vec();
    assert_eq!(circles(&through_a_door, "room"), BTreeSet::from([circle]));
    assert!(circles(&modules(&[("", "use a::A;"), ("a", "use crate::other::B;")]), "room").is_empty());
}
