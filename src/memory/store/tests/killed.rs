//! A process that is killed while it writes: what it acknowledged is there, and nothing is half written.
//!
//! The process is this test binary, called again for one test alone.

use super::super::{Change, Kind, Store, StoreOptions};
use super::{Database, entry, on_each, put, record};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use words::config::secret::Secret;

const ROUNDS: usize = 12;
const STATE_DIR: &str = "TURNPIKE_TEST_STATE_DIR";
const URL: &str = "TURNPIKE_TEST_URL";

/// Writes until it is killed, where the other test calls it. A write is a config with two versions, and every third removes the
/// config before it. Prints `- ID` before a removal, and `+ ID` with the config's id when a write was acknowledged.
#[test]
fn write_until_killed() {
    let Some(state_dir) = std::env::var_os(STATE_DIR).map(PathBuf::from) else { return };
    let url = std::env::var(URL).ok().map(Secret::new);
    let options = StoreOptions { url, state_dir, ..StoreOptions::in_memory() };
    let options = StoreOptions { encryption_key: Some(Secret::new(super::KEY)), ..options };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Store::open(options).await.unwrap());
        println!("\nready");
        for _ in 0..4 {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut before = None;
                for number in 0.. {
                    let config = record(Kind::Config, Some(&Uuid::now_v7().to_string()));
                    let mut changes = vec![put(&config)];
                    changes.extend([1, 2].map(|number| put(&version(config.id, number))));
                    let removed = before.replace(config.id).filter(|_| number % 3 == 2);
                    changes.extend(removed.map(|id| Change::Delete { kind: Kind::Config, id }));
                    if let Some(removed) = removed {
                        println!("- {removed}");
                    }
                    store.commit(changes, vec![entry("create", number)]).await.unwrap();
                    println!("+ {}", config.id);
                }
            });
        }
        std::future::pending::<()>().await;
    });
}

fn version(parent: Uuid, number: u32) -> super::Record {
    let mut version = record(Kind::PromptVersion, None);
    (version.parent, version.number) = (Some(parent), Some(number));
    version
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_was_acknowledged() {
    on_each(async |database| {
        let mut written = Vec::new();
        let mut removed = Vec::new();
        for round in 0..ROUNDS {
            for line in run_and_kill(&database, Duration::from_millis(20 + 30 * round as u64)) {
                let (sign, id) = line.split_at(2);
                let ids = if sign == "+ " { &mut written } else { &mut removed };
                ids.push(Uuid::try_parse(id).unwrap());
            }
            let store = database.open().await;
            let catalog = store.catalog();
            for id in written.iter().filter(|id| !removed.contains(id)) {
                assert!(catalog.get(Kind::Config, *id).is_some(), "round {round}: {id} is lost");
            }
            // Each of the four may have been killed before its last removal.
            let kept = removed.iter().filter(|id| catalog.get(Kind::Config, **id).is_some()).count();
            assert!(kept <= 4 * (round + 1), "round {round}: {kept} of {} removals are lost", removed.len());
            for config in catalog.all(Kind::Config) {
                assert_eq!(catalog.children(Kind::PromptVersion, config.id).count(), 2, "half an object");
            }
            store.verify().await.unwrap();
        }
        assert!(written.len() > ROUNDS, "{} writes", written.len());
    });
}

/// The lines of the process, from its start to its death.
fn run_and_kill(database: &Database, after: Duration) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "store::tests::killed::write_until_killed", "--nocapture"]);
    command.env(STATE_DIR, database.folder.path()).envs(database.url.as_ref().map(|url| (URL, url)));
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it does not start");
    }
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        process.kill().unwrap();
        process.wait().unwrap();
    });
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    killer.join().unwrap();
    // The last line may have been cut.
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}
