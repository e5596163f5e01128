//! Leases over counters on a real Redis and a real PostgreSQL: what several gateways pass together, and what becomes of a lease when
//! something else happens.

use super::*;
use parking_lot::Mutex;

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain for {what}");
}

/// Passes one request that uses what was estimated.
async fn pass(limits: &Limits, set: &LimitSet, estimate: &Estimate<'_>) -> Result<(), Box<Refusal>> {
    let actual = used(estimate.input_tokens, estimate.cost.unwrap_or(0));
    reserve(limits, set, estimate).await.map(|held| held.settle(actual, Timestamp::now()))
}

/// Passes requests until leases serve them. Returns how many there were.
async fn warm_up(limits: &Limits, set: &LimitSet, estimate: &Estimate<'_>) -> i64 {
    let before = limits.counts().served_by_leases;
    let mut passed = 0;
    until("a lease", async || {
        pass(limits, set, estimate).await.unwrap();
        passed += 1;
        limits.counts().served_by_leases > before
    })
    .await;
    passed
}

/// Has clients of each gateway send requests of this cost until `limit` was passed by all together, or it is spent. Returns what
/// passed.
async fn use_up(gateways: &[Arc<Limits>], limit: &Limit, cost: i64) -> i64 {
    let passed = Arc::new(AtomicI64::new(0));
    let mut clients = Vec::new();
    for limits in gateways.iter().cycle().take(gateways.len() * 6) {
        let limits = Arc::clone(limits);
        let limit = limit.clone();
        let passed = Arc::clone(&passed);
        clients.push(tokio::spawn(async move {
            let set = LimitSet::new(vec![limit.clone()], limits.hash());
            let is_over = || passed.load(Ordering::Relaxed) >= limit.value();
            while !is_over() {
                match pass(&limits, &set, &priced(cost)).await {
                    Ok(()) => {
                        passed.fetch_add(if limit.is_cost() { cost } else { 1 }, Ordering::Relaxed);
                    }
                    // Another gateway has the rest, for two seconds at most.
                    Err(refusal) if refusal.cause != Cause::Spent => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Err(_) => return,
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    passed.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_gateways_pass_all_of_a_rate_and_no_more() {
    on_each(async |server: Server| {
        let limit = policy(1, rate(RateOf::Requests, RateUnit::Week, 6_000));
        let gateways = [Arc::new(server.gateway()), Arc::new(server.gateway())];
        assert_eq!(use_up(&gateways, &limit, 0).await, 6_000);
        for limits in &gateways {
            assert!(limits.counts().served_by_leases > 0);
            let set = LimitSet::new(vec![limit.clone()], limits.hash());
            assert_eq!(reserve(limits, &set, &priced(0)).await.unwrap_err().cause, Cause::Rate);
            limits.flush().await.unwrap();
            assert_eq!(limits.counts().leases, 0);
        }
        assert_eq!(view(&gateways[0], &limit).await, (6_000, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_gateways_exceed_a_soft_budget_by_one_request_at_most() {
    on_each(async |server: Server| {
        let limit = policy(1, usage(UsageOf::Cost, 60_007, Reset::Never));
        let gateways = [Arc::new(server.gateway()), Arc::new(server.gateway())];
        let passed = use_up(&gateways, &limit, 10).await;
        assert!((60_007..60_017).contains(&passed), "{passed}");
        gateways[0].flush().await.unwrap();
        assert_eq!(view(&gateways[1], &limit).await, (passed, 0));
        assert!(gateways.iter().all(|limits| limits.counts().served_by_leases > 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_never_promise_more_than_is_left() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let limit = policy(1, rate(RateOf::Requests, RateUnit::Week, 5_000));
        let set = LimitSet::new(vec![limit], limits.hash());
        for passed in 1..=400 {
            let held = reserve(&limits, &set, &priced(0)).await.unwrap();
            let shown = held.tightest().requests.unwrap();
            // What is borrowed at this moment may be missing from it.
            let left = 5_000 - passed;
            assert!((left - 200..=left).contains(&shown.remaining), "{shown:?} {left}");
            held.settle(used(0, 0), Timestamp::now());
        }
        until("a lease", async || {
            reserve(&limits, &set, &priced(0)).await.unwrap().settle(used(0, 0), Timestamp::now());
            limits.counts().served_by_leases > 0
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_refuses_takes_nothing_from_leases() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let soft = policy(1, rate(RateOf::Requests, RateUnit::Week, 100_000));
        let hard = Limit { hard: true, ..policy(2, usage(UsageOf::Cost, 10, Reset::Never)) };
        let alone = LimitSet::new(vec![soft.clone()], limits.hash());
        let both = LimitSet::new(vec![soft.clone(), hard.clone()], limits.hash());
        let mut passed = warm_up(&limits, &alone, &priced(1)).await;
        // A part from a lease, and a part from the store.
        for _ in 0..10 {
            pass(&limits, &both, &priced(1)).await.unwrap();
        }
        passed += 10;
        until("the hard budget to be settled", async || {
            pass(&limits, &both, &priced(1)).await.unwrap_err().cause == Cause::Spent
        })
        .await;
        passed += warm_up(&limits, &alone, &priced(1)).await;
        for _ in 0..30 {
            assert_eq!(pass(&limits, &both, &priced(1)).await.unwrap_err().cause, Cause::Spent);
        }
        assert_eq!((view(&limits, &soft).await, view(&limits, &hard).await), ((passed, 0), (10, 0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_with_an_edit_and_a_reset() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let budget = policy(1, usage(UsageOf::Requests, 100_000, Reset::Monthly));
        let set = LimitSet::new(vec![budget.clone()], limits.hash());
        let passed = warm_up(&limits, &set, &priced(0)).await;
        // Lowered to what was used: nothing passes any more, whatever was lent.
        let kind = usage(UsageOf::Requests, passed, Reset::Monthly);
        let lowered = Limit { kind, ..budget.clone() };
        let low = LimitSet::new(vec![lowered.clone()], limits.hash());
        until("what was used to be settled", async || {
            pass(&limits, &low, &priced(0)).await.unwrap_err().cause == Cause::Spent
        })
        .await;
        assert_eq!(view(&limits, &lowered).await, (passed, 0));
        // Raised again, with a reset of the limit.
        let anew = Limit { generation: 1, ..budget.clone() };
        let set = LimitSet::new(vec![anew.clone()], limits.hash());
        let passed = warm_up(&limits, &set, &priced(0)).await;
        assert_eq!(view(&limits, &anew).await, (passed, 0));
        warm_up(&limits, &set, &priced(0)).await;
        let late = reserve(&limits, &set, &priced(0)).await.unwrap();
        let entity = limits.usage(&anew, Timestamp::now()).await.unwrap().unwrap().entity;
        assert!(limits.reset(&anew, entity, Timestamp::now()).await.unwrap());
        // A lease that was on its way at the reset is shown as held until it has arrived.
        until("the reset to be shown", async || view(&limits, &anew).await == (0, 1)).await;
        late.settle(used(0, 0), Timestamp::now());
        until("the hold of the time before to end", async || view(&limits, &anew).await == (0, 0)).await;
        let passed = warm_up(&limits, &set, &priced(0)).await;
        assert_eq!(view(&limits, &anew).await, (passed, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_lease_goes_back_and_one_of_a_gateway_that_is_gone_expires() {
    on_each(async |server: Server| {
        let other = server.gateway();
        let limits = server.gateway();
        let budget = policy(1, usage(UsageOf::Requests, 100_000, Reset::Monthly));
        let set = LimitSet::new(vec![budget.clone()], limits.hash());
        let passed = warm_up(&limits, &set, &priced(0)).await;
        assert_eq!(limits.counts().leases, 1);
        until("the lease to be returned", async || limits.counts().leases == 0).await;
        assert_eq!(view(&other, &budget).await, (passed, 0));
        let options = LimitsOptions { hold_lifetime: Duration::from_millis(1_500), ..server.options() };
        let killed = Limits::open(&options, Timestamp::now()).unwrap();
        warm_up(&killed, &set, &priced(0)).await;
        std::mem::forget(reserve(&killed, &set, &priced(0)).await.unwrap());
        // It settles nothing any more.
        drop(killed);
        until("its holds to expire", async || view(&other, &budget).await.1 == 0).await;
        assert!(view(&other, &budget).await.0 >= passed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_of_leased_buckets_come_once() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let kind =
            LimitKind::Usage { of: UsageOf::Requests, credit: 400, alert_at: Some(300), reset: Reset::Never };
        let set = LimitSet::new(vec![policy(1, kind)], limits.hash());
        let mut events = limits.events().unwrap();
        let all = Mutex::new(Vec::new());
        until("the budget to be spent", async || {
            let outcome = pass(&limits, &set, &priced(0)).await;
            all.lock().extend(std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.kind));
            outcome.is_err_and(|refusal| refusal.cause == Cause::Spent)
        })
        .await;
        limits.flush().await.unwrap();
        all.lock().extend(std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.kind));
        assert_eq!(*all.lock(), [EventKind::Threshold, EventKind::Exhausted]);
        assert!(limits.counts().served_by_leases > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_turned_off_and_hard_limits_have_none() {
    on_each(async |server: Server| {
        let options = LimitsOptions { leases: false, ..server.options() };
        let off = Limits::open(&options, Timestamp::now()).unwrap();
        let on = server.gateway();
        let soft = policy(1, usage(UsageOf::Requests, 100_000, Reset::Monthly));
        let hard = Limit { hard: true, ..policy(2, usage(UsageOf::Requests, 100_000, Reset::Monthly)) };
        let of_soft = LimitSet::new(vec![soft.clone()], on.hash());
        let of_hard = LimitSet::new(vec![hard], on.hash());
        for _ in 0..40 {
            pass(&off, &of_soft, &priced(0)).await.unwrap();
            pass(&on, &of_hard, &priced(0)).await.unwrap();
        }
        let passed = 40 + warm_up(&on, &of_soft, &priced(0)).await;
        assert_eq!((off.counts().served_by_leases, off.counts().leases), (0, 0));
        assert_eq!(on.counts().leases, 1, "that of the soft one");
        assert_eq!((view(&off, &soft).await.0 <= passed, view(&on, &soft).await), (true, (passed, 0)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_of_a_lease_is_settled_when_the_store_is_back() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let requests = policy(1, rate(RateOf::Requests, RateUnit::Week, 100_000));
        let set = LimitSet::new(vec![requests.clone()], limits.hash());
        let mut passed = warm_up(&limits, &set, &priced(0)).await;
        server.stop();
        // Leases are not used for longer than it takes to notice, and then not at all.
        until("the store to be missed", async || {
            if reserve(&limits, &set, &priced(0)).await.unwrap().tightest().requests.is_some() {
                passed += 1;
            }
            limits.counts().is_store_failing
        })
        .await;
        let served = limits.counts().served_by_leases;
        let held = reserve(&limits, &set, &priced(0)).await.unwrap();
        assert_eq!((held.tightest(), limits.counts().served_by_leases), (Tightest::default(), served));
        server.resume();
        until("the store to be back", async || {
            limits.flush().await.is_ok() && !limits.counts().is_store_failing
        })
        .await;
        let (spent, held) = view(&limits, &requests).await;
        match server {
            Server::Redis(_) => assert_eq!((spent, held), (passed, 0)),
            // A crash forgets what was committed in its last second.
            Server::Postgres { .. } => assert!(spent <= passed, "{spent} {passed}"),
        }
    })
    .await;
}

/// Has the store lose all holds, as a crash does with those that were not on the disk.
async fn lose_holds(server: &Server, entity: Uuid) {
    match (server, database(server)) {
        (_, Some((database, name))) => {
            let text = "UPDATE limit_buckets SET held = 0, next_expiry = NULL; DELETE FROM limit_holds";
            assert!(database.sql(name, text));
        }
        (Server::Redis(server), _) => {
            let client = ::redis::Client::open(server.url()).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            let lose = ::redis::Script::new(
                "redis.call('DEL', '{turnpike}:h:' .. ARGV[1]) redis.call('HSET', '{turnpike}:b:' .. ARGV[1], 'h', 0)",
            );
            lose.arg(entity.simple().to_string()).invoke_async::<()>(&mut connection).await.unwrap();
        }
        _ => unreachable!(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_under_way_count_also_where_the_store_has_lost_their_lease() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let budget = policy(1, usage(UsageOf::Requests, 100_000, Reset::Monthly));
        let set = LimitSet::new(vec![budget.clone()], limits.hash());
        let mut passed = warm_up(&limits, &set, &priced(0)).await;
        let entity = limits.usage(&budget, Timestamp::now()).await.unwrap().unwrap().entity;
        let mut under_way = Vec::new();
        until("a request with a lease", async || {
            let served = limits.counts().served_by_leases;
            let held = reserve(&limits, &set, &priced(0)).await.unwrap();
            let is_leased = limits.counts().served_by_leases > served;
            if is_leased {
                under_way.push(held);
            } else {
                held.settle(used(0, 0), Timestamp::now());
                passed += 1;
            }
            is_leased
        })
        .await;
        lose_holds(&server, entity).await;
        assert_eq!(view(&limits, &budget).await.1, 1);
        under_way.into_iter().for_each(|held| held.settle(used(0, 0), Timestamp::now()));
        assert_eq!(view(&limits, &budget).await, (passed + 1, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_counts_beyond_budgets() {
    on_each(async |server: Server| {
        let limits = server.gateway();
        let soft = policy(1, usage(UsageOf::Cost, 100, Reset::Monthly));
        let hard = Limit { hard: true, ..policy(2, usage(UsageOf::Cost, 100, Reset::Monthly)) };
        let set = LimitSet::new(vec![soft.clone(), hard.clone()], limits.hash());
        let mut events = limits.events().unwrap();
        for spent in [60, 120, 180, 240] {
            let held = reserve(&limits, &set, &Estimate { is_made: true, ..priced(60) }).await.unwrap();
            assert_eq!(view(&limits, &soft).await, (spent - 60, 60));
            held.settle(used(1, 60), Timestamp::now());
            assert_eq!((view(&limits, &soft).await, view(&limits, &hard).await), ((spent, 0), (spent, 0)));
        }
        // Neither a price nor a bound.
        let unpriced = Estimate { is_made: true, ..Estimate::default() };
        reserve(&limits, &set, &unpriced).await.unwrap().settle(used(1, 7), Timestamp::now());
        assert_eq!((view(&limits, &soft).await, view(&limits, &hard).await), ((247, 0), (247, 0)));
        assert_eq!(reserve(&limits, &set, &priced(1)).await.unwrap_err().cause, Cause::Spent);
        let exhausted: Vec<_> =
            std::iter::from_fn(|| events.try_recv().ok()).map(|event| (event.kind, event.limit.id)).collect();
        assert_eq!(exhausted.len(), 2, "once for each: {exhausted:?}");
        // While the store is away it passes uncounted, also where nothing else does.
        let closed = LimitsOptions { on_store_error: OnStoreError::Deny, ..server.options() };
        let closed = Limits::open(&closed, Timestamp::now()).unwrap();
        server.stop();
        let made = Estimate { is_made: true, ..priced(60) };
        assert!(reserve(&closed, &set, &made).await.unwrap().is_empty());
        assert_eq!(reserve(&closed, &set, &priced(60)).await.unwrap_err().cause, Cause::Unavailable);
        server.resume();
    })
    .await;
}
