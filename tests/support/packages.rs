//! The packages of the client libraries: Python sets in virtual environments of their own, Node sets in folders of their own.
//!
//! Every set has exact versions of all its packages (tests/sdk/requirements, tests/sdk/node/packages), so that no release of a
//! library changes what a test run finds; the sets are apart because their versions exclude each other. Prepared once, in
//! cargo's target directory, and kept until the list of versions changes. It knows no test.

use super::report;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

/// A command that runs `script` (relative to tests/sdk) with a Python that has the packages of `set`; `None`, with a printed
/// note, where that cannot be. On CI it fails instead.
pub(crate) fn python(set: &str, script: &str) -> Option<Command> {
    let interpreter = ready(script, prepared(set, &|| virtual_environment(set)))?;
    let mut command = Command::new(interpreter);
    // Only what a script imports is compiled, and nothing is written beside the sources.
    command.env("PYTHONPYCACHEPREFIX", folder().join("python-cache").join(set));
    command.arg(sources().join(script));
    Some(command)
}

/// The same for a script of tests/sdk/node.
pub(crate) fn node(set: &str, script: &str) -> Option<Command> {
    let folder = ready(script, prepared(set, &|| node_modules(set, &["ci"])))?;
    let mut command = Command::new("node");
    command.arg(folder.join(script));
    Some(command)
}

/// The folder of the programs that a set of Node packages installs; `None` as for `python`.
pub(crate) fn node_programs(set: &str) -> Option<PathBuf> {
    // `npm ci` wants every platform's package in the lock, and a registry may lack what is optional here.
    Some(
        ready(set, prepared(set, &|| node_modules(set, &["install", "--no-save"])))?
            .join("node_modules/.bin"),
    )
}

/// The same for a set of Python packages.
pub(crate) fn python_programs(set: &str) -> Option<PathBuf> {
    let interpreter = ready(set, prepared(set, &|| virtual_environment(set)))?;
    interpreter.parent().map(Path::to_path_buf)
}

/// The sources of the console with the packages that build it, and the document of which its types are made: a copy, so that nothing is
/// written beside the sources. `None` as for `python`.
pub(crate) fn console() -> Option<PathBuf> {
    ready("console", prepared("console", &console_sources))
}

fn console_sources() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copied = folder().join("console-sources");
    let console = copied.join("console");
    let error_text = |error: std::io::Error| error.to_string();
    // What is no more in the sources is no more in the copy.
    for part in ["src", "tests", "smoke", "built"] {
        let _ = std::fs::remove_dir_all(console.join(part));
    }
    copy(&root.join("console"), &console).map_err(error_text)?;
    std::fs::create_dir_all(copied.join("docs")).map_err(error_text)?;
    std::fs::copy(root.join("docs/openapi.json"), copied.join("docs/openapi.json")).map_err(error_text)?;
    let wanted = read(&console.join("package-lock.json"))?;
    let installed = copied.join("installed.json");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(console);
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
    step("npm", npm.current_dir(&console))?;
    std::fs::write(installed, wanted).map_err(error_text)?;
    Ok(console)
}

/// Copies a folder without the packages in it.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "node_modules" {
                copy(&entry.path(), &target)?;
            }
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk")
}

/// What a test needs; prints why if it is not there. On CI the test fails.
pub(crate) fn ready<T>(script: &str, prepared: Result<T, String>) -> Option<T> {
    match prepared {
        Ok(value) => Some(value),
        Err(why) if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) => {
            panic!("no {script}: {why}")
        }
        Err(why) => {
            report(&format!("\n*** SKIPPED: {script} was NOT run: {why}"));
            None
        }
    }
}

/// Prepares a set by the first test that needs it; the others wait for it and get the same.
fn prepared(set: &str, prepare: &dyn Fn() -> Result<PathBuf, String>) -> Result<PathBuf, String> {
    type Prepared = Arc<OnceLock<Result<PathBuf, String>>>;
    static SETS: OnceLock<Mutex<HashMap<String, Prepared>>> = OnceLock::new();
    let one = Arc::clone(SETS.get_or_init(Mutex::default).lock().entry(set.to_owned()).or_default());
    one.get_or_init(prepare).clone()
}

/// The Python of a virtual environment with the packages of a set.
fn virtual_environment(set: &str) -> Result<PathBuf, String> {
    let requirements = sources().join(format!("requirements/{set}.txt"));
    let wanted = read(&requirements)?;
    let environment = folder().join(set);
    let python = environment.join("bin/python");
    let installed = environment.join("installed.txt");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    let installer = prepared("pip", &installer)?;
    let mut venv = Command::new("python3");
    step("python3 -m venv", venv.args(["-m", "venv", "--clear", "--without-pip"]).arg(&environment))?;
    let mut pip = Command::new(installer);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "--python"]).arg(&python);
    pip.args(["install", "--no-compile", "--requirement"]).arg(requirements);
    step("pip install", &mut pip)?;
    std::fs::write(installed, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

/// A Python with pip, which installs into all the others: an installation of pip takes as long as that of a small set.
fn installer() -> Result<PathBuf, String> {
    let environment = folder().join("pip");
    let python = environment.join("bin/python");
    let mut version = Command::new(&python);
    if step("pip --version", version.args(["-m", "pip", "--version"])).is_err() {
        step("python3 -m venv", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    }
    Ok(python)
}

/// A folder with the packages of a set, put there by `npm INSTALL`, and, beside them (where Node looks), the current scripts.
fn node_modules(set: &str, install: &[&str]) -> Result<PathBuf, String> {
    let folder = folder().join(set);
    let scripts = sources().join("node");
    let packages = scripts.join("packages").join(set);
    let error_text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&folder).map_err(error_text)?;
    for from in [&scripts, &packages] {
        for entry in std::fs::read_dir(from).map_err(error_text)? {
            let entry = entry.map_err(error_text)?;
            if entry.path().is_file() {
                std::fs::copy(entry.path(), folder.join(entry.file_name())).map_err(error_text)?;
            }
        }
    }
    let wanted = read(&packages.join("package-lock.json"))?;
    let installed = folder.join("installed.json");
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(folder);
    }
    let mut npm = Command::new("npm");
    npm.args(install)
        .args(["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(&folder);
    step("npm", npm.current_dir(&folder))?;
    std::fs::write(installed, wanted).map_err(error_text)?;
    Ok(folder)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
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
