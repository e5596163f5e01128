//! Calls of the store that take long, fail, or have nobody who waits for them, with a store that replies when the test has it do so.

use super::super::claim::{
    BucketReply, Claim, CounterStore, LeaseOrder, LeaseReply, Order, Reply, SettleReply, Settlement, Shown,
    UNCONFIRMED, Verdict,
};
use super::super::{Inner, Shared, announce_once, postgres};
use super::*;
use crate::limits::buckets::{Buckets, Sink};
use crate::limits::entity::State;
use async_trait::async_trait;
use std::sync::atomic::AtomicUsize;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// When its reservations begin and are let go on.
#[derive(Debug, Default)]
struct Gate {
    has_begun: Notify,
    goes_on: Notify,
}

/// Holds whatever is wanted, as soon as it may. Its clock stands at 10 seconds.
struct GatedStore {
    gate: Arc<Gate>,
    settled: mpsc::UnboundedSender<Settlement>,
}

fn held(claim: &Claim) -> BucketReply {
    BucketReply {
        verdict: Verdict::Room,
        state: State::reported(claim.window, 0, claim.amount, 0),
        epoch: 1,
        resets: 0,
        amount: claim.amount,
        is_clamped: false,
        is_exhausted_now: false,
        generation: 0,
    }
}

#[async_trait]
impl CounterStore for GatedStore {
    async fn reserve(&self, order: Arc<Order>) -> Result<Reply, String> {
        self.gate.has_begun.notify_one();
        self.gate.goes_on.notified().await;
        Ok(Reply::Held { now: order.not_after, buckets: order.claims.iter().map(held).collect() })
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<SettleReply>, String> {
        let settled = settlements.iter().map(|settlement| {
            let _ = self.settled.send(settlement.clone());
            SettleReply { spent: 0, is_threshold_now: false, is_exhausted_now: false }
        });
        Ok(settled.collect())
    }

    async fn lease(&self, _: &[LeaseOrder]) -> Result<Vec<LeaseReply>, String> {
        Ok(Vec::new())
    }

    async fn buckets(&self, _: &Limit) -> Result<Vec<u128>, String> {
        Ok(Vec::new())
    }

    async fn look(&self, _: &Limit, _: Window, _: &[u128], _: bool) -> Result<Vec<Shown>, String> {
        Ok(Vec::new())
    }

    async fn announce(&self, _: Uuid) -> Result<(usize, i64), String> {
        Ok((3, 10_000))
    }
}

fn gated() -> (GatedStore, Arc<Gate>, mpsc::UnboundedReceiver<Settlement>) {
    let (settled, receiver) = mpsc::unbounded_channel();
    let gate = Arc::new(Gate::default());
    (GatedStore { gate: Arc::clone(&gate), settled }, gate, receiver)
}

#[tokio::test]
async fn what_was_reserved_for_a_task_that_is_gone_is_cancelled() {
    let (store, gate, mut settled) = gated();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let buckets = Buckets::new(BucketHash::Common, Sink::default());
    let hold_lifetime = Duration::from_secs(600);
    let shared = Shared::with(runtime, Box::new(store), "redis", hold_lifetime, false, &buckets.sink);
    let limits = Arc::new(Limits { shared: Some(shared), ..Limits::new(buckets, Calendar::default()) });
    let limit = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 100, Reset::Never)) };
    let next = async |settled: &mut mpsc::UnboundedReceiver<Settlement>| {
        timeout(Duration::from_secs(20), settled.recv()).await.expect("a settlement").unwrap()
    };
    let reserving = {
        let limits = Arc::clone(&limits);
        let limit = limit.clone();
        tokio::spawn(async move {
            let set = LimitSet::new(vec![limit], limits.hash());
            reserve(&limits, &set, &priced(10)).await.map(drop)
        })
    };
    gate.has_begun.notified().await;
    reserving.abort();
    assert!(reserving.await.unwrap_err().is_cancelled());
    gate.goes_on.notify_one();
    let cancelled = next(&mut settled).await;
    assert_eq!((cancelled.limit.id, cancelled.amount, cancelled.actual), (limit.id, UNCONFIRMED, 0));
    // One that somebody waits for is settled, and nothing else.
    gate.goes_on.notify_one();
    let set = LimitSet::new(vec![limit], limits.hash());
    reserve(&limits, &set, &priced(10)).await.unwrap().settle(used(0, 7), Timestamp::now());
    let settlement = next(&mut settled).await;
    assert_eq!((settlement.amount, settlement.actual), (10, 7));
    assert!(limits.flush().await.is_ok() && settled.try_recv().is_err());
}

/// The clock of the store was read at some moment of the call.
#[tokio::test]
async fn how_long_a_call_takes_does_not_make_the_store_late() {
    let (store, ..) = gated();
    let sink = Arc::clone(&Buckets::new(BucketHash::Common, Sink::default()).sink);
    let inner = Inner::new(Box::new(store), "redis", Duration::from_secs(600), sink);
    let times = [1_000, 1_700];
    let count = AtomicUsize::new(0);
    announce_once(&inner, Uuid::nil(), || times[count.fetch_add(1, Ordering::Relaxed)]).await;
    assert_eq!((inner.their_time(2_000), inner.their_earliest(2_000)), (11_000, 10_300));
    assert_eq!(inner.gateways.load(Ordering::Relaxed), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_announced_also_where_nothing_can_be_forgotten() {
    let Some(server) = Server::postgres() else { return };
    let (Server::Postgres { url, .. }, Some((database, name))) = (&server, database(&server)) else {
        unreachable!()
    };
    let open = || postgres::Postgres::new(url, "limits.shared").unwrap();
    let first = open();
    assert_eq!(first.announce(Uuid::from_u128(1)).await.unwrap().0, 1);
    assert!(first.forget().await.is_ok());
    let failing = "CREATE OR REPLACE FUNCTION limits_forget_1(at_most int) RETURNS bigint LANGUAGE plpgsql AS \
                   $$ BEGIN RAISE EXCEPTION 'no'; END $$";
    assert!(database.sql(name, failing));
    let second = open();
    assert_eq!(second.announce(Uuid::from_u128(2)).await.unwrap().0, 2);
    assert!(second.forget().await.is_err());
}
