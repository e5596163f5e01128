//! The gateway as an operator meets it: `check` finds what a start would, a refused reload fails, a start says what is
//! served, open ports are warned of.
//!
//! The problems of single keys are in `settings`, other reasons that prevent a start in `starting`.

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::command::{Finished, turnpike, turnpike_with};
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use crate::support::{Gateway, ports, report};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A folder with a settings file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(yaml: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("turnpike.yaml"), yaml).unwrap();
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn run(&self, command: &str) -> Finished {
        turnpike(&[command, "-c", &self.path("turnpike.yaml")])
    }
}

/// PEM files of a new certificate and its key.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// A line of a report: its place, its path, and how its message begins.
fn assert_reported(text: &str, place: &str, begin: &str) {
    let line = format!("turnpike.yaml:{place}: {begin}");
    assert_eq!(text.matches(&line).count(), 1, "{line}\n{text}");
}

/// Settings with something wrong in every section. The files it names are in the folder.
fn everything_wrong(folder: &Folder, data: u16, control: u16) -> String {
    format!(
        "\
listen:
  data:
    - {{address: '127.0.0.1:{data}', tls: {{cert: {cert}, key: {other}}}}}
    - {{address: '127.0.0.1:1', tls: {{cert: {no}, key: {other}}}}}
    - {{address: '127.0.0.1:2', tls: {{cert: {cert}, key: /no/key}}}}
  control: 127.0.0.1:{control}
server: {{pid_file: /no/folder/pid}}
tls: {{ca_file: {no}}}
access_log: {{output: file, path: /no/folder/access.log}}
limits: {{max_body_bytes: 1}}
providers:
  keyless: {{provider: groq}}
  clear: {{provider: azure-openai, api_key: k}}
  signed:
    provider: vertex-ai
    vertex_region: global
    vertex_service_account_json: {{type: service_account, project_id: p, client_email: e, private_key: no, token_uri: 'https://t/'}}
configs:
  direct: {{provider: azure-openai, api_key: k}}
",
        cert = folder.path("cert.pem"),
        other = folder.path("other.pem"),
        no = folder.path("no.pem"),
    )
}

#[test]
fn check_and_start_find_the_same_all_at_once() {
    let data = ports::free();
    let control = ports::free();
    let folder = Folder::new("");
    let ((cert, _), (_, other_key)) = (certificate(), certificate());
    for (name, content) in
        [("cert.pem", &cert), ("other.pem", &other_key), ("no.pem", &"nothing\n".to_owned())]
    {
        std::fs::write(folder.path(name), content).unwrap();
    }
    std::fs::write(folder.path("turnpike.yaml"), everything_wrong(&folder, data, control)).unwrap();
    let checked = folder.run("check");
    let started = folder.run("run");
    for end in [&checked, &started] {
        assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""), "{end:?}");
        for (place, begin) in [
            ("7:20", "server.pid_file: /no/folder/pid: there is no folder /no/folder"),
            ("9:34", "access_log.path: /no/folder/access.log: there is no folder /no/folder"),
            ("10:26", "limits.max_body_bytes: must be at least 1024"),
            ("12:12", "providers.keyless.api_key: is required"),
            ("13:10", "providers.clear.resource_name: "),
            ("19:11", "configs.direct.resource_name: "),
        ] {
            assert_reported(&end.stderr, place, begin);
        }
        for (path, word) in [
            ("listen.data[0].tls.cert", "does not go with"),
            ("listen.data[1].tls.cert", "holds no certificate"),
            ("listen.data[2].tls.key", "/no/key"),
            ("tls.ca_file", "no.pem"),
            ("providers.signed", ""),
        ] {
            let found =
                end.stderr.lines().any(|line| line.contains(&format!(" {path}")) && line.contains(word));
            assert!(found, "{path} {word}\n{}", end.stderr);
        }
    }
    assert_eq!(checked.stderr, started.stderr, "check says what a start says");
}

#[test]
fn a_taken_address_is_a_warning_to_check_and_an_error_to_a_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = Folder::new(&format!(
        "listen:\n  data: ['{address}']\n  control: 127.0.0.1:{}\nemulator: {{listen: '{address}'}}\n",
        ports::free()
    ));
    let clash = folder.run("check");
    assert!(clash.code == Some(1) && clash.stderr.contains("clashes"), "{clash:?}");
    let yaml = format!("listen:\n  data: ['{address}']\n  control: 127.0.0.1:{}\n", ports::free());
    std::fs::write(folder.path("turnpike.yaml"), yaml).unwrap();
    let checked = folder.run("check");
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(checked.stdout.ends_with("turnpike.yaml: ok (1 warning)\n"), "{checked:?}");
    let message = format!("listen.data[0]: cannot listen on {address}: Address already in use");
    assert_reported(&checked.stderr, "2:10", &message);
    assert!(checked.stderr.starts_with("warning: "), "{checked:?}");
    let started = folder.run("run");
    assert_eq!(started.code, Some(1), "{started:?}");
    assert_reported(&started.stderr, "2:10", &message);
    assert!(
        started.stderr.contains("stop the process that listens there, or give another port"),
        "{started:?}"
    );
}

/// Settings are checked before the service starts for the first time.
#[test]
fn a_folder_that_the_unit_makes_is_a_warning_to_check_and_an_error_to_a_start() {
    if std::path::Path::new("/var/log/turnpike").exists() {
        return report("SKIPPED: a turnpike is installed on this machine, so its folders are there");
    }
    let data = ports::free();
    let control = ports::free();
    let folder = Folder::new(&format!(
        "listen: {{data: ['127.0.0.1:{data}'], control: '127.0.0.1:{control}'}}\naccess_log: {{output: file, path: /var/log/turnpike/a.log}}\n"
    ));
    let message = "access_log.path: /var/log/turnpike/a.log: there is no folder /var/log/turnpike; create it (the systemd unit makes \
                   /var/log/turnpike and /run/turnpike)";
    let checked = folder.run("check");
    assert!(checked.code == Some(0) && checked.stderr.starts_with("warning: "), "{checked:?}");
    assert_reported(&checked.stderr, "2:34", message);
    let started = folder.run("run");
    assert_eq!(started.code, Some(1), "{started:?}");
    assert_reported(&started.stderr, "2:34", message);
}

/// Runs `check` as a user who owns nothing, where this process may.
#[test]
fn what_the_user_may_not_read_or_write_is_reported() {
    let folder = Folder::new("");
    let path = folder.path("turnpike.yaml");
    let data = ports::free();
    let control = ports::free();
    let yaml = format!(
        "listen: {{data: ['127.0.0.1:{data}'], control: '127.0.0.1:{control}'}}\naccess_log: {{output: file, path: {}}}\n",
        folder.path("access.log")
    );
    std::fs::write(&path, yaml).unwrap();
    let permit = |path: &std::path::Path, mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    permit(folder.0.path(), 0o755);
    // A binary that the other user can reach, wherever this one was built.
    let binary = folder.path("turnpike");
    std::fs::copy(env!("CARGO_BIN_EXE_turnpike"), &binary).unwrap();
    let check = || {
        let mut command = Command::new(&binary);
        command.args(["check", "-c", &path]).uid(65_534).gid(65_534).output()
    };
    let Ok(output) = check() else {
        return report("*** SKIPPED: not root, so `check` was NOT run as another user");
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && stderr.contains("(65534) may not create files in"),
        "{stderr}"
    );
    std::fs::write(folder.path("access.log"), "").unwrap();
    let stderr = String::from_utf8(check().unwrap().stderr).unwrap();
    assert!(stderr.contains("access_log.path: ") && stderr.contains("(65534) may not write it"), "{stderr}");
    permit(std::path::Path::new(&path), 0o600);
    let stderr = String::from_utf8(check().unwrap().stderr).unwrap();
    assert!(stderr.contains("Permission denied") && stderr.contains("must be able to read it"), "{stderr}");
}

#[test]
fn open_ports_are_warned_of() {
    let data = ports::free();
    let control = ports::free();
    let open = format!("listen:\n  data: ['0.0.0.0:{data}']\n  control: '0.0.0.0:{control}'\n");
    let keys = "auth: {keys: [{name: a, key: long-enough}]}\n";
    let check = |yaml: &str| {
        let end = Folder::new(yaml).run("check");
        assert_eq!(end.code, Some(0), "{end:?}");
        end.stderr
    };
    let warnings = check(&open);
    assert_reported(&warnings, "2:10", "listen.data[0]: OPEN TO ANYONE: auth.keys is empty");
    assert_reported(&warnings, "3:12", "listen.control: OPEN TO ANYONE: the control port shows /metrics");
    let warnings = check(&format!("{open}{keys}"));
    assert!(!warnings.contains("listen.data[0]") && warnings.contains("listen.control"), "{warnings}");
    let closed = open.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(check(&closed), "");
}

#[test]
fn guardrails_of_configs_are_checked() {
    let listen = format!(
        "listen:\n  data: ['127.0.0.1:{}']\n  control: '127.0.0.1:{}'\n",
        ports::free(),
        ports::free()
    );
    let config = |guardrails: &str| {
        format!("configs:\n  g: {{provider: openai, api_key: k, input_guardrails: {guardrails}}}\n")
    };
    let check = |guardrails: &str| Folder::new(&format!("{listen}{}", config(guardrails))).run("check");
    // The first may be saved in the store.
    let end = check("[saved, {contains: {words: [a]}}]");
    assert_eq!(end.code, Some(0), "{end:?}");
    let end = check("[{nothing: {}}, {regexMatch: {rule: '('}}, {contains: {}}]");
    assert_eq!(end.code, Some(1), "{end:?}");
    for problem in [
        "configs.g.input_guardrails[0].nothing: there is no check",
        "configs.g.input_guardrails[1].regexMatch.rule: ",
        "configs.g.input_guardrails[2].contains.words: is missing",
    ] {
        assert!(end.stderr.contains(problem), "{problem}: {}", end.stderr);
    }
}

#[test]
fn the_emulator_alone_reports_why_it_cannot_run() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let end = turnpike(&["emulator", "--listen", &address]);
    assert_eq!(end.code, Some(1), "{end:?}");
    assert!(end.stderr.contains(&format!("cannot listen on {address}: Address already in use")), "{end:?}");
    let end = turnpike(&["emulator", "--listen", "127.0.0.1:0", "--replay", "/no/such/recordings"]);
    assert!(
        end.code == Some(1) && end.stderr.contains("--replay /no/such/recordings: No such file"),
        "{end:?}"
    );
}

#[test]
fn a_missing_file_is_named_with_what_to_do() {
    for command in ["run", "check", "explain"] {
        let missing = turnpike(&[command, "-c", "/no/such/turnpike.yaml"]);
        assert_eq!(missing.code, Some(1), "{missing:?}");
        assert!(missing.stderr.contains("/no/such/turnpike.yaml: No such file"), "{missing:?}");
        assert!(missing.stderr.contains("-c FILE"), "{missing:?}");
    }
}

#[tokio::test]
async fn reload_waits_for_the_outcome_and_fails_on_a_bad_file() {
    let runtime = tempfile::tempdir().unwrap();
    let environment = [("RUNTIME_DIRECTORY", runtime.path().to_str().unwrap())];
    let gateway = Gateway::start_with(STANDARD, &|command| {
        command.envs(environment);
    });
    let pid = gateway.id().to_string();
    let reload = || turnpike_with(&["reload", "--pid", &pid], &environment);

    gateway.write_settings(&format!("{STANDARD}# changed\n"));
    let good = reload();
    assert_eq!((good.code, good.stderr.as_str()), (Some(0), ""), "{good:?}");
    let hash = good.stdout.trim().rsplit(' ').next().unwrap();
    assert!(
        gateway.metrics().await.contains(&format!("turnpike_settings_info{{hash=\"{hash}\"}} 1")),
        "{good:?}"
    );

    gateway.write_settings(&format!(
        "{STANDARD}batches: {{concurrency: 3}}\ntls: {{}}\nlogs: {{enabled: false}}\n"
    ));
    let waiting = reload();
    let keys: Vec<&str> = waiting.stdout.lines().skip(1).collect();
    assert_eq!(
        keys,
        ["waits for a restart: batches.concurrency", "waits for a restart: logs.enabled"],
        "{waiting:?}"
    );

    for (bad, expected) in [
        (format!("{STANDARD}colour: red\n"), "colour: unknown key"),
        (
            format!("{STANDARD}access_log: {{output: file, path: /no/folder/log}}\n"),
            "there is no folder /no/folder",
        ),
        (
            STANDARD.replace("providers:\n", "providers:\n  new: {provider: groq}\n"),
            "providers.new.api_key: is required",
        ),
        (format!("{STANDARD}tls: {{ca_file: /no/authorities}}\n"), "tls.ca_file: /no/authorities"),
    ] {
        gateway.write_settings(&bad);
        let refused = reload();
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
        assert!(refused.stderr.contains("the previous settings stay in force"), "{refused:?}");
        assert!(
            refused.stderr.contains("turnpike.yaml:") && refused.stderr.contains(expected),
            "{refused:?}"
        );
        let response = chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap();
        assert_eq!(response.status(), 200, "the old settings serve");
    }
    assert_eq!(gateway.metric("turnpike_settings_last_reload_successful").await, Some(0.0));

    let missing = turnpike_with(&["reload", "--pid", "999999999"], &environment);
    assert!(missing.code == Some(1) && missing.stderr.contains("No such process"), "{missing:?}");
    let bare = turnpike_with(&["reload", "--pid", &pid], &[]);
    assert!(bare.code == Some(1) && bare.stderr.contains("RUNTIME_DIRECTORY"), "{bare:?}");
}

#[tokio::test]
async fn a_start_lists_what_is_served_and_its_curl_works() {
    let with_default = format!("{STANDARD}default_config: '@emulator'\n");
    let keyless = with_default.replace(
        "    - {name: tests, key: tp-tests-0123456789}\n    - {name: others, key: tp-others-0123456789}\n    - \
         {name: operator, key: tp-operator-0123456789, scopes: [administration]}\n",
        "",
    );
    let keyless = keyless.replace("  keys:\n", "  keys: []\n");
    for (yaml, key) in [
        (with_default.as_str(), Some("tp-tests-0123456789")),
        (&keyless, None),
        (&STANDARD.replace("x-gateway-", "x-other-"), Some("tp-tests-0123456789")),
    ] {
        let gateway = Gateway::start(yaml);
        let line =
            async |text: &str| until(text, async || gateway.stderr.lines_with(text).first().cloned()).await;
        let title = line("turnpike 0.").await;
        let file = gateway.folder().join("turnpike.yaml");
        assert!(title.contains(file.to_str().unwrap()), "{title}");
        assert!(line("control: ").await.contains(&gateway.control_url()));
        assert!(line("emulator: ").await.contains(&gateway.emulator_url()));
        assert!(line("data: ").await.contains(&gateway.base_url()));
        let tried = line("try: ").await;
        let logged: serde_json::Value = serde_json::from_str(&tried).unwrap();
        let curl = logged["message"].as_str().unwrap().strip_prefix("try: ").unwrap();
        // The first provider by name is one for which the line cannot know a model.
        let curl = curl.replace("YOUR_SERVICE_KEY", key.unwrap_or_default()).replace("MODEL", "demo");
        let output = Command::new("sh").args(["-c", &format!("{curl} -sS")]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("quick brown fox"),
            "{curl}\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test]
async fn at_a_terminal_a_start_speaks_to_people() {
    // `script` gives the process a terminal.
    let has_script = Command::new("script").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_script {
        return report("*** SKIPPED: `script` is not installed, so a start at a terminal was NOT tried");
    }
    let ports = ports::Ports::free();
    let folder =
        Folder::new(&ports.fill(&format!("{}{}", crate::support::settings::LISTEN, "log: {format: text}\n")));
    let command = format!("exec {} run -c {}", env!("CARGO_BIN_EXE_turnpike"), folder.path("turnpike.yaml"));
    let mut child = Command::new("script")
        .args(["-q", "-e", "-f", "-c", &command, &folder.path("typescript")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let shown = until("the announcement", async || {
        let text = std::fs::read_to_string(folder.path("typescript")).ok()?;
        text.contains("Stop with Ctrl-C").then_some(text)
    })
    .await;
    let ready = client().get(format!("http://127.0.0.1:{}/readyz", ports.control)).send().await;
    assert_eq!(ready.unwrap().status(), 200);
    for expected in
        ["turnpike 0.", "  data       http://127.0.0.1:", "  control    http://", "Try:", "none stored"]
    {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    // Ctrl-C on that terminal.
    use std::io::Write;
    child.stdin.take().unwrap().write_all(&[3]).unwrap();
    until("the end", async || child.try_wait().unwrap()).await;
}
