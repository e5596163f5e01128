//! The coding agents that people run, each at five kinds of provider: a session that reads a file, edits it, runs a command, and
//! survives a 429, a stream that is cut and a compaction.
//!
//! The agents are the released programs, in a network namespace that has loopback and nothing else, configured by the block of
//! docs/clients.md and by no more. The session, the provider that plays the model and the checks are in tests/clients (Python).
//! They take minutes and two gigabytes of packages, so only `make test-all` and `make test-clients` run them. Where no network
//! namespace may be made, or a registry cannot be reached, they fail on CI and elsewhere print clearly that they were skipped.

use crate::support::{packages, report};
use std::path::Path;
use std::process::Command;

/// The providers of the table, as the session knows them.
const PROVIDERS: [&str; 5] = ["openai", "anthropic", "google", "bedrock", "chat-only"];
/// The agents, and how each is called in the table.
const AGENTS: [Agent; 6] = [
    Agent { set: "claude", title: "Claude Code" },
    Agent { set: "codex", title: "Codex CLI" },
    Agent { set: "gemini", title: "Gemini CLI" },
    Agent { set: "opencode", title: "opencode" },
    Agent { set: "cline", title: "Cline CLI" },
    Agent { set: "aider", title: "aider" },
];

struct Agent {
    /// The set of packages, and the mark of the block in docs/clients.md.
    set: &'static str,
    title: &'static str,
}

/// What every row of the table says is what a test of this file runs.
#[test]
fn the_table_has_every_agent_at_every_provider() {
    let read =
        |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let page = read("docs/clients.md");
    let tests = include_str!("clients.rs");
    for Agent { set, title } in AGENTS {
        let row = page.lines().find(|line| line.starts_with(&format!("| {title} "))).unwrap_or_default();
        let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [_, providers @ .., version] = cells.as_slice() else { panic!("no row of {title}") };
        assert_eq!(*providers, ["✓"; PROVIDERS.len()], "{title}: {row}");
        let packages = match set {
            "aider" => read("tests/sdk/requirements/aider.txt"),
            _ => read(&format!("tests/sdk/node/packages/{set}/package.json")),
        };
        assert!(packages.contains(version), "{title}: {version} is not what the test installs");
        assert!(page.contains(&format!("<!-- test: client {set} -->\n```sh\n")), "no block for {title}");
        for provider in PROVIDERS {
            let call = format!("session(\"{set}\", \"{provider}\")");
            assert!(tests.contains(&call), "no test has {call}");
        }
    }
}

#[test]
fn claude_code_works_at_openai() {
    session("claude", "openai");
}

#[test]
fn claude_code_works_at_anthropic() {
    session("claude", "anthropic");
}

#[test]
fn claude_code_works_at_google() {
    session("claude", "google");
}

#[test]
fn claude_code_works_at_bedrock() {
    session("claude", "bedrock");
}

#[test]
fn claude_code_works_at_a_chat_only_host() {
    session("claude", "chat-only");
}

#[test]
fn codex_works_at_openai() {
    session("codex", "openai");
}

/// The line that docs/clients.md names is added to the block.
#[test]
fn codex_works_over_a_websocket_at_openai() {
    session("codex-websocket", "openai");
}

#[test]
fn codex_works_over_a_websocket_at_anthropic() {
    session("codex-websocket", "anthropic");
}

#[test]
fn codex_works_at_anthropic() {
    session("codex", "anthropic");
}

#[test]
fn codex_works_at_google() {
    session("codex", "google");
}

#[test]
fn codex_works_at_bedrock() {
    session("codex", "bedrock");
}

#[test]
fn codex_works_at_a_chat_only_host() {
    session("codex", "chat-only");
}

#[test]
fn gemini_cli_works_at_openai() {
    session("gemini", "openai");
}

#[test]
fn gemini_cli_works_at_anthropic() {
    session("gemini", "anthropic");
}

#[test]
fn gemini_cli_works_at_google() {
    session("gemini", "google");
}

#[test]
fn gemini_cli_works_at_bedrock() {
    session("gemini", "bedrock");
}

#[test]
fn gemini_cli_works_at_a_chat_only_host() {
    session("gemini", "chat-only");
}

#[test]
fn opencode_works_at_openai() {
    session("opencode", "openai");
}

#[test]
fn opencode_works_at_anthropic() {
    session("opencode", "anthropic");
}

#[test]
fn opencode_works_at_google() {
    session("opencode", "google");
}

#[test]
fn opencode_works_at_bedrock() {
    session("opencode", "bedrock");
}

#[test]
fn opencode_works_at_a_chat_only_host() {
    session("opencode", "chat-only");
}

#[test]
fn cline_works_at_openai() {
    session("cline", "openai");
}

#[test]
fn cline_works_at_anthropic() {
    session("cline", "anthropic");
}

#[test]
fn cline_works_at_google() {
    session("cline", "google");
}

#[test]
fn cline_works_at_bedrock() {
    session("cline", "bedrock");
}

#[test]
fn cline_works_at_a_chat_only_host() {
    session("cline", "chat-only");
}

#[test]
fn aider_works_at_openai() {
    session("aider", "openai");
}

#[test]
fn aider_works_at_anthropic() {
    session("aider", "anthropic");
}

#[test]
fn aider_works_at_google() {
    session("aider", "google");
}

#[test]
fn aider_works_at_bedrock() {
    session("aider", "bedrock");
}

#[test]
fn aider_works_at_a_chat_only_host() {
    session("aider", "chat-only");
}

/// Runs a session of an agent at a provider.
fn session(agent: &str, provider: &str) {
    if !std::env::var("TEST_CLIENTS").is_ok_and(|value| value == "all") {
        return;
    }
    let set = agent.trim_end_matches("-websocket");
    let name = format!("the session of {agent} at {provider}");
    let Some(mut command) = packages::ready(&name, isolated()) else { return };
    let programs =
        if agent == "aider" { packages::python_programs(agent) } else { packages::node_programs(set) };
    let Some(programs) = programs else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/session.py");
    command
        .args(["python3", "-B"])
        .arg(script)
        .args([agent, provider, env!("CARGO_BIN_EXE_turnpike")])
        .arg(programs);
    let output = command.output().unwrap();
    report(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
    assert!(output.status.success(), "{name} failed, see above");
}

/// A command that runs what follows in namespaces of its own: no network but loopback, and no process that outlives it.
fn isolated() -> Result<Command, String> {
    const NAMESPACES: [&str; 5] = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let as_user = ["--user", "--map-root-user"];
    let mut why = String::new();
    for more in [&[][..], &as_user[..]] {
        let command = || {
            let mut command = Command::new("unshare");
            command.args(NAMESPACES).args(more);
            command
        };
        match command().arg("true").output() {
            Ok(output) if output.status.success() => return Ok(command()),
            Ok(output) => why = String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!("no network namespace may be made here (unshare: {})", why.trim()))
}
