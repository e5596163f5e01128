//! The SDKs clients use (OpenAI's, Anthropic's, LangChain, the Vercel AI SDK, another gateway's) against the
//! gateway, with only `base_url` and headers set.
//!
//! Prepares a venv and a `node_modules` once and runs the scripts of tests/sdk, which contain the checks.
//! Without Python, Node or their registries it fails on CI, and elsewhere prints clearly that it was skipped.

use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, gateway, report};
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("sdk/requirements.txt");
const PACKAGE: &str = include_str!("sdk/node/package.json");

#[test]
fn the_openai_sdk_works() {
    python("openai_sdk.py", &gateway());
}

#[test]
fn the_openai_sdk_works_with_a_translated_provider() {
    python("openai_translated.py", &gateway());
}

#[test]
fn the_anthropic_sdk_works() {
    python("anthropic_sdk.py", &gateway());
}

#[test]
fn the_anthropic_sdk_works_with_a_translated_provider() {
    python("anthropic_translated.py", &gateway());
}

#[test]
fn langchain_works() {
    python("langchain_sdk.py", &gateway());
}

#[test]
fn the_sdk_of_another_gateway_works() {
    let prefixes = "header_prefixes: [\"x-gateway-\", \"x-portkey-\"]\n";
    python("portkey_sdk.py", &Gateway::start(&format!("{prefixes}{STANDARD}")));
}

#[test]
fn the_openai_sdk_for_node_works() {
    node("openai.mjs");
}

#[test]
fn the_vercel_ai_sdk_works() {
    node("vercel.mjs");
}

fn python(script: &str, gateway: &Gateway) {
    let Some(mut command) = python_command(script) else { return };
    run(script, &mut command, gateway);
}

/// Runs a script of tests/sdk with the SDKs installed; `None` where that is not possible.
pub(crate) fn python_command(script: &str) -> Option<Command> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(script);
    let mut command = Command::new(ready(script, venv())?);
    command.arg("-B").arg(path);
    Some(command)
}

fn node(script: &str) {
    let Some(folder) = ready(script, node_modules()) else { return };
    run(script, Command::new("node").arg(folder.join(script)), &gateway());
}

/// What was prepared; prints why if it could not be.
fn ready(script: &str, prepared: Result<PathBuf, String>) -> Option<PathBuf> {
    match prepared {
        Ok(path) => Some(path),
        Err(why) if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) => panic!("no SDK: {why}"),
        Err(why) => {
            report(&format!("\n*** SKIPPED: {script} was NOT run: {why}"));
            None
        }
    }
}

fn run(script: &str, command: &mut Command, gateway: &Gateway) {
    // Remove the machine's own proxy, developers' own keys and vendors' telemetry.
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PORTKEY_API_KEY", "LANGSMITH_API_KEY"] {
        command.env_remove(name);
    }
    let output = command
        .env("BASE_URL", gateway.base_url())
        .env("KEY", KEY)
        .env("NO_PROXY", "127.0.0.1")
        .env("LANGSMITH_TRACING", "false")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    report(&printed);
    assert!(output.status.success(), "{script} failed, see above");
}

/// The Python of a venv with the SDKs; created once and kept until the requirements change.
fn venv() -> Result<PathBuf, String> {
    // Several tests need it; the first one creates it.
    static MAKING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _one = MAKING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-venv");
    let python = folder.join("bin/python");
    let installed = folder.join("installed.txt");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(python);
    }
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/requirements.txt");
    step("python3 -m venv", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements);
    step("pip install", &mut pip)?;
    std::fs::write(installed, REQUIREMENTS).map_err(|error| error.to_string())?;
    Ok(python)
}

/// A folder with the packages and, beside them (where Node looks), the current scripts.
fn node_modules() -> Result<PathBuf, String> {
    static MAKING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _one = MAKING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-node");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/node");
    let error_text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&folder).map_err(error_text)?;
    for entry in std::fs::read_dir(scripts).map_err(error_text)? {
        let entry = entry.map_err(error_text)?;
        std::fs::copy(entry.path(), folder.join(entry.file_name())).map_err(error_text)?;
    }
    let installed = folder.join("installed.json");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == PACKAGE) {
        return Ok(folder);
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--prefix"])
        .arg(&folder);
    step("npm install", npm.current_dir(&folder))?;
    std::fs::write(installed, PACKAGE).map_err(error_text)?;
    Ok(folder)
}

fn step(name: &str, command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{name}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}
