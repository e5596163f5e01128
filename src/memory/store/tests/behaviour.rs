//! What every backend must do: records, conflicts, versions, the audit log, other processes.
//!
//! Each test runs on a database of its own per backend.

use super::super::audit::AuditQuery;
use super::super::{Catalog, Change, Kind, Status, StoreError};
use super::{entry, on_each, put, record};
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

#[test]
fn what_was_written_is_there_at_once_and_after_a_restart() {
    on_each(async |database| {
        let store = database.open().await;
        let mut config = record(Kind::Config, Some("pc-1"));
        config.workspace = Some(Uuid::now_v7());
        config.parent = Some(Uuid::now_v7());
        let mut provider = record(Kind::Provider, Some("openai"));
        let secrets = json!({"key": "sk-1"}).as_object().unwrap().clone();
        provider.sealed = Some(store.seal(Kind::Provider, provider.id, &secrets).unwrap());
        let before = store.catalog();
        let catalog = store.commit(vec![put(&config), put(&provider)], vec![]).await.unwrap();
        assert_eq!(catalog.position, before.position + 1);
        assert_eq!(store.catalog().position, catalog.position);
        assert!(before.get(Kind::Config, config.id).is_none(), "a catalog never changes");
        assert_eq!(**catalog.get(Kind::Config, config.id).unwrap(), config);
        assert_eq!(catalog.by_slug(Kind::Provider, None, "openai").unwrap().id, provider.id);

        config.revision = 2;
        config.status = Status::Archived;
        config.body = r#"{"n":2}"#.into();
        let changes = vec![put(&config), Change::Delete { kind: Kind::Provider, id: provider.id }];
        let catalog = store.commit(changes, vec![]).await.unwrap();
        assert!(catalog.by_slug(Kind::Provider, None, "openai").is_none());
        let pepper = store.pepper().unwrap();
        drop(store);

        let store = database.open().await;
        let loaded = store.catalog();
        assert_eq!(loaded.position, catalog.position);
        assert_eq!(**loaded.get(Kind::Config, config.id).unwrap(), config);
        assert!(loaded.get(Kind::Provider, provider.id).is_none());
        assert_eq!(store.pepper().unwrap(), pepper, "the secret of service keys stays");
    });
}

#[test]
fn secrets_are_bound_to_their_record_and_never_stored_plain() {
    on_each(async |database| {
        let store = database.open().await;
        let mut provider = record(Kind::Provider, None);
        let secrets = json!({"key": "sk-very-secret-1"}).as_object().unwrap().clone();
        provider.sealed = Some(store.seal(Kind::Provider, provider.id, &secrets).unwrap());
        store.commit(vec![put(&provider)], vec![]).await.unwrap();
        drop(store);
        let store = database.open().await;
        let loaded = Arc::clone(store.catalog().get(Kind::Provider, provider.id).unwrap());
        assert_eq!(store.unseal(&loaded).unwrap(), secrets);
        let moved = super::Record { id: Uuid::now_v7(), ..(*loaded).clone() };
        assert!(matches!(store.unseal(&moved), Err(StoreError::Damaged(_))));
        assert_eq!(store.unseal(&record(Kind::Config, None)).unwrap().len(), 0);
    });
}

#[test]
fn a_slug_is_taken_only_in_its_kind_and_workspace() {
    on_each(async |database| {
        let store = database.open().await;
        let home = Uuid::now_v7();
        let other = Uuid::now_v7();
        let in_workspace = |workspace| {
            let mut config = record(Kind::Config, Some("same"));
            config.workspace = workspace;
            config
        };
        let mut first = in_workspace(Some(home));
        let all = [put(&first), put(&in_workspace(Some(other))), put(&in_workspace(None))];
        store.commit(all.to_vec(), vec![]).await.unwrap();
        let guardrail = record(Kind::Guardrail, Some("same"));
        store.commit(vec![put(&guardrail)], vec![]).await.unwrap();
        for workspace in [Some(home), None] {
            let refused = store.commit(vec![put(&in_workspace(workspace))], vec![]).await;
            assert_eq!(refused.unwrap_err(), StoreError::Taken("the slug same".to_owned()));
        }
        // An archived object keeps its slug, a deleted one frees it.
        first.revision = 2;
        first.status = Status::Archived;
        store.commit(vec![put(&first)], vec![]).await.unwrap();
        assert!(store.commit(vec![put(&in_workspace(Some(home)))], vec![]).await.is_err());
        let again = in_workspace(Some(home));
        let both = vec![Change::Delete { kind: Kind::Config, id: first.id }, put(&again)];
        let catalog = store.commit(both, vec![]).await.unwrap();
        assert_eq!(catalog.by_slug(Kind::Config, Some(home), "same").unwrap().id, again.id);
    });
}

#[test]
fn a_write_happens_as_a_whole_or_not_at_all() {
    on_each(async |database| {
        let store = database.open().await;
        let first = record(Kind::Config, Some("a"));
        store.commit(vec![put(&first)], vec![]).await.unwrap();
        let before = store.catalog();
        let fresh = record(Kind::Config, Some("b"));
        let clash = record(Kind::Config, Some("a"));
        let refused = store.commit(vec![put(&fresh), put(&clash)], vec![entry("create", 1)]).await;
        assert!(matches!(refused, Err(StoreError::Taken(_))), "{refused:?}");
        assert_eq!(store.catalog().position, before.position);
        let page = store.audit(AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(page.total, 0, "nor its entry of the audit log");
        drop(store);
        let loaded = database.open().await.catalog();
        assert!(loaded.get(Kind::Config, fresh.id).is_none());
        assert_eq!(loaded.position, before.position);
    });
}

#[test]
fn changes_are_computed_again_of_what_was_written_meanwhile() {
    on_each(async |database| {
        let store = database.open().await;
        let other = database.open().await;
        let config = record(Kind::Config, None);
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        other.newest_catalog().await.unwrap();
        let mut counts = Vec::new();
        for writer in [&store, &other] {
            for _ in 0..5 {
                counts.push(async || {
                    let next = |catalog: &Catalog| {
                        let mut next = (**catalog.get(Kind::Config, config.id)?).clone();
                        next.revision += 1;
                        let revision = next.revision;
                        Some((vec![put(&next)], revision))
                    };
                    writer.commit_latest(vec![], next).await
                });
            }
        }
        let written = join_all(counts.iter().map(|count| count())).await;
        let mut revisions: Vec<_> = written.into_iter().map(|revision| revision.unwrap().unwrap()).collect();
        revisions.sort_unstable();
        assert_eq!(revisions, (config.revision + 1..=config.revision + 10).collect::<Vec<_>>());
        let nothing = store.commit_latest(vec![], |_| None::<(Vec<Change>, ())>).await;
        assert_eq!(nothing.unwrap(), None);
    });
}

#[test]
fn a_write_on_what_was_changed_meanwhile_is_refused() {
    on_each(async |database| {
        let store = database.open().await;
        let mut config = record(Kind::Config, Some("a"));
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        assert_eq!(store.commit(vec![put(&config)], vec![]).await.unwrap_err(), StoreError::Changed, "again");
        for revision in [3, 0] {
            config.revision = revision;
            assert_eq!(store.commit(vec![put(&config)], vec![]).await.unwrap_err(), StoreError::Changed);
        }
        config.revision = 2;
        store.commit(vec![put(&config)], vec![]).await.unwrap();
        let delete = || vec![Change::Delete { kind: Kind::Config, id: config.id }];
        store.commit(delete(), vec![]).await.unwrap();
        assert_eq!(store.commit(delete(), vec![]).await.unwrap_err(), StoreError::Changed, "deleted");
        config.revision = 3;
        assert_eq!(store.commit(vec![put(&config)], vec![]).await.unwrap_err(), StoreError::Changed);
    });
}

#[test]
fn versions_are_numbered_once_and_read_newest_first() {
    on_each(async |database| {
        let store = database.open().await;
        let parent = Uuid::now_v7();
        for kind in [Kind::ConfigVersion, Kind::PromptVersion] {
            let version = |number| {
                let mut version = record(kind, None);
                (version.parent, version.number) = (Some(parent), Some(number));
                version
            };
            for number in 1..=12 {
                store.commit(vec![put(&version(number))], vec![]).await.unwrap();
            }
            let refused = store.commit(vec![put(&version(3))], vec![]).await.unwrap_err();
            assert_eq!(refused, StoreError::Taken("version 3".to_owned()));
            let found = store.children(kind, parent).await.unwrap();
            let numbers: Vec<u32> = found.iter().filter_map(|version| version.number).collect();
            assert_eq!(numbers, (1..=12).rev().collect::<Vec<_>>());
            let in_memory = store.catalog().children(kind, parent).count();
            assert_eq!(in_memory, if kind.is_in_memory() { 12 } else { 0 });
        }
        assert!(store.children(Kind::ConfigVersion, Uuid::now_v7()).await.unwrap().is_empty());
    });
}

#[test]
fn the_audit_log_is_filtered_and_paged_newest_first() {
    on_each(async |database| {
        let store = database.open().await;
        let workspace = Some(Uuid::now_v7());
        for second in 1..=30 {
            let mut entry = entry(if second % 3 == 0 { "delete" } else { "create" }, second);
            entry.workspace = workspace.filter(|_| second > 20);
            entry.status = if second == 5 { 403 } else { 200 };
            store.commit(vec![], vec![entry]).await.unwrap();
        }
        let read = async |query: AuditQuery| {
            let page = store.audit(query).await.unwrap();
            let seconds: Vec<i64> = page.entries.iter().map(|entry| entry.time.as_second()).collect();
            (page.total, seconds)
        };
        let all = AuditQuery { limit: 3, ..AuditQuery::default() };
        assert_eq!(read(all.clone()).await, (30, vec![30, 29, 28]));
        assert_eq!(read(AuditQuery { offset: 28, ..all.clone() }).await, (30, vec![2, 1]));
        let time = |second| Some(Timestamp::from_second(second).unwrap());
        let span = AuditQuery { since: time(10), until: time(12), ..all.clone() };
        assert_eq!(read(span).await, (2, vec![11, 10]));
        let some = |text: &str| Some(text.to_owned());
        let deletions = AuditQuery { action: some("delete"), workspace, ..all.clone() };
        assert_eq!(read(deletions).await, (4, vec![30, 27, 24]));
        assert_eq!(read(AuditQuery { status: Some(403), ..all.clone() }).await, (1, vec![5]));
        let member = AuditQuery { members: vec![("uri", "/v1/configs?n=7".to_owned())], ..all.clone() };
        assert_eq!(read(member).await, (1, vec![7]));
        for none in [
            AuditQuery { actor: some("' OR 1=1 --"), ..all.clone() },
            AuditQuery { actor_type: some("user"), ..all.clone() },
            AuditQuery { resource: some("prompts"), ..all.clone() },
            AuditQuery { method: some("PUT"), ..all.clone() },
            AuditQuery { members: vec![("request_id", "r7' OR '1'='1".to_owned())], ..all.clone() },
            AuditQuery { members: vec![("client_ip", "r7".to_owned())], ..all.clone() },
        ] {
            assert_eq!(read(none.clone()).await, (0, vec![]), "{none:?}");
        }
    });
}

#[test]
fn old_entries_of_the_audit_log_are_deleted() {
    on_each(async |database| {
        let store = database.open().await;
        let entries = (1..=2_500).map(|second| entry("create", second)).collect();
        store.commit(vec![], entries).await.unwrap();
        let time = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(store.expire_audit(time(1)).await.unwrap(), 0);
        assert_eq!(store.expire_audit(time(2_400)).await.unwrap(), 2_399);
        let page = store.audit(AuditQuery { limit: 1, offset: 100, ..AuditQuery::default() }).await.unwrap();
        assert_eq!((page.total, page.entries[0].time), (101, time(2_400)));
    });
}

#[test]
fn a_change_of_another_process_is_noticed_within_a_second() {
    on_each(async |database| {
        let here = database.open().await;
        let there = database.open().await;
        assert_eq!(here.pepper(), there.pepper(), "the same secret for service keys");
        let following = tokio::spawn(Arc::clone(&here).follow(std::future::pending()));
        let mut updated = here.updated();
        let mut config = record(Kind::Config, Some("a"));
        for revision in 1..=3 {
            config.revision = revision;
            updated.mark_unchanged();
            let begin = Instant::now();
            let position = there.commit(vec![put(&config)], vec![]).await.unwrap().position;
            let noticed =
                tokio::time::timeout(Duration::from_secs(3), updated.wait_for(|at| *at >= position));
            noticed.await.unwrap().unwrap();
            assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
            assert_eq!(here.catalog().get(Kind::Config, config.id).unwrap().revision, revision);
        }
        let gone = vec![Change::Delete { kind: Kind::Config, id: config.id }];
        let position = there.commit(gone, vec![]).await.unwrap().position;
        let noticed = tokio::time::timeout(Duration::from_secs(3), updated.wait_for(|at| *at >= position));
        noticed.await.unwrap().unwrap();
        assert!(here.catalog().by_slug(Kind::Config, None, "a").is_none());
        following.abort();
    });
}

#[test]
fn each_process_sees_the_writes_of_both_however_they_interleave() {
    on_each(async |database| {
        let stores = [database.open().await, database.open().await];
        let mut tasks = Vec::new();
        for task in 0..8 {
            let store = Arc::clone(&stores[task % 2]);
            tasks.push(tokio::spawn(async move {
                for number in 0..25 {
                    let slug = format!("s-{task}-{number}");
                    let config = record(Kind::Config, Some(&slug));
                    let catalog = store.commit(vec![put(&config)], vec![]).await.unwrap();
                    assert!(catalog.by_slug(Kind::Config, None, &slug).is_some(), "its own write");
                    if number % 5 == 0 {
                        let delete = vec![Change::Delete { kind: Kind::Config, id: config.id }];
                        let catalog = store.commit(delete, vec![]).await.unwrap();
                        assert!(catalog.by_slug(Kind::Config, None, &slug).is_none(), "its own deletion");
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        for store in &stores {
            store.catch_up(store.backend().unwrap()).await.unwrap();
        }
        let [first, second] = stores.map(|store| store.catalog());
        assert_eq!(first.position, second.position);
        let slugs = |catalog: &super::super::Catalog| -> Vec<Option<String>> {
            catalog.all(Kind::Config).map(|config| config.slug.clone()).collect()
        };
        assert_eq!(slugs(&first).len(), 8 * 20);
        assert_eq!(slugs(&first), slugs(&second));
        let fresh = database.open().await;
        assert_eq!(slugs(&fresh.catalog()), slugs(&first));
        assert_eq!(fresh.backend().unwrap().verify().await, Ok(8 * 20 + 1));
    });
}

#[test]
fn a_refused_write_takes_no_other_with_it() {
    on_each(async |database| {
        let store = database.open().await;
        store.commit(vec![put(&record(Kind::Config, Some("taken")))], vec![]).await.unwrap();
        let mut tasks = Vec::new();
        for number in 0..100 {
            let store = Arc::clone(&store);
            tasks.push(tokio::spawn(async move {
                let own = format!("s-{number}");
                let slug = if number % 4 == 0 { "taken" } else { &own };
                (number, store.commit(vec![put(&record(Kind::Config, Some(slug)))], vec![]).await.is_ok())
            }));
        }
        for task in tasks {
            let (number, written) = task.await.unwrap();
            assert_eq!(written, number % 4 != 0, "{number}");
        }
        assert_eq!(database.open().await.catalog().all(Kind::Config).count(), 76);
    });
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    on_each(async |database| {
        let store = database.open().await;
        let config = record(Kind::Config, Some("a"));
        store.commit(vec![put(&config)], vec![entry("create", 1)]).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("copy.db");
        store.backup(&file).await.unwrap();
        assert!(store.backup(&file).await.is_err(), "nothing is overwritten");
        store.commit(vec![Change::Delete { kind: Kind::Config, id: config.id }], vec![]).await.unwrap();
        let mut options = database.options();
        options.url = Some(super::Secret::new(format!("sqlite://{}", file.display())));
        options.state_dir = folder.path().to_owned();
        let copy = super::Store::open(options).await.unwrap();
        assert_eq!(**copy.catalog().get(Kind::Config, config.id).unwrap(), config);
        assert_eq!(copy.pepper(), store.pepper());
        let page = copy.audit(AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(page.entries, [super::AuditEntry { id: page.entries[0].id, ..entry("create", 1) }]);
    });
}

#[test]
fn a_commit_without_anything_to_write_is_nothing() {
    on_each(async |database| {
        let store = database.open().await;
        let position = store.catalog().position;
        assert_eq!(store.commit(vec![], vec![]).await.unwrap().position, position);
        let _: Value = json!({});
    });
}

/// Writes of the audit log alone are joined with others, and have the position of the one before them.
#[test]
fn a_write_is_in_memory_whatever_other_writes_there_are() {
    on_each(async |database| {
        let store = Arc::new(database.open().await);
        for round in 0..40 {
            let mut writes = tokio::task::JoinSet::new();
            for number in 0..24 {
                let store = Arc::clone(&store);
                let config = record(Kind::Config, None);
                if number % 2 == 0 {
                    writes.spawn(async move {
                        let catalog = store.commit(vec![put(&config)], vec![]).await.unwrap();
                        assert!(
                            catalog.get(Kind::Config, config.id).is_some(),
                            "in the catalog of its write"
                        );
                        Some(config.id)
                    });
                } else {
                    writes.spawn(async move {
                        store.commit(vec![], vec![entry("create", round)]).await.unwrap();
                        None
                    });
                }
            }
            let catalog_after = |ids: Vec<Option<Uuid>>| {
                let catalog = store.catalog();
                ids.into_iter().flatten().all(|id| catalog.get(Kind::Config, id).is_some())
            };
            assert!(catalog_after(writes.join_all().await), "in the catalog of all");
        }
    });
}
