//! What only a server has: it is stopped and started while gateways run, and was made by a newer binary.
//!
//! What it shares with the embedded database is in `behaviour`.

use super::super::{Kind, Store, StoreError, StoreOptions};
use super::postgres_server::{Server, shared};
use super::{Database, put, record};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::config::secret::Secret;

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "not {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_server_that_goes_and_comes_back_loses_nothing_that_was_acknowledged() {
    let Some(server) = Server::start() else { return };
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let database = Database { folder, url: Some(server.new_database()) };
        let store = database.open().await;
        let following = tokio::spawn(Arc::clone(&store).follow(std::future::pending()));
        let mut written = Vec::new();
        for round in 0..3 {
            for number in 0..10 {
                let config = record(Kind::Config, Some(&format!("s-{round}-{number}")));
                store.commit(vec![put(&config)], vec![]).await.unwrap();
                written.push(config.id);
            }
            server.kill();
            let begin = Instant::now();
            let refused = store.commit(vec![put(&record(Kind::Config, Some("lost")))], vec![]).await;
            assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
            assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
            assert!(!store.health().available && store.health().why.is_some());
            assert_eq!(store.catalog().all(Kind::Config).count(), written.len(), "reads go on");
            server.run();
            until("available again", || store.health().available).await;
        }
        following.abort();
        let fresh = database.open().await;
        let found: Vec<_> = fresh.catalog().all(Kind::Config).map(|config| config.id).collect();
        assert_eq!(found, written);
        fresh.verify().await.unwrap();
    });
}

#[test]
fn a_start_without_the_server_uses_the_snapshot_on_disk_until_it_is_back() {
    let Some(server) = Server::start() else { return };
    run(async {
        let database = Database { folder: tempfile::tempdir().unwrap(), url: Some(server.new_database()) };
        let store = database.open().await;
        let config = record(Kind::Config, Some("a"));
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        let pepper = store.pepper();
        Arc::clone(&store).follow(std::future::ready(())).await;
        drop(store);
        server.kill();
        let store = Arc::new(Store::open(database.options()).await.unwrap());
        let health = store.health();
        assert!(!health.available && health.from_disk, "{health:?}");
        assert!(store.catalog().get(Kind::Config, config.id).is_some());
        assert_eq!(store.pepper(), pepper);
        let following = tokio::spawn(Arc::clone(&store).follow(std::future::pending()));
        server.run();
        until("read from the server", || !store.health().from_disk).await;
        store.commit(vec![put(&record(Kind::Config, Some("b")))], vec![]).await.unwrap();
        following.abort();
    });
}

#[test]
fn what_an_operator_must_end_refuses_the_start() {
    let Some(mut database) = Database::postgres() else { return };
    run(async {
        drop(database.open().await);
        let other = StoreOptions { encryption_key: Some(Secret::new("ab".repeat(32))), ..database.options() };
        let error = Store::open(other).await.err().unwrap();
        assert!(error.is_fatal() && error.to_string().contains("not the one of this database"), "{error}");
        let added =
            "INSERT INTO refinery_schema_history VALUES (98, 'more_added', '2030-01-01T00:00:00Z', '1')";
        let newer = "INSERT INTO refinery_schema_history VALUES (99, 'later', '2030-01-01T00:00:00Z', '1')";
        let url = database.url.clone().unwrap();
        let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
        assert!(shared().unwrap().sql(name, added));
        drop(database.open().await);
        assert!(shared().unwrap().sql(name, newer));
        let error = Store::open(database.options()).await.err().unwrap();
        assert_eq!(error, StoreError::Newer { database: 99, binary: 1 });
        // A database that is not there may come: the start goes on without it.
        database.url = Some(url.replace(name, "no_such_database"));
        let store = Store::open(database.options()).await.unwrap();
        assert!(store.health().why.unwrap().contains("no_such_database"));
    });
}

#[test]
fn gateways_that_start_at_the_same_time_make_the_tables_once() {
    let Some(database) = Database::postgres() else { return };
    run(async {
        let stores = futures_util::future::join_all((0..6).map(|_| Store::open(database.options()))).await;
        let peppers: Vec<_> = stores.into_iter().map(|store| store.unwrap().pepper().unwrap()).collect();
        assert!(peppers.iter().all(|pepper| *pepper == peppers[0]), "one secret for service keys");
    });
}
