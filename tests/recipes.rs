//! Every block of README.md and docs/recipes.md is run as it is written, in the order in which it stands there, README.md first.
//!
//! A comment before each block says how: `<!-- test: RULE -->`. A block without a rule fails. What is rewritten is where things
//! are, never what is done: the ports of the shipped file, the addresses of providers (the emulator's), the folders of an
//! installation. The rules:
//!
//! - `run A | B`: a shell runs it, it succeeds, and its output contains each of these texts.
//! - `output`: the names of headers that the block before must have printed.
//! - `environment`: a shell runs it, and what it exports holds for the later blocks.
//! - `settings`: added to the settings of the running gateway, which must accept them; later blocks use them.
//! - `settings for the Python after it`: the same, taken back before the next block that is not Python.
//! - `settings alone`: a file of its own, which `turnpike check` must accept.
//! - `python A | B`: as `run`, with the Python that has the SDKs.
//! - `make TARGET`: not run, since the test is part of it; the target must exist.
//! - `install`: a shell runs it with the folders of the machine moved into one of the test's, and without systemd.
//! - `text WHY`: no recipe.

use crate::support::command::turnpike_with;
use crate::support::wait::until_blocking;
use crate::support::{Gateway, packages, report};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PAGES: [(&str, &str); 2] =
    [("README.md", include_str!("../README.md")), ("docs/recipes.md", include_str!("../docs/recipes.md"))];
const SHIPPED: &str = include_str!("../conf/turnpike.yaml");
const UNIT: &str = include_str!("../systemd/turnpike.service");

/// What the shipped settings have, and what the gateway of this test has instead.
const PORTS: [(&str, &str); 3] = [("8787", "DATA_PORT"), ("8788", "CONTROL_PORT"), ("8790", "EMULATOR_PORT")];

/// A block with its rule.
struct Block {
    /// Its page and line.
    place: String,
    language: &'static str,
    rule: &'static str,
    text: String,
}

/// The key that a first start without keys has made.
fn administrators_key(gateway: &Gateway) -> String {
    let file = gateway.folder().join("data/administrator.key");
    let key = until_blocking(|| std::fs::read_to_string(&file).ok());
    key.unwrap_or_else(|| panic!("there is no {}: {}", file.display(), gateway.log())).trim().to_owned()
}

/// The blocks of all pages, in their order.
fn blocks() -> Vec<Block> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (page, text) in PAGES {
        blocks_of(page, text, &mut found, &mut missing);
    }
    assert!(
        missing.is_empty(),
        "blocks without a rule; write `<!-- test: RULE -->` on the line before each (tests/recipes.rs lists the rules):\n  {}",
        missing.join("\n  ")
    );
    assert!(found.len() >= 25, "{} blocks", found.len());
    found
}

fn blocks_of(page: &str, text: &'static str, found: &mut Vec<Block>, missing: &mut Vec<String>) {
    let lines: Vec<&'static str> = text.lines().collect();
    let mut start = None;
    for (index, line) in lines.iter().enumerate() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let Some((first, language)) = start.take() else {
            start = Some((index, language));
            continue;
        };
        let before = if first > 0 { lines[first - 1] } else { "" };
        let rule = before.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
        let text = lines[first + 1..index].join("\n") + "\n";
        let place = format!("{page}:{}", first + 1);
        match rule {
            Some(rule) => found.push(Block { place, language, rule, text }),
            None => missing.push(format!("{place}: {}", text.lines().next().unwrap_or_default())),
        }
    }
}

/// The machine that the recipes are run on: a checkout, a running gateway, an environment.
struct Machine {
    gateway: Gateway,
    /// A folder like the checkout after `make run`.
    checkout: tempfile::TempDir,
    /// Runtime directory, credentials, an installation.
    folder: tempfile::TempDir,
    environment: BTreeMap<String, String>,
    /// The settings in force.
    settings: Value,
    last_output: String,
}

/// Variables that recipes refer to, none of them a real key. `GROQ_API_KEY` is for the settings only: the recipe that sends
/// it from the shell would call Groq itself, so there it stays empty, and the gateway refuses before it connects.
const KEYS: [(&str, &str); 6] = [
    ("GROQ_API_KEY", "gsk-recipe"),
    ("ANTHROPIC_API_KEY", "sk-ant-recipe"),
    ("GEMINI_API_KEY", "AIza-recipe"),
    ("AWS_ACCESS_KEY_ID", "AKIARECIPE"),
    ("AWS_SECRET_ACCESS_KEY", "recipe"),
    ("AZURE_OPENAI_KEY", "recipe"),
];
const SERVICE_KEY: (&str, &str) = ("TURNPIKE_KEY", "tp-recipes-0123456789");

impl Machine {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (checkout, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link =
            |from: &Path, to: &str| std::os::unix::fs::symlink(from, checkout.path().join(to)).unwrap();
        for name in ["systemd", "Makefile"] {
            link(&root.join(name), name);
        }
        std::fs::create_dir_all(checkout.path().join("target/debug")).unwrap();
        link(Path::new(env!("CARGO_BIN_EXE_turnpike")), "target/debug/turnpike");
        std::fs::write(folder.path().join("openai"), "sk-recipe\n").unwrap();
        std::fs::write(folder.path().join("vertex"), service_account(folder.path())).unwrap();
        let runtime = folder.path().to_str().unwrap().to_owned();
        let shipped = PORTS.iter().fold(SHIPPED.to_owned(), |text, (port, name)| text.replace(port, name));
        let gateway = Gateway::start_with(&shipped, &|command| {
            command.envs(KEYS).env(SERVICE_KEY.0, SERVICE_KEY.1);
            command.env("RUNTIME_DIRECTORY", &runtime).env("CREDENTIALS_DIRECTORY", &runtime);
        });
        let settings = serde_saphyr::from_str(&gateway.ports.fill(&shipped)).unwrap();
        std::fs::create_dir(checkout.path().join("conf")).unwrap();
        std::fs::write(checkout.path().join("conf/turnpike.yaml"), gateway.ports.fill(&shipped)).unwrap();
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("HOME".to_owned(), folder.path().to_str().unwrap().to_owned()),
            ("PID".to_owned(), gateway.id().to_string()),
            (SERVICE_KEY.0.to_owned(), SERVICE_KEY.1.to_owned()),
            ("ADMIN_KEY".to_owned(), administrators_key(&gateway)),
            ("NO_PROXY".to_owned(), "127.0.0.1".to_owned()),
        ]);
        Self { gateway, checkout, folder, environment, settings, last_output: String::new() }
    }

    /// A text of a page with the ports of this gateway.
    fn ported(&self, text: &str) -> String {
        let named = PORTS.iter().fold(text.to_owned(), |text, (port, name)| text.replace(port, name));
        self.gateway.ports.fill(&named)
    }

    fn run(&mut self, mut command: Command, block: &Block, expected: &str) {
        command.current_dir(self.checkout.path()).env_clear().envs(&self.environment);
        let output = finished(command.output().unwrap(), block);
        for text in expected.split(" | ") {
            assert!(output.contains(text), "{}: {text:?} is not in\n{output}", block.place);
        }
        self.last_output = output;
    }

    fn shell(&mut self, block: &Block, expected: &str) {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", &self.ported(&block.text)]);
        self.run(command, block, expected);
    }

    fn python(&mut self, block: &Block, expected: &str) {
        let script = self.folder.path().join("recipe.py");
        std::fs::write(&script, self.ported(&block.text)).unwrap();
        let set = if block.text.contains("from anthropic") { "anthropic" } else { "openai" };
        // An absolute path, so it is not looked for in tests/sdk.
        let Some(command) = packages::python(set, script.to_str().unwrap()) else { return };
        self.run(command, block, expected);
    }

    /// Runs the block and takes over what it exports.
    fn export(&mut self, block: &Block) {
        let script = format!("{}\nenv -0", self.ported(&block.text));
        let mut command = Command::new("sh");
        command.args(["-e", "-c", &script]).current_dir(self.checkout.path());
        let output = command.env_clear().envs(&self.environment).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        let shells_own = ["PWD", "OLDPWD", "SHLVL", "_"];
        let pairs = pairs.filter(|(name, _)| !shells_own.contains(name));
        self.environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    }

    /// Puts settings in force, with `turnpike reload`.
    fn reload(&self, settings: &Value, block: &Block) {
        self.gateway.write_settings(&yaml(settings));
        let runtime = self.folder.path().to_str().unwrap();
        let pid = self.gateway.id().to_string();
        let end = turnpike_with(&["reload", "--pid", &pid], &[("RUNTIME_DIRECTORY", runtime)]);
        assert_eq!(end.code, Some(0), "{}: {}", block.place, end.stderr);
    }

    /// The settings in force and those of the block; providers are at the emulator.
    fn with(&self, block: &Block) -> Value {
        let mut sum = self.settings.clone();
        merge(&mut sum, serde_saphyr::from_str(&self.ported(&block.text)).unwrap());
        let emulator = self.gateway.emulator_url();
        for (slug, provider) in sum["providers"].as_object_mut().unwrap() {
            let base = match provider["provider"].as_str().unwrap() {
                "openai" | "groq" | "anthropic" => format!("{emulator}/v1"),
                _ => emulator.clone(),
            };
            let members = provider.as_object_mut().unwrap_or_else(|| panic!("{slug}"));
            members.entry("custom_host").or_insert(json!(base));
        }
        sum
    }

    fn check_alone(&self, block: &Block) {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let text = block.text.replace("/etc/turnpike", folder.path().to_str().unwrap());
        let file = folder.path().join("turnpike.yaml");
        std::fs::write(&file, text).unwrap();
        let end = turnpike_with(&["check", "-c", file.to_str().unwrap()], &KEYS);
        assert_eq!(end.code, Some(0), "{}: {}", block.place, end.stderr);
    }

    /// Runs a block of an installation: the machine's folders are in the test's, `make` and `systemctl` only note the call.
    fn install(&mut self, block: &Block) {
        let root = self.folder.path().join("machine");
        let stubs = root.join("stubs");
        for folder in ["usr/local/bin", "etc/systemd/system", "stubs"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let calls = root.join("calls");
        for name in ["make", "systemctl"] {
            let release = format!(
                "mkdir -p target/release; ln -sf {} target/release/turnpike",
                env!("CARGO_BIN_EXE_turnpike")
            );
            let work = if name == "make" { release.as_str() } else { "true" };
            let script = format!("#!/bin/sh\necho {name} \"$@\" >> {}\n{work}\n", calls.display());
            executable(&stubs.join(name), &script);
        }
        let place = root.to_str().unwrap();
        let text = self.ported(&block.text).replace("/usr/local/", &format!("{place}/usr/local/"));
        let text = text.replace("/etc/", &format!("{place}/etc/"));
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", &text])
            .current_dir(self.checkout.path())
            .env_clear()
            .envs(&self.environment);
        let path = format!("{}:{place}/usr/local/bin:{}", stubs.display(), self.environment["PATH"]);
        finished(command.env("PATH", path).output().unwrap(), block);
    }

    /// What the blocks of the installation came to.
    fn check_installation(&self) {
        let root = self.folder.path().join("machine");
        let calls = std::fs::read_to_string(root.join("calls")).unwrap();
        let expected = "make release\nsystemctl daemon-reload\nsystemctl enable --now turnpike\n";
        assert_eq!(calls, expected, "settings are written before the first start");
        let unit = std::fs::read_to_string(root.join("etc/systemd/system/turnpike.service")).unwrap();
        assert_eq!(unit, UNIT);
        let drop_in = root.join("etc/systemd/system/turnpike.service.d/credentials.conf");
        for line in std::fs::read_to_string(drop_in).unwrap().lines().skip(1) {
            let (_, file) = line.strip_prefix("LoadCredential=").unwrap().split_once(':').unwrap();
            assert!(Path::new(file).exists(), "{line}");
        }
        let key = std::fs::read_to_string(root.join("etc/turnpike/credentials/service_key")).unwrap();
        assert!(key.len() == 48 && key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    }
}

/// The output of a command that must succeed.
fn finished(output: Output, block: &Block) -> String {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{}{text}", block.place, output.status, block.text);
    text.into_owned()
}

fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A service account whose key can sign: the check of the settings does so.
fn service_account(folder: &Path) -> String {
    let pem: PathBuf = folder.join("rsa.pem");
    let mut openssl = Command::new("openssl");
    openssl.args(["genpkey", "-algorithm", "RSA", "-out"]).arg(&pem);
    let made = openssl.output().is_ok_and(|output| output.status.success());
    assert!(made, "openssl makes the key of a service account for the settings of a recipe");
    let private_key = std::fs::read_to_string(pem).unwrap();
    json!({"type": "service_account", "project_id": "p", "client_email": "e@p", "private_key": private_key})
        .to_string()
}

/// Members of `more` into `sum`, objects by their members.
fn merge(sum: &mut Value, more: Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => {
            for (name, value) in more {
                merge(sum.entry(name).or_insert(Value::Null), value);
            }
        }
        (sum, more) => *sum = more,
    }
}

/// YAML with a line for each section.
fn yaml(settings: &Value) -> String {
    let sections: &Map<String, Value> = settings.as_object().unwrap();
    sections
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

#[test]
fn every_recipe_works_as_written() {
    let mut machine = Machine::new();
    let mut take_back = None;
    for block in &blocks() {
        let (kind, argument) = block.rule.split_once(' ').unwrap_or((block.rule, ""));
        let language = match kind {
            "settings" => "yaml",
            "python" => "python",
            "output" => "",
            "text" => block.language,
            _ => "sh",
        };
        assert_eq!(block.language, language, "{}: the language of a {kind} block", block.place);
        if let Some(settings) = take_back.take_if(|_| kind != "python") {
            machine.reload(&settings, block);
        }
        match (kind, argument) {
            ("run", expected) if !expected.is_empty() => machine.shell(block, expected),
            ("python", expected) if !expected.is_empty() => machine.python(block, expected),
            ("environment", "") => machine.export(block),
            ("settings", "") => {
                machine.settings = machine.with(block);
                machine.reload(&machine.settings, block);
            }
            ("settings", "for the Python after it") => {
                machine.reload(&machine.with(block), block);
                take_back = Some(machine.settings.clone());
            }
            ("settings", "alone") => machine.check_alone(block),
            ("output", "") => {
                for name in block.text.lines().filter_map(|line| line.split(':').next()) {
                    let printed =
                        machine.last_output.lines().any(|line| line.starts_with(&format!("{name}: ")));
                    assert!(printed, "{}: {name} is not in\n{}", block.place, machine.last_output);
                }
            }
            ("make", target) => {
                let targets = include_str!("../Makefile");
                assert_eq!(block.text, format!("make {target}\n"), "{}", block.place);
                assert!(targets.contains(&format!("\n{target}:")), "{}: no target {target}", block.place);
            }
            ("install", "") => machine.install(block),
            ("text", why) if !why.is_empty() => report(&format!("{}: not run: {why}", block.place)),
            _ => panic!("{}: tests/recipes.rs has no rule `{}`", block.place, block.rule),
        }
    }
    machine.check_installation();
}
