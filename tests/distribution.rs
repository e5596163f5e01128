//! The packages of `make dist`: what is in them, that they install, answer the first request and leave nothing behind.
//!
//! Made of the binary of this test run, not of a release build, which would compile everything once more. `dpkg` installs into
//! a root directory of the test's own, with the maintainer scripts; on CI, as root, into the system as well. Skipped where
//! python3, dpkg or the rights are missing, with a printed note; on CI that is a failure.

use crate::support::client::client;
use crate::support::gateway::guardian;
use crate::support::packages;
use crate::support::ports::Ports;
use crate::support::report;
use crate::support::wait::until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where the packages were made, once for all tests of this file.
fn made() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    MADE.get_or_init(|| {
        let missing: Vec<&str> =
            ["python3", "objdump"].into_iter().filter(|tool| !is_installed(tool)).collect();
        if !missing.is_empty() {
            skip(&format!("no {}", missing.join(", ")));
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        make(&folder);
        Some(folder)
    })
    .as_deref()
}

fn make(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
    let mut command = Command::new("bash");
    command.arg(Path::new(ROOT).join("dist/package.sh")).arg(env!("CARGO_BIN_EXE_turnpike")).arg(folder);
    // Compressing a binary of this size well takes longer than all the rest.
    finish(command.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1"));
}

fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Says that a test did not run, or fails on CI.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|value| value.is_empty()), "{why}");
    report(&format!("*** SKIPPED: the packages were NOT tested: {why}"));
}

/// Runs a command to its end and returns what it printed.
fn finish(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{}{stderr}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

/// The only file in the folder with this ending.
fn file(folder: &Path, ending: &str) -> Option<PathBuf> {
    let mut paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_str().unwrap().ends_with(ending))
}

/// The content of the tarball, unpacked: its one folder.
fn unpacked(made: &Path, to: &Path) -> PathBuf {
    let tarball = file(made, ".tar.gz").unwrap();
    finish(Command::new("tar").arg("-xf").arg(&tarball).arg("-C").arg(to));
    let name = tarball.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.gz").to_owned();
    to.join(name)
}

/// `turnpike run` of a package.
struct Running {
    process: Child,
    guardian: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
    }
}

/// Puts ports of the test's own into the shipped settings, as an operator edits them.
fn edit(settings: &Path, ports: Ports) {
    let text = std::fs::read_to_string(settings).unwrap();
    let edited = text
        .replace("127.0.0.1:8787", &format!("127.0.0.1:{}", ports.data))
        .replace("127.0.0.1:8788", &format!("127.0.0.1:{}", ports.control))
        .replace("127.0.0.1:8790", &format!("127.0.0.1:{}", ports.emulator));
    assert_ne!(text, edited);
    std::fs::write(settings, edited).unwrap();
}

/// Starts the binary and waits until the first request of the README was answered.
async fn first_request(binary: &Path, settings: &Path, ports: Ports) {
    let mut command = Command::new(binary);
    command.args(["run", "-c"]).arg(settings).current_dir("/");
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _running = Running { guardian: guardian(process.id()), process };
    let url = format!("http://127.0.0.1:{}/v1/chat/completions", ports.data);
    let body = json!({"model": "demo", "messages": [{"role": "user", "content": "Hello"}]});
    let answer =
        until("the first response", async || client().post(&url).json(&body).send().await.ok()).await;
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.unwrap();
    assert!(answer["choices"][0]["message"]["content"].as_str().is_some_and(|text| !text.is_empty()));
}

#[tokio::test]
async fn the_tarball_runs() {
    let Some(made) = made() else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let root = unpacked(made, folder.path());
    let settings = root.join("etc/turnpike/turnpike.yaml");
    let ports = Ports::free();
    edit(&settings, ports);
    first_request(&root.join("bin/turnpike"), &settings, ports).await;
    report(&format!("tarball: first response {:.1} s after unpacking began", start.elapsed().as_secs_f32()));
    let unit = std::fs::read_to_string(root.join("lib/systemd/system/turnpike.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/turnpike "));
    helps_people(&root, &root.join("bin/turnpike"), "/usr/local", "site-functions");
}

/// What shells, `man`, editors and Prometheus find: completions, the manual pages, the schema that the settings name, boards and rules. `share`: below
/// `prefix`, the installed `/usr` or `/usr/local` (`installed`); `zsh`: where zsh looks for completions.
fn helps_people(prefix: &Path, binary: &Path, installed: &str, zsh: &str) {
    let share = prefix.join("share");
    for (path, shell) in [
        ("bash-completion/completions/turnpike".to_owned(), "bash"),
        (format!("zsh/{zsh}/_turnpike"), "zsh"),
        ("fish/vendor_completions.d/turnpike.fish".to_owned(), "fish"),
    ] {
        let printed = finish(Command::new(binary).args(["completions", shell]));
        assert_eq!(std::fs::read_to_string(share.join(&path)).unwrap(), printed, "{path}");
    }
    let page = |name: &str| {
        finish(Command::new("gzip").arg("-dc").arg(share.join("man/man1").join(name).with_extension("1.gz")))
    };
    assert_eq!(page("turnpike"), finish(Command::new(binary).arg("man")));
    assert!(page("turnpike-keys-create").contains(".TH turnpike-keys-create 1"));
    for file in ["turnpike.rules.yml", "grafana/overview.json", "grafana/node.json"] {
        let packed = std::fs::read(share.join("turnpike/monitoring").join(file)).unwrap();
        assert!(
            packed == std::fs::read(Path::new(ROOT).join("dist/monitoring").join(file)).unwrap(),
            "{file}"
        );
    }
    for (page, why) in
        [("runbook.md", "alerts have links to it"), ("openapi.json", "control.md has a link to it")]
    {
        assert!(share.join("doc/turnpike/docs").join(page).exists(), "{page}: {why}");
    }
    let schema = std::fs::read_to_string(share.join("turnpike/turnpike.schema.json")).unwrap();
    assert_eq!(schema, finish(Command::new(binary).arg("schema")));
    let root = if installed == "/usr" { prefix.parent().unwrap() } else { prefix };
    let settings = std::fs::read_to_string(root.join("etc/turnpike/turnpike.yaml")).unwrap();
    let line = format!("# yaml-language-server: $schema={installed}/share/turnpike/turnpike.schema.json");
    assert_eq!(settings.lines().next(), Some(line.as_str()));
}

#[tokio::test]
async fn the_debian_package_leaves_nothing_behind() {
    let Some(package) = made().and_then(|made| file(made, ".deb")) else { return skip("no Debian package") };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    if root.metadata().unwrap().uid() != 0 {
        // Without root dpkg cannot give files to their owners: only the content is tested.
        skip("dpkg needs root");
        finish(Command::new("dpkg-deb").arg("-x").arg(&package).arg(root));
        let ports = Ports::free();
        edit(&root.join("etc/turnpike/turnpike.yaml"), ports);
        return first_request(
            &root.join("usr/bin/turnpike"),
            &root.join("etc/turnpike/turnpike.yaml"),
            ports,
        )
        .await;
    }
    for part in ["info", "updates"] {
        std::fs::create_dir_all(root.join("var/lib/dpkg").join(part)).unwrap();
    }
    std::fs::create_dir(root.join("etc")).unwrap();
    for file in ["var/lib/dpkg/status", "etc/passwd", "etc/group"] {
        std::fs::write(root.join(file), "").unwrap();
    }
    let option = format!("--root={}", root.display());
    // Nothing else is installed in there: no libc6 to depend on, no shell to change root to.
    let options = [option.as_str(), "--force-depends", "--force-script-chrootless"];
    life(&package, root, &options).await;
}

#[tokio::test]
async fn the_debian_package_installs_into_a_system() {
    let on_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    let Some(package) = made().and_then(|made| file(made, ".deb")) else { return };
    let is_root = package.metadata().unwrap().uid() == 0;
    // Only where the system is thrown away afterwards, and nobody has one installed.
    if !on_ci || !is_root || Path::new("/etc/turnpike").exists() {
        return;
    }
    life(&package, Path::new("/"), &[]).await;
}

/// Installation, first request, installation again, removal, purge.
async fn life(package: &Path, root: &Path, options: &[&str]) {
    let dpkg = |arguments: &[&str]| {
        let mut command = Command::new("dpkg");
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        finish(command.env("PATH", path).args(options).args(arguments));
    };
    let start = Instant::now();
    let before = names(root);
    dpkg(&["--install", package.to_str().unwrap()]);
    let settings = root.join("etc/turnpike/turnpike.yaml");
    let ports = Ports::free();
    edit(&settings, ports);
    first_request(&root.join("usr/bin/turnpike"), &settings, ports).await;
    report(&format!("deb: first response {:.1} s after dpkg began", start.elapsed().as_secs_f32()));

    helps_people(&root.join("usr"), &root.join("usr/bin/turnpike"), "/usr", "vendor-completions");
    let unit = std::fs::read_to_string(root.join("usr/lib/systemd/system/turnpike.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/turnpike ") && !unit.contains("/usr/local"), "{unit}");
    let wanted = root.join("etc/systemd/system/multi-user.target.wants/turnpike.service");
    assert!(wanted.is_symlink(), "the service is not enabled");
    let credentials = root.join("etc/turnpike/credentials").metadata().unwrap();
    assert_eq!((credentials.mode() & 0o7777, credentials.uid()), (0o700, 0), "secrets are root's");
    let has_user = || std::fs::read_to_string(root.join("etc/passwd")).unwrap().contains("turnpike:");
    assert!(has_user(), "the service's user does not exist");

    let edited = std::fs::read_to_string(&settings).unwrap();
    std::fs::create_dir_all(root.join("var/lib/turnpike")).unwrap();
    dpkg(&["--install", package.to_str().unwrap()]);
    assert_eq!(
        std::fs::read_to_string(&settings).unwrap(),
        edited,
        "a second installation changed the settings"
    );

    dpkg(&["--remove", "turnpike"]);
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), edited, "a removal takes the settings with it");
    assert!(!root.join("usr/bin/turnpike").exists() && !root.join("usr/share/doc/turnpike").exists());

    dpkg(&["--purge", "turnpike"]);
    assert!(!has_user(), "the service's user is left");
    let left: Vec<_> = names(root).difference(&before).cloned().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Every path below the folders a package writes to that names us.
fn names(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["etc", "usr", "var/lib", "var/log", "run"].map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // The checkout itself may be below one of them.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && path != Path::new(ROOT) {
                folders.push(path.clone());
            }
            if entry.file_name().to_string_lossy().contains("turnpike") {
                found.insert(path);
            }
        }
    }
    found
}

#[test]
fn a_second_build_gives_the_same_bytes() {
    let Some(first) = made() else { return };
    let second = tempfile::tempdir().unwrap();
    make(second.path());
    for ending in [".tar.gz", ".deb"] {
        let Some(one) = file(first, ending) else { continue };
        let two = file(second.path(), ending).unwrap();
        assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap(), "{ending} differs");
    }
}

#[test]
fn the_sums_are_those_of_the_packages() {
    let Some(made) = made() else { return };
    let checked = finish(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(made));
    for ending in [".tar.gz", ".deb"] {
        let Some(package) = file(made, ending) else { continue };
        let name = package.file_name().unwrap().to_str().unwrap();
        assert!(checked.contains(&format!("{name}: OK")), "{checked}");
    }
}

#[test]
fn the_sbom_lists_what_is_linked() {
    let Some(made) = made() else { return };
    let folder = tempfile::tempdir().unwrap();
    let document = unpacked(made, folder.path()).join("share/doc/turnpike/turnpike.cdx.json");
    let sbom: Value = serde_json::from_slice(&std::fs::read(&document).unwrap()).unwrap();
    let lock = std::fs::read_to_string(Path::new(ROOT).join("Cargo.lock")).unwrap();
    let mut listed = BTreeSet::new();
    for component in sbom["components"].as_array().unwrap() {
        let name = component["name"].as_str().unwrap();
        let version = component["version"].as_str().unwrap();
        let digest = component["hashes"][0]["content"].as_str().unwrap();
        let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        let at = lock.find(&entry).unwrap_or_else(|| panic!("{name} {version} is not in Cargo.lock"));
        assert!(lock[at..].split("[[package]]").next().unwrap().contains(digest), "{name}: {digest}");
        assert!(component["licenses"][0]["expression"].is_string(), "{name}: no licence");
        listed.insert(name.to_owned());
    }
    // The crates of the workspace are the application itself, and those of tests come last.
    let manifest = std::fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let text = manifest.split("\n[workspace.dependencies]\n").nth(1).unwrap();
    let text = text.split("\n# Of tests only.\n").next().unwrap();
    let names =
        text.lines().filter(|line| !line.contains("{ path = ")).filter_map(|line| line.split_once(" = "));
    let wanted: BTreeSet<String> = names.map(|(name, _)| name.to_owned()).collect();
    assert!(wanted.len() > 50, "{wanted:?}");
    // async-trait is a macro: nothing of it is in the binary.
    let macros = BTreeSet::from(["async-trait".to_owned()]);
    let missing: Vec<_> = wanted.difference(&listed).filter(|name| !macros.contains(*name)).collect();
    assert!(missing.is_empty(), "not in the SBOM: {missing:?}");
    for only_for_tests in ["proptest", "tempfile", "allocation-counter"] {
        assert!(!listed.contains(only_for_tests), "{only_for_tests} is not in the binary");
    }
    let Some(mut validator) = packages::python("sbom", "sbom.py") else { return };
    finish(validator.arg(&document));
}
