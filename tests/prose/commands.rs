//! Commands that pages name: those of `turnpike`, targets of the Makefile, benches.

use super::{Page, Span, assert_none, files, spans};
use crate::support::command::turnpike;
use std::collections::HashMap;

/// What exists, as far as it was asked for.
struct Commands {
    makefile: String,
    manifests: String,
    /// The help of a command, by its arguments; `None`: there is no such command.
    help: HashMap<Vec<String>, Option<String>>,
}

impl Commands {
    fn new() -> Self {
        let mut manifests = Page::read("Cargo.toml").text;
        files("src", "/Cargo.toml").iter().for_each(|path| manifests.push_str(&Page::read(path).text));
        Self { makefile: Page::read("Makefile").text, manifests, help: HashMap::new() }
    }

    fn help(&mut self, command: &[&str]) -> Option<String> {
        let key: Vec<String> = command.iter().map(|part| (*part).to_owned()).collect();
        let found = self.help.entry(key).or_insert_with(|| {
            let end = turnpike(&[command, &["--help"]].concat());
            (end.code == Some(0)).then_some(end.stdout)
        });
        found.clone()
    }

    /// Why there is no such command.
    fn problem(&mut self, text: &str) -> Option<String> {
        let (program, rest) = text.split_once(' ')?;
        match program {
            "turnpike" => self.turnpike_problem(rest),
            "make" => {
                let target = rest.split(' ').next().unwrap_or_default();
                let exists = self.makefile.contains(&format!("\n{target}:"));
                (!exists).then(|| format!("no target {target} in the Makefile"))
            }
            "cargo" => {
                let bench = rest.strip_prefix("bench --bench ")?.split(' ').next().unwrap_or_default();
                let exists = self.manifests.contains(&format!("[[bench]]\nname = \"{bench}\""));
                (!exists).then(|| format!("no bench {bench}"))
            }
            _ => None,
        }
    }

    /// As pages write it: `[run] [-c FILE]`, `keys create\|list`, `store migrate\|backup FILE`.
    fn turnpike_problem(&mut self, arguments: &str) -> Option<String> {
        let plain = arguments.replace(['[', ']', '\\'], "");
        let plain = plain.strip_prefix("-c FILE ").unwrap_or(&plain);
        let (name, rest) = plain.split_once(' ').unwrap_or((plain, ""));
        let Some(mut help) = self.help(&[name]) else { return Some(format!("no command turnpike {name}")) };
        let rest = if help.contains("\nCommands:") {
            let mut last = "";
            for alternative in rest.split('|').filter(|alternative| !alternative.trim().is_empty()) {
                let (inner, flags) = alternative.trim().split_once(' ').unwrap_or((alternative.trim(), ""));
                let Some(text) = self.help(&[name, inner]) else {
                    return Some(format!("no command turnpike {name} {inner}"));
                };
                (help, last) = (text, flags);
            }
            last
        } else {
            rest.split(" | ").next().unwrap_or_default()
        };
        let mut flags = rest.split(' ').filter(|part| part.starts_with("--") && part.len() > 2);
        let missing = flags.find(|flag| !help.contains(*flag))?;
        Some(format!("turnpike {name} has no {missing}"))
    }
}

fn problems(spans: &[Span]) -> Vec<String> {
    let mut commands = Commands::new();
    let problem = |span: &Span| Some(format!("{}: {}", span.place, commands.problem(&span.text)?));
    spans.iter().filter_map(problem).collect()
}

#[test]
fn commands_that_pages_name_exist() {
    assert_none(&problems(&spans()), "pages name commands that do not exist");
}

#[test]
fn false_commands_are_found() {
    let mut commands = Commands::new();
    for text in [
        "turnpike fly",
        "turnpike run --sideways",
        "turnpike keys lose",
        "turnpike keys create\\|lose",
        "turnpike store backup FILE --twice",
        "make nothing",
        "cargo bench --bench nothing",
    ] {
        assert!(commands.problem(text).is_some(), "{text} passes");
    }
    for text in [
        "turnpike",
        "turnpike [run] [-c FILE]",
        "turnpike keys create\\|list",
        "turnpike store migrate\\|backup FILE\\|verify\\|rekey",
        "turnpike explain [-c FILE] [--request FILE] [--json]",
        "turnpike man \\| man -l -",
        "make test",
        "cargo bench --bench load -- --quick",
        "cargo test NAME",
    ] {
        assert_eq!(commands.problem(text), None, "{text}");
    }
}
