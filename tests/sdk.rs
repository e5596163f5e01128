//! The official OpenAI and Anthropic Python SDKs against the gateway, with nothing but `base_url` and headers set.
//!
//! Prepares a venv once and runs the scripts of tests/sdk; what is checked stands there. Not to be skipped silently: without
//! Python or its registry it fails where CI is set, and says loudly that it was skipped where it is not.

use crate::support::settings::KEY;
use crate::support::{announce, gateway};
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("sdk/requirements.txt");

#[test]
fn the_openai_sdk_works() {
    run("openai_sdk.py");
}

#[test]
fn the_anthropic_sdk_works() {
    run("anthropic_sdk.py");
}

fn run(script: &str) {
    let python = match venv() {
        Ok(python) => python,
        Err(why) if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) => panic!("no SDK: {why}"),
        Err(why) => {
            announce(&format!("\n*** SKIPPED: {script} was NOT run: {why}"));
            return;
        }
    };
    let gateway = gateway();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(script);
    let output = Command::new(python)
        .arg("-B")
        .arg(&script)
        .env("BASE_URL", gateway.base_url())
        .env("KEY", KEY)
        // A machine's own proxy, or a developer's own key, has no part in this.
        .env("NO_PROXY", "127.0.0.1")
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    announce(&said);
    assert!(output.status.success(), "{} failed, see above", script.display());
}

/// The Python of a venv that has the SDKs; made once and kept until the requirements change.
fn venv() -> Result<PathBuf, String> {
    // Two tests ask, one makes it.
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
