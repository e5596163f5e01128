//! The commands as an administrator calls them on the machine of a service: in a shell without the service's environment, as root or
//! as the wrong user.
//!
//! What each command does with a store is tested in `key_commands` and `store_commands`.

use crate::support::command::{Finished, turnpike, turnpike_with};
use crate::support::{postgres_server, stores};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A user and a group that own nothing here.
const SERVICE: u32 = 4_711;

/// Settings in a folder, whose state is in the folder `state` there, and whose secrets only a service has.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "server: {{state_dir: {}}}\nproviders:\n  a: {{provider: openai, api_key: 'credential:openai'}}\n  \
             b: {{provider: groq, api_key: '${{GROQ_KEY}}', custom_host: '${{GROQ_HOST}}/v1'}}\nauth: {{keys: [{{name: a, key: \
             'credential:team'}}]}}\n",
            folder.path().join("state").display()
        );
        std::fs::write(folder.path().join("turnpike.yaml"), text).unwrap();
        Self { folder }
    }

    fn settings(&self) -> String {
        self.folder.path().join("turnpike.yaml").display().to_string()
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        turnpike(&[&["-c", &self.settings()], arguments].concat())
    }
}

fn owner(path: &Path) -> (u32, u32) {
    std::fs::metadata(path).map(|is| (is.uid(), is.gid())).unwrap()
}

#[test]
fn no_command_makes_a_database() {
    let machine = Machine::new();
    let backup = machine.folder.path().join("backup.db").display().to_string();
    for command in [
        &["keys", "list"][..],
        &["keys", "create", "--name", "k", "--organisation", "--scope", "all"],
        &["keys", "revoke", "x"],
        &["store", "backup", &backup],
        &["store", "verify"],
        &["store", "rekey"],
    ] {
        let end = machine.run(command);
        assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""), "{command:?} {end:?}");
        let wanted =
            format!("there is no database at {}/turnpike.db (server.state_dir)", machine.state().display());
        assert!(end.stderr.contains(&wanted) && end.stderr.contains("STATE_DIRECTORY"), "{end:?}");
        let left = std::fs::read_dir(machine.folder.path()).unwrap().count();
        assert_eq!(left, 1, "{command:?} makes nothing");
    }
    let made = machine.run(&["store", "migrate"]);
    assert!(made.code == Some(0) && machine.state().join("turnpike.db").exists(), "{made:?}");
    // The setting wins over the variable, which wins over the place of the file.
    let other = machine.folder.path().join("other").display().to_string();
    let settings = machine.settings();
    let list = ["-c", &settings, "keys", "list"];
    assert_eq!(turnpike_with(&list, &[("STATE_DIRECTORY", &other)]).code, Some(0));
    std::fs::write(&settings, "").unwrap();
    let end = turnpike_with(&list, &[("STATE_DIRECTORY", &other)]);
    assert!(end.stderr.contains(&format!("at {other}/turnpike.db ($STATE_DIRECTORY)")), "{end:?}");
    let state = machine.state().display().to_string();
    assert_eq!(turnpike_with(&list, &[("STATE_DIRECTORY", &state)]).code, Some(0));
    let end = turnpike(&list);
    assert!(end.code == Some(1) && end.stderr.contains("/data/turnpike.db"), "{end:?}");
}

/// The database is there, and is none of a gateway's.
#[test]
fn no_command_makes_tables() {
    let machine = Machine::new();
    std::fs::create_dir(machine.state()).unwrap();
    let file = machine.state().join("turnpike.db");
    std::fs::write(&file, "").unwrap();
    let mut settings = vec![std::fs::read_to_string(machine.settings()).unwrap()];
    if let Some(server) = postgres_server::shared() {
        settings.push(stores::settings(&server.new_database(), ""));
    }
    for text in settings {
        std::fs::write(machine.settings(), text).unwrap();
        for command in [&["keys", "list"][..], &["store", "verify"], &["keys", "list"]] {
            let end = machine.run(command);
            assert!(
                end.code == Some(1) && end.stderr.contains("has no tables of a store"),
                "{command:?} {end:?}"
            );
        }
    }
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    let left = std::fs::read_dir(machine.state()).unwrap();
    assert_eq!(left.count(), 1, "no key, no log of the file");
}

#[test]
fn commands_need_no_secret_of_a_provider() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["store", "migrate"]).code, Some(0));
    for command in [
        &["keys", "list"][..],
        &["store", "verify"],
        &["prices", "show"],
        &["prices", "show", "openai/gpt-5"],
    ] {
        let end = machine.run(command);
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{command:?} {end:?}");
    }
    let end = machine.run(&["check"]);
    assert!(end.code == Some(1) && end.stderr.contains("GROQ_KEY"), "a start needs them: {end:?}");
    // What says where the store is cannot be missing.
    let text = std::fs::read_to_string(machine.settings()).unwrap();
    std::fs::write(machine.settings(), format!("{text}store: {{encryption_key: 'credential:store'}}\n"))
        .unwrap();
    let end = machine.run(&["keys", "list"]);
    assert!(
        end.code == Some(1) && end.stderr.contains("store.encryption_key") && !end.stderr.contains("GROQ"),
        "{end:?}"
    );
    assert_eq!(machine.run(&["prices", "show"]).code, Some(0));
    std::fs::write(machine.settings(), format!("{text}stroe: {{}}\n")).unwrap();
    let end = machine.run(&["keys", "list"]);
    assert!(end.code == Some(1) && end.stderr.contains("did you mean store?"), "{end:?}");
}

#[test]
fn scopes_are_listed_for_people_and_for_scripts() {
    let machine = Machine::new();
    assert_eq!(machine.run(&["store", "migrate"]).code, Some(0));
    for (name, scopes) in
        [("whole", &["all"][..]), ("part", &["configs.read", "configs.list", "metrics.read"])]
    {
        let scopes: Vec<&str> = scopes.iter().flat_map(|scope| ["--scope", scope]).collect();
        let made =
            machine.run(&[&["keys", "create", "--organisation", "--name", name], scopes.as_slice()].concat());
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let list = machine.run(&["keys", "list"]).stdout;
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines.len() == 5, "{list}");
    let below = |name: &str| {
        let at = lines.iter().position(|line| line.contains(&format!(" {name} "))).unwrap();
        lines[at + 1].trim()
    };
    assert_eq!(
        (below("whole"), below("part")),
        ("all scopes of its type", "configs.{list,read} metrics.read")
    );
    let json: serde_json::Value =
        serde_json::from_str(&machine.run(&["keys", "list", "--json"]).stdout).unwrap();
    let key = |name: &str| json.as_array().unwrap().iter().find(|key| key["name"] == name).unwrap();
    assert_eq!(key("part")["scopes"], serde_json::json!(["configs.list", "configs.read", "metrics.read"]));
    assert!(key("whole")["scopes"].as_array().unwrap().len() > 50 && key("whole")["status"] == "active");
}

/// Only root can act on the state of another user; everywhere else this test has nothing to try.
#[test]
fn what_root_does_leaves_the_state_to_the_service() {
    let machine = Machine::new();
    let state = machine.state();
    std::fs::create_dir(&state).unwrap();
    if chown(&state, Some(SERVICE), Some(SERVICE)).is_err() {
        eprintln!("skipped: only root can give a directory to another user");
        return;
    }
    std::fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::set_permissions(machine.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let backup = machine.folder.path().join("backup.db").display().to_string();
    for command in [
        &["store", "migrate"][..],
        &["keys", "create", "--name", "k", "--organisation", "--scope", "all"],
        &["keys", "list"],
        &["store", "rekey"],
        &["store", "verify"],
        &["store", "backup", &backup],
    ] {
        let end = machine.run(command);
        assert_eq!(end.code, Some(0), "{command:?} {end:?}");
        for file in std::fs::read_dir(&state).unwrap() {
            let file = file.unwrap().path();
            assert_eq!(owner(&file), (SERVICE, SERVICE), "{command:?}: {}", file.display());
        }
    }
    assert_eq!(owner(Path::new(&backup)), (0, 0), "the copy is the administrator's");
    let as_user = |user: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
        command.args(["-c", &machine.settings(), "keys", "list"]).env_clear().uid(user).gid(user).output()
    };
    let Ok(own) = as_user(SERVICE) else {
        eprintln!("not tried as the service's user, who cannot run the binary");
        return;
    };
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    let other = as_user(SERVICE + 1).unwrap();
    let text = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        !other.status.success() && text.contains("cannot be used by user 4712") && text.contains("as root"),
        "{text}"
    );
}
