//! Rows of gateways on each backend, and a store that is only read.

use super::super::{NodeReport, NodeState, Store, StoreError, StoreOptions};
use super::{Database, Kind, on_each, put, record};
use jiff::Timestamp;
use std::time::Duration;
use uuid::Uuid;

fn report(name: &str, revision: u64) -> NodeReport {
    NodeReport {
        id: Uuid::now_v7(),
        name: name.to_owned(),
        address: "10.0.0.1:8788".to_owned(),
        clock: Timestamp::now(),
        state: NodeState { revision, role: "primary".to_owned(), ..NodeState::default() },
    }
}

#[test]
fn a_row_is_renewed_listed_and_removed_and_is_no_change_of_the_store() {
    on_each(|database| async move {
        let store = database.open().await;
        let before = store.catalog().position;
        let [one, two] = [report("one", 1), report("two", 2)];
        store.report_node(one.clone()).await.unwrap();
        store.report_node(two.clone()).await.unwrap();
        let later = NodeReport {
            clock: one.clock + Duration::from_secs(3600),
            state: NodeState { revision: 9, ..one.state.clone() },
            ..one.clone()
        };
        store.report_node(later.clone()).await.unwrap();
        let list = store.nodes().await.unwrap();
        assert_eq!((list.nodes.len(), list.position), (2, before));
        let listed = list.nodes.iter().find(|node| node.report.id == one.id).unwrap();
        assert_eq!(listed.report, later);
        assert!(listed.silence(list.now) < Duration::from_secs(60), "{listed:?}");
        // By the clock of the database, which is that of this machine here.
        assert!((listed.clock_ahead() / 1_000_000_000 - 3600).abs() < 60, "{listed:?}");
        // Another process of the same gateway: the row before stays until it is silent.
        store.report_node(NodeReport { id: Uuid::now_v7(), ..two.clone() }).await.unwrap();
        assert_eq!(store.nodes().await.unwrap().nodes.len(), 3);
        store.remove_node(two.id).await.unwrap();
        let names: Vec<_> =
            store.nodes().await.unwrap().nodes.into_iter().map(|node| node.report.id).collect();
        assert!(names.len() == 2 && !names.contains(&two.id));
        assert_eq!(store.newest_catalog().await.unwrap().position, before);
    });
}

#[tokio::test]
async fn a_store_that_is_only_read_makes_no_tables_and_writes_no_records() {
    let Some(database) = Database::postgres() else { return };
    let options = || StoreOptions { reads_only: true, ..database.options() };
    let early = Store::open(options()).await.unwrap();
    assert!(!early.health().available);
    assert!(early.health().why.unwrap().contains("schema 0"), "{:?}", early.health());
    assert!(early.nodes().await.is_err());

    let primary = database.open().await;
    let written = record(Kind::Config, Some("a"));
    let catalog = primary.commit(vec![put(&written)], Vec::new()).await.unwrap();
    let edge = Store::open(options()).await.unwrap();
    assert_eq!((edge.health().available, edge.catalog().position), (true, catalog.position));
    let own = put(&record(Kind::Config, Some("b")));
    assert_eq!(edge.commit(vec![own], Vec::new()).await.err(), Some(StoreError::ReadsOnly));
    assert_eq!(
        edge.commit(Vec::new(), vec![super::entry("create", 1)]).await.err(),
        Some(StoreError::ReadsOnly)
    );
    assert_eq!(edge.expire_audit(Timestamp::now()).await, Err(StoreError::ReadsOnly));
    assert_eq!(edge.rekey().await, Ok(0));
    assert!(edge.health().available, "a refusal is no failure of the database");
    edge.report_node(report("edge", 1)).await.unwrap();
    assert_eq!(primary.nodes().await.unwrap().nodes.len(), 1);
}
