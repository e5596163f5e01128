//! The commands that print something and end: help, completions, the manual page.
//!
//! Not `check`, `explain` and `emulator`, which have tests of their own.

use crate::support::command::turnpike;
use std::io::Write;
use std::process::{Command, Stdio};

/// Every command that `--help` lists.
fn commands() -> Vec<String> {
    let help = turnpike(&["--help"]);
    assert_eq!(help.code, Some(0), "{help:?}");
    let list = help.stdout.split("Commands:\n").nth(1).expect("a list of commands");
    let names =
        list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 6, "{names:?}");
    names
}

/// Runs a program with `input`; `None` where it is not installed.
fn run(program: &str, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn completions_know_every_command_and_the_shell_accepts_them() {
    for shell in ["bash", "zsh", "fish"] {
        let script = turnpike(&["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        for command in commands() {
            assert!(script.stdout.contains(&command), "{command} is not in the completions for {shell}");
        }
        if let Some((accepted, printed)) = run(shell, &["-n"], &script.stdout) {
            assert!(accepted, "{shell} -n: {printed}");
        }
    }
    let complete = "source /dev/stdin; COMP_WORDS=(turnpike ch); COMP_CWORD=1; _turnpike turnpike ch turnpike; echo \"${COMPREPLY[@]}\"";
    let script = turnpike(&["completions", "bash"]).stdout;
    if let Some((_, printed)) = run("bash", &["-c", complete], &script) {
        assert_eq!(printed.trim(), "check");
    }
    let wrong = turnpike(&["completions", "tcl"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("bash"), "{wrong:?}");
}

#[test]
fn the_manual_page_has_every_command_and_flag() {
    let page = turnpike(&["man"]);
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""));
    let text = page.stdout.replace("\\-", "-");
    for command in commands() {
        assert!(text.contains(&format!(".SS \"turnpike {command}\"")), "{command}\n{text}");
        let help = turnpike(&[&command, "--help"]).stdout;
        for flag in help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
            let flag = flag.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            assert!(text.contains(flag), "{flag} of {command}\n{text}");
        }
    }
    for section in ["NAME", "SYNOPSIS", "EXIT STATUS", "FILES", "ENVIRONMENT", "SIGNALS", "EXAMPLES"] {
        assert!(
            text.contains(&format!(".SH {section}")) || text.contains(&format!(".SH \"{section}\"")),
            "{section}"
        );
    }
    if let Some((accepted, printed)) = run("groff", &["-man", "-Tutf8", "-ww", "-z"], &page.stdout) {
        assert!(accepted && printed.is_empty(), "groff: {printed}");
    }
}

#[test]
fn each_command_has_a_manual_page_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let written = turnpike(&["man", "--to", folder.path().to_str().unwrap()]);
    assert_eq!((written.code, written.stdout.as_str(), written.stderr.as_str()), (Some(0), "", ""));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    assert_eq!(read("turnpike.1"), turnpike(&["man"]).stdout);
    for command in commands() {
        let page = read(&format!("turnpike-{command}.1"));
        let help = turnpike(&[&command, "--help"]).stdout;
        let usage = help.lines().find(|line| line.starts_with("Usage: turnpike ")).unwrap();
        assert!(usage.contains(&command), "{usage}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"SEE ALSO\""] {
            assert!(page.contains(&format!(".SH {section}")), "{command}: {section}\n{page}");
        }
        if let Some((accepted, printed)) = run("groff", &["-man", "-Tutf8", "-ww", "-z"], &page) {
            assert!(accepted && printed.is_empty(), "groff: {command}: {printed}");
        }
    }
    assert!(read("turnpike-keys-create.1").contains("\\-\\-expires\\-at"));
    let refused = turnpike(&["man", "--to", "/proc/none"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("--to /proc/none"), "{refused:?}");
}

#[test]
fn a_wrong_command_line_is_refused_with_what_is_right() {
    for (arguments, expected) in [
        (&["chek"][..], "'check'"),
        (&["--confg", "x"], "--config"),
        (&["run", "--port", "1"], "--port"),
        (&["emulator", "--listen", "8790"], "IP:PORT"),
    ] {
        let wrong = turnpike(arguments);
        assert_eq!(wrong.code, Some(2), "{arguments:?} {wrong:?}");
        assert!(wrong.stderr.contains(expected), "{arguments:?} {}", wrong.stderr);
    }
}
