//! What an embedded database must survive: damage, a lost or wrong key, a newer binary's file, a full disk, a stop.
//!
//! What it shares with the other backend is in `behaviour`.

use super::super::sqlite::Sqlite;
use super::super::{Backend as _, Kind, Store, StoreError, StoreOptions};
use super::{Database, entry, put, record};
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use words::config::secret::Secret;

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// As without any setting: the key is a file.
fn own_key(database: &Database) -> StoreOptions {
    StoreOptions { encryption_key: None, ..database.options() }
}

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_files_of_a_first_start_are_their_owners_alone() {
    run(async {
        let database = Database::sqlite();
        let state_dir = database.folder.path().join("a/b");
        let options = StoreOptions { state_dir: state_dir.clone(), ..own_key(&database) };
        let store = Arc::new(Store::open(options).await.unwrap());
        Arc::clone(&store).follow(std::future::ready(())).await;
        for file in ["turnpike.db", "turnpike.db-wal", "turnpike.db-shm", "master.key", "snapshot.sealed"] {
            assert_eq!(mode(&state_dir.join(file)), 0o600, "{file}");
        }
        assert_eq!(mode(&state_dir), 0o700);
    });
}

#[test]
fn nothing_is_acknowledged_into_a_file_that_is_gone() {
    run(async {
        let database = Database::sqlite();
        let store = Arc::new(database.open().await);
        let config = record(Kind::Config, Some("a"));
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        let folder = database.folder.path();
        for name in ["turnpike.db", "turnpike.db-wal"] {
            std::fs::rename(folder.join(name), folder.join("away")).unwrap();
            let refused =
                store.commit(vec![put(&record(Kind::Config, Some("b")))], vec![entry("b", 1)]).await;
            assert!(
                matches!(refused, Err(StoreError::Unavailable(ref why)) if why.contains(name)),
                "{refused:?}"
            );
            assert!(!store.health().available, "{name}");
            assert!(store.newest_catalog().await.is_err(), "{name}: nor is it read");
            assert_eq!(**store.catalog().get(Kind::Config, config.id).unwrap(), config);
            std::fs::rename(folder.join("away"), folder.join(name)).unwrap();
            store.commit(vec![put(&record(Kind::Config, Some(name)))], vec![]).await.unwrap();
            assert!(store.health().available, "{name}");
        }
        drop(store);
        let store = database.open().await;
        let slugs: Vec<_> =
            store.catalog().all(Kind::Config).map(|record| record.slug.clone().unwrap()).collect();
        assert_eq!(slugs, ["a", "turnpike.db", "turnpike.db-wal"]);
    });
}

#[test]
fn a_newer_database_refuses_the_start() {
    run(async {
        let database = Database::sqlite();
        drop(database.open().await);
        let connection = Connection::open(database.folder.path().join("turnpike.db")).unwrap();
        let added =
            "INSERT INTO refinery_schema_history VALUES (98, 'more_added', '2030-01-01T00:00:00Z', '1')";
        connection.execute(added, []).unwrap();
        drop(database.open().await);
        let newer = "INSERT INTO refinery_schema_history VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')";
        connection.execute(newer, []).unwrap();
        let error = Store::open(database.options()).await.err().unwrap();
        assert_eq!(error, StoreError::Newer { database: 99, binary: 1 });
        assert!(error.is_fatal() && error.to_string().contains("newer binary"), "{error}");
    });
}

#[test]
fn a_wrong_or_lost_master_key_refuses_the_start() {
    run(async {
        let database = Database::sqlite();
        drop(database.open().await);
        let options =
            StoreOptions { encryption_key: Some(Secret::new("ab".repeat(32))), ..database.options() };
        let error = Store::open(options).await.err().unwrap();
        assert!(error.is_fatal() && error.to_string().contains("not the one of this database"), "{error}");
        let error = Store::open(own_key(&database)).await.err().unwrap();
        assert!(error.is_fatal() && error.to_string().contains("master.key is missing"), "{error}");
        assert!(!database.folder.path().join("master.key").exists(), "no other key is made");
        let options = StoreOptions { encryption_key: Some(Secret::new("short")), ..database.options() };
        assert!(Store::open(options).await.err().unwrap().is_fatal());
        let previous = StoreOptions {
            encryption_key: Some(Secret::new("ab".repeat(32))),
            previous_encryption_keys: vec![Secret::new(super::KEY)],
            ..database.options()
        };
        assert!(Store::open(previous).await.unwrap().health().available);
    });
}

#[test]
fn a_damaged_file_does_not_refuse_the_start_and_its_snapshot_is_used_until_it_is_replaced() {
    run(async {
        let database = Database::sqlite();
        let file = database.folder.path().join("turnpike.db");
        let store = database.open().await;
        let config = record(Kind::Config, Some("a"));
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        let good = database.folder.path().join("good.db");
        store.backup(&good).await.unwrap();
        Arc::clone(&store).follow(std::future::ready(())).await;
        drop(store);
        for part in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{part}", file.display()));
        }
        let text = "this is no database, it only has its name and is long enough to be one. ".repeat(200);
        std::fs::write(&file, text).unwrap();

        let store = Arc::new(Store::open(database.options()).await.unwrap());
        let health = store.health();
        assert!(!health.available && health.from_disk && health.why.is_some(), "{health:?}");
        assert_eq!(**store.catalog().get(Kind::Config, config.id).unwrap(), config);
        assert!(store.pepper().is_some(), "service keys can be checked");
        let refused = store.commit(vec![put(&record(Kind::Config, Some("b")))], vec![]).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");

        std::fs::rename(&good, &file).unwrap();
        let following = tokio::spawn(Arc::clone(&store).follow(std::future::pending()));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while store.health().from_disk && std::time::Instant::now() < deadline {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(store.health().available && !store.health().from_disk, "{:?}", store.health());
        store.commit(vec![put(&record(Kind::Config, Some("b")))], vec![]).await.unwrap();
        following.abort();
    });
}

#[test]
fn a_place_where_nothing_can_be_made_does_not_refuse_the_start() {
    run(async {
        let database = Database::sqlite();
        let occupied = database.folder.path().join("file");
        std::fs::write(&occupied, "").unwrap();
        let options = StoreOptions { state_dir: occupied.join("below"), ..own_key(&database) };
        let store = Store::open(options).await.unwrap();
        assert!(!store.health().available);
        assert!(store.pepper().is_none() && store.catalog().is_empty());
    });
}

#[test]
fn the_snapshot_holds_nothing_readable_and_belongs_to_one_database() {
    run(async {
        let database = Database::sqlite();
        let store = database.open().await;
        let mut config = record(Kind::Config, Some("visible-slug"));
        config.body = r#"{"name":"visible-name"}"#.into();
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        store.save_snapshot().unwrap();
        let bytes = std::fs::read(database.folder.path().join("snapshot.sealed")).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("visible"));
        let snapshot = store.snapshot.as_ref().unwrap();
        let keys = super::super::sealing::Keyring::new(&std::array::from_fn(|at| at as u8), &[]).unwrap();
        let read = snapshot.read(&keys).unwrap().unwrap();
        assert_eq!(read.position, store.catalog().position);
        assert_eq!(**read.get(Kind::Config, config.id).unwrap(), config);
        let foreign = super::super::disk_snapshot::DiskSnapshot {
            file: snapshot.file.clone(),
            database: "sqlite:///other.db".to_owned(),
        };
        assert!(matches!(foreign.read(&keys), Err(StoreError::Damaged(_))));
        for cut in [0, 10, 40, bytes.len() - 1] {
            std::fs::write(&snapshot.file, &bytes[..cut]).unwrap();
            assert!(matches!(snapshot.read(&keys), Err(StoreError::Damaged(_))), "{cut}");
        }
    });
}

#[test]
fn a_snapshot_is_whole_or_refused_and_that_of_the_version_before_is_read() {
    run(async {
        let database = Database::sqlite();
        let store = database.open().await;
        let configs: Vec<_> =
            (0..40).map(|number| record(Kind::Config, Some(&format!("c-{number}")))).collect();
        store.commit(configs.iter().map(put).collect(), vec![]).await.unwrap();
        store.save_snapshot().unwrap();
        let snapshot = store.snapshot.as_ref().unwrap();
        let keys = super::super::sealing::Keyring::new(&std::array::from_fn(|at| at as u8), &[]).unwrap();
        let read = snapshot.read(&keys).unwrap().unwrap();
        assert_eq!(read.all(Kind::Config).count(), 40);
        let bytes = std::fs::read(&snapshot.file).unwrap();
        // After the line and the id of the file: parts, each behind its length.
        let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 17;
        let (head, mut rest) = bytes.split_at(first);
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(*rest.first_chunk().unwrap()) as usize;
            let (part, after) = rest.split_at(4 + length);
            parts.push(part);
            rest = after;
        }
        assert!(parts.len() > 3, "{}", parts.len());
        let refused = |parts: &[&[u8]]| {
            std::fs::write(&snapshot.file, [head, &parts.concat()].concat()).unwrap();
            matches!(snapshot.read(&keys), Err(StoreError::Damaged(_)))
        };
        assert!(!refused(&parts));
        let swapped = [&[parts[1], parts[0]], &parts[2..]].concat();
        let twice = [&parts[..], &parts[parts.len() - 1..]].concat();
        for other in [&parts[..parts.len() - 1], &parts[1..], &swapped, &twice, &[]] {
            assert!(refused(other), "{} parts", other.len());
        }
        let context = format!("snapshot of {}", snapshot.database);
        let sealed = keys.seal_bytes(context.as_bytes(), b"7\n").unwrap();
        let line = format!("turnpike-snapshot 1 {}\n", sealed.key_id);
        std::fs::write(&snapshot.file, [line.as_bytes(), &sealed.bytes].concat()).unwrap();
        assert_eq!(snapshot.read(&keys).unwrap().unwrap().position, 7);
    });
}

#[test]
fn a_full_disk_refuses_the_write_and_nothing_else() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("turnpike.db");
        let database = Sqlite::open(Some(&file)).unwrap();
        let write = async |slug: &str, bytes: usize| {
            let mut config = record(Kind::Config, Some(slug));
            config.body = format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes)).into();
            database.write(vec![put(&config)], vec![entry("create", 1)]).await
        };
        write("kept", 0).await.unwrap();
        database.limit_pages(40).await;
        let mut written = 1;
        let error = loop {
            match write(&format!("large-{written}"), 20_000).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Full(_)), "{error}");
        let loaded = database.load().await.unwrap();
        assert_eq!(
            (loaded.records.len(), loaded.position),
            (written, written as u64),
            "what was acknowledged is there"
        );
        // Of several that wait together, those are written that fit.
        let (large, small) = tokio::join!(write("large", 100_000), write("small", 0));
        assert!(matches!(large, Err(StoreError::Full(_))), "{large:?}");
        assert!(small.is_ok(), "{small:?}");
        database.limit_pages(1_000_000).await;
        write("again", 20_000).await.unwrap();
        drop(database);
        let database = Sqlite::open(Some(&file)).unwrap();
        assert_eq!(database.verify().await, Ok(written as u64 + 2));
    });
}

#[test]
fn health_follows_the_outcomes_and_has_the_reason() {
    let health = super::super::health::Health::new("sqlite");
    let note = |outcome: Result<(), StoreError>| {
        health.note(&outcome);
        let health = health.read(1);
        (health.available, health.why)
    };
    let full = StoreError::Full("disk".to_owned());
    let down = StoreError::Unavailable("gone".to_owned());
    assert_eq!(note(Ok(())), (true, None));
    assert_eq!(note(Err(full.clone())), (true, Some(full.to_string())), "reads go on");
    assert_eq!(note(Err(down.clone())), (false, Some(down.to_string())));
    assert_eq!(
        note(Err(StoreError::Changed)),
        (false, Some(down.to_string())),
        "says nothing of the database"
    );
    assert_eq!(note(Ok(())), (true, None));
}

#[test]
fn a_kind_of_a_newer_binary_is_left_alone() {
    run(async {
        let database = Database::sqlite();
        drop(database.open().await);
        let connection = Connection::open(database.folder.path().join("turnpike.db")).unwrap();
        let id = uuid::Uuid::now_v7().to_string();
        let insert = "INSERT INTO records VALUES ('later', ?1, NULL, NULL, 's', NULL, 'active', 1, 0, 0, '{}', NULL, NULL)";
        connection.execute(insert, [&id]).unwrap();
        connection.execute("INSERT INTO changes VALUES ('later', ?1, 2, 0)", [&id]).unwrap();
        connection.execute("UPDATE last_position SET position = 2", []).unwrap();
        let store = database.open().await;
        assert_eq!(store.catalog().len(), 1, "only the secret of service keys");
        assert_eq!(store.backend().unwrap().changes(0).await.unwrap().changes.len(), 1);
        store.commit(vec![put(&record(Kind::Config, Some("a")))], vec![]).await.unwrap();
        let kept: i64 = connection
            .query_row("SELECT count(*) FROM records WHERE kind = 'later'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(kept, 1);
    });
}

#[test]
fn the_master_key_changes_while_a_gateway_runs() {
    run(async {
        let database = Database::sqlite();
        let gateway = Arc::new(Store::open(own_key(&database)).await.unwrap());
        let following = tokio::spawn(Arc::clone(&gateway).follow(std::future::pending()));
        let secrets = serde_json::json!({"key": "sk-1"}).as_object().unwrap().clone();
        let add = async |slug: &str| {
            let mut provider = record(Kind::Provider, Some(slug));
            provider.sealed = Some(gateway.seal(Kind::Provider, provider.id, &secrets).unwrap());
            gateway.commit(vec![put(&provider)], vec![]).await.unwrap();
        };
        for number in 0..120 {
            add(&format!("p-{number}")).await;
        }
        let before = std::fs::read_to_string(database.folder.path().join("master.key")).unwrap();
        let command = Store::open(own_key(&database)).await.unwrap();
        let rekeying = tokio::spawn(async move { command.rekey().await });
        // The gateway writes and reads all the time.
        let mut number = 0;
        while !rekeying.is_finished() {
            add(&format!("meanwhile-{number}")).await;
            number += 1;
            for provider in gateway.catalog().all(Kind::Provider) {
                assert_eq!(gateway.unseal(provider).unwrap(), secrets);
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let resealed = rekeying.await.unwrap().unwrap();
        assert!((121..=121 + number).contains(&resealed), "{resealed}");
        let after = std::fs::read_to_string(database.folder.path().join("master.key")).unwrap();
        assert_eq!((after.lines().count(), after.lines().next() == before.lines().next()), (1, false));
        assert_eq!(mode(&database.folder.path().join("master.key")), 0o600);
        add("afterwards").await;
        let pepper = gateway.pepper();
        following.abort();
        let fresh = Store::open(own_key(&database)).await.unwrap();
        assert_eq!(fresh.verify().await, Ok(122 + number));
        assert_eq!(fresh.pepper(), pepper);
    });
}

#[test]
fn keys_in_the_settings_are_changed_by_a_reload_and_a_rekey() {
    run(async {
        let database = Database::sqlite();
        let gateway = database.open().await;
        let new = StoreOptions {
            encryption_key: Some(Secret::new("ab".repeat(32))),
            previous_encryption_keys: vec![Secret::new(super::KEY)],
            ..database.options()
        };
        gateway.reload_keys(&new).unwrap();
        let command = Store::open(new.clone()).await.unwrap();
        assert_eq!(command.rekey().await, Ok(1));
        assert_eq!(command.rekey().await, Ok(0));
        gateway.catch_up(gateway.backend().unwrap()).await.unwrap();
        assert_eq!(gateway.pepper(), command.pepper());
        let alone = StoreOptions { previous_encryption_keys: Vec::new(), ..new };
        assert!(Store::open(alone).await.unwrap().verify().await.is_ok());
        assert!(Store::open(database.options()).await.err().unwrap().is_fatal());
        let wrong = StoreOptions { encryption_key: Some(Secret::new("no key")), ..database.options() };
        assert!(gateway.reload_keys(&wrong).is_err());
    });
}
