//! Tests of counters that gateways share, each on a real Redis and a real PostgreSQL; they report that they are skipped where there is
//! none.

use super::super::limit_set::LimitSet;
use super::super::tests::{facts, policy, priced, rate, usage, used};
use super::super::*;
use crate::net::outbound::redis_client::server::RedisServer;
use crate::store::tests::postgres_server;
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use words::config::secret::Secret;
use words::settings::OnStoreError;

mod generations;
mod leases;
mod store_calls;

const NONE: &[(&str, &str)] = &[];

/// A server of its own, which ends with the test.
enum Server {
    Redis(RedisServer),
    Postgres { server: postgres_server::Server, url: String },
}

impl Server {
    /// `None`, and a line: it is not installed.
    async fn redis() -> Option<Self> {
        RedisServer::start().await.map(Self::Redis)
    }

    fn postgres() -> Option<Self> {
        let server = postgres_server::Server::start()?;
        let url = server.new_database();
        Some(Self::Postgres { server, url })
    }

    /// Has it not respond, or end as in a crash.
    fn stop(&self) {
        match self {
            Self::Redis(server) => server.pause(),
            Self::Postgres { server, .. } => {
                // What is committed without a wait for the disk is on it then.
                assert!(server.sql("postgres", "CHECKPOINT"));
                server.kill();
            }
        }
    }

    fn resume(&self) {
        match self {
            Self::Redis(server) => server.resume(),
            Self::Postgres { server, .. } => server.run(),
        }
    }

    /// As if the time of all windows were over.
    async fn end_windows(&self) {
        match self {
            Self::Redis(server) => {
                let client = redis::Client::open(server.url()).unwrap();
                let mut connection = client.get_multiplexed_async_connection().await.unwrap();
                let buckets: Vec<String> =
                    redis::cmd("KEYS").arg("{turnpike}:b:*").query_async(&mut connection).await.unwrap();
                for bucket in buckets {
                    let mut end = redis::cmd("HSET");
                    end.arg(bucket).arg("w").arg(1).arg("e").arg(2);
                    end.query_async::<()>(&mut connection).await.unwrap();
                }
            }
            Self::Postgres { server, url } => {
                let database = url.rsplit('/').next().unwrap().split('?').next().unwrap();
                assert!(server.sql(database, "UPDATE limit_buckets SET window_start = 1, window_end = 2"));
            }
        }
    }

    fn options(&self) -> LimitsOptions {
        let shared = match self {
            Self::Redis(server) => CounterBackend::Redis(Secret::new(server.url())),
            Self::Postgres { url, .. } => CounterBackend::Postgres(Secret::new(url.clone())),
        };
        LimitsOptions { shared: Some(shared), ..LimitsOptions::default() }
    }

    fn gateway(&self) -> Limits {
        Limits::open(&self.options(), Timestamp::now()).unwrap()
    }
}

async fn on_each(test: impl AsyncFn(Server)) {
    if let Some(server) = Server::redis().await {
        test(server).await;
    }
    if let Some(server) = Server::postgres() {
        test(server).await;
    }
}

async fn reserve(
    limits: &Limits,
    set: &LimitSet,
    estimate: &Estimate<'_>,
) -> Result<Reservation, Box<Refusal>> {
    let facts = facts(&NONE);
    let selection = set.select(&facts, Phase::Request).unwrap();
    limits.reserve(&selection, estimate, None, Timestamp::now()).await
}

async fn view(limits: &Limits, limit: &Limit) -> (i64, i64) {
    limits.flush().await.unwrap();
    let views = limits.peek(limit, Timestamp::now()).await.unwrap();
    (views.iter().map(|view| view.spent).sum(), views.iter().map(|view| view.held).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_are_those_of_one_gateway() {
    on_each(the_rules_are_those_of_one_gateway_on).await;
}

async fn the_rules_are_those_of_one_gateway_on(server: Server) {
    let limits = server.gateway();
    let now = Timestamp::now;
    let soft = policy(1, usage(UsageOf::Cost, 100, Reset::Monthly));
    let set = LimitSet::new(vec![soft.clone()], limits.hash());
    let first = reserve(&limits, &set, &priced(60)).await.unwrap();
    let second = reserve(&limits, &set, &priced(60)).await.unwrap();
    assert_eq!(view(&limits, &soft).await, (0, 100));
    let refused = reserve(&limits, &set, &priced(1)).await.unwrap_err();
    assert_eq!((refused.cause, refused.held, refused.retry_after.as_secs()), (Cause::Reserved, 100, 1));
    first.settle(used(0, 50), now());
    second.settle(used(0, 70), now());
    assert_eq!(view(&limits, &soft).await, (120, 0));
    let refused = reserve(&limits, &set, &priced(1)).await.unwrap_err();
    assert_eq!((refused.cause, refused.spent), (Cause::Spent, 120));
    assert!(refused.reset_at.is_some());
    // All or nothing: what the second limit refuses, the first does not hold.
    let wide = policy(2, usage(UsageOf::Cost, 1_000, Reset::Never));
    let rated = policy(3, rate(RateOf::Requests, RateUnit::Week, 1));
    let set = LimitSet::new(vec![wide.clone(), rated.clone()], limits.hash());
    let one = reserve(&limits, &set, &priced(10)).await.unwrap();
    assert_eq!(one.tightest().requests.unwrap().remaining, 0);
    let refused = reserve(&limits, &set, &priced(10)).await.unwrap_err();
    assert_eq!((refused.cause, refused.all.len()), (Cause::Rate, 1));
    assert_eq!(view(&limits, &wide).await, (0, 10));
    one.release(now());
    assert_eq!((view(&limits, &wide).await, view(&limits, &rated).await), ((0, 0), (1, 0)));
    // Dropped: used as estimated.
    let set = LimitSet::new(vec![wide.clone()], limits.hash());
    drop(reserve(&limits, &set, &priced(10)).await.unwrap());
    assert_eq!(view(&limits, &wide).await, (10, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn hard_limits_fit_and_resets_begin_anew() {
    on_each(hard_limits_fit_and_resets_begin_anew_on).await;
}

async fn hard_limits_fit_and_resets_begin_anew_on(server: Server) {
    let limits = server.gateway();
    let kind =
        LimitKind::Usage { of: UsageOf::Cost, credit: 1_000, alert_at: Some(300), reset: Reset::Never };
    let limit = Limit { hard: true, fit: true, ..policy(1, kind) };
    let set = LimitSet::new(vec![limit.clone()], limits.hash());
    let cost_of = |output: u64| 100 + 10 * i64::try_from(output).unwrap();
    let estimate = Estimate {
        max_output_tokens: Some(500),
        cost: Some(200),
        max_cost: Some(cost_of(500)),
        cost_of: Some(&cost_of),
        ..Estimate::default()
    };
    // No choice can be bounded to less than a token.
    let many = Estimate { outputs: 91, ..estimate };
    assert_eq!(reserve(&limits, &set, &many).await.unwrap_err().cause, Cause::Spent);
    let first = reserve(&limits, &set, &estimate).await.unwrap();
    assert_eq!((first.fitted_output(), view(&limits, &limit).await), (Some(90), (0, 1_000)));
    assert_eq!(reserve(&limits, &set, &estimate).await.unwrap_err().cause, Cause::Reserved);
    first.settle(used(0, 400), Timestamp::now());
    assert_eq!(view(&limits, &limit).await, (400, 0));
    let unknown = Estimate { cost: None, max_cost: None, cost_of: None, ..estimate };
    assert_eq!(reserve(&limits, &set, &unknown).await.unwrap_err().cause, Cause::UnknownPrice);
    let held = reserve(&limits, &set, &priced(600)).await.unwrap();
    let entity = limits.usage(&limit, Timestamp::now()).await.unwrap().unwrap();
    assert_eq!((entity.spent, entity.held, entity.is_threshold_alert_sent), (400, 600, true));
    assert!(limits.reset(&limit, entity.entity, Timestamp::now()).await.unwrap());
    assert!(!limits.reset(&limit, Uuid::from_u128(1), Timestamp::now()).await.unwrap());
    assert_eq!(view(&limits, &limit).await, (0, 600));
    // Of the generation before: it counts for nobody.
    held.settle(used(0, 600), Timestamp::now());
    assert_eq!(view(&limits, &limit).await, (0, 0));
    reserve(&limits, &set, &priced(350)).await.unwrap().settle(used(0, 350), Timestamp::now());
    assert_eq!(view(&limits, &limit).await, (350, 0));
    let mut events = limits.events().unwrap();
    let kinds: Vec<_> =
        std::iter::from_fn(|| events.try_recv().ok()).map(|event| (event.kind, event.spent)).collect();
    assert_eq!(kinds, [(EventKind::Threshold, 400), (EventKind::Threshold, 350)]);
    // Another reset: the usage goes on.
    let monthly = Limit { kind: usage(UsageOf::Cost, 1_000, Reset::Monthly), ..limit.clone() };
    assert_eq!(view(&limits, &monthly).await, (350, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_gateways_never_exceed_a_hard_budget_and_use_it_up() {
    on_each(two_gateways_never_exceed_a_hard_budget_and_use_it_up_on).await;
}

async fn two_gateways_never_exceed_a_hard_budget_and_use_it_up_on(server: Server) {
    let limit = Limit { hard: true, ..policy(1, usage(UsageOf::Cost, 300_000, Reset::Never)) };
    let gateways = [Arc::new(server.gateway()), Arc::new(server.gateway())];
    let billed = Arc::new(AtomicI64::new(0));
    let mut clients = Vec::new();
    for number in 0..32_u64 {
        let limits = Arc::clone(&gateways[usize::from(number % 2 == 0)]);
        let limit = limit.clone();
        let billed = Arc::clone(&billed);
        clients.push(tokio::spawn(async move {
            let set = LimitSet::new(vec![limit], limits.hash());
            let mut random = fastrand::Rng::with_seed(number);
            loop {
                let most = random.i64(50..2_000);
                match reserve(&limits, &set, &priced(most)).await {
                    Ok(reservation) => {
                        let cost = random.i64(0..=most);
                        billed.fetch_add(cost, Ordering::Relaxed);
                        reservation.settle(used(1, cost), Timestamp::now());
                    }
                    Err(refusal) if refusal.cause == Cause::Reserved => tokio::task::yield_now().await,
                    Err(refusal) => {
                        assert_eq!(refusal.cause, Cause::Spent);
                        break;
                    }
                }
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    gateways[0].flush().await.unwrap();
    let (spent, held) = view(&gateways[1], &limit).await;
    assert_eq!((spent, held), (billed.load(Ordering::Relaxed), 0));
    assert!((285_000..=300_000).contains(&spent), "{spent}");
    assert!(!gateways[0].counts().is_store_failing);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_rates_are_parts_and_budgets_as_set() {
    on_each(while_the_store_is_away_rates_are_parts_and_budgets_as_set_on).await;
}

async fn while_the_store_is_away_rates_are_parts_and_budgets_as_set_on(server: Server) {
    let open = server.gateway();
    let closed = LimitsOptions { on_store_error: OnStoreError::Deny, ..server.options() };
    let closed = Limits::open(&closed, Timestamp::now()).unwrap();
    let budget = policy(1, usage(UsageOf::Cost, 100, Reset::Never));
    let requests = policy(2, rate(RateOf::Requests, RateUnit::Week, 4));
    let set = LimitSet::new(vec![budget.clone(), requests.clone()], open.hash());
    let before = reserve(&open, &set, &priced(10)).await.unwrap();
    for _ in 0..1_000 {
        if open.counts().gateways == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.stop();
    // Two gateways: each passes two.
    for _ in 0..2 {
        let passed = reserve(&open, &set, &priced(1_000)).await.unwrap();
        assert_eq!(passed.tightest(), Tightest::default(), "what is left is not what the headers would have");
        passed.settle(used(0, 5), Timestamp::now());
    }
    assert_eq!(reserve(&open, &set, &priced(1)).await.unwrap_err().cause, Cause::Rate);
    let refused = reserve(&closed, &set, &priced(1)).await.unwrap_err();
    assert_eq!((refused.cause, refused.limit.id), (Cause::Unavailable, budget.id));
    let hard = LimitSet::new(vec![Limit { hard: true, ..budget.clone() }], open.hash());
    assert_eq!(reserve(&open, &hard, &priced(1)).await.unwrap_err().cause, Cause::Unavailable);
    let counts = open.counts();
    assert!(counts.is_store_failing && counts.store_failures > 0);
    assert!(open.peek(&budget, Timestamp::now()).await.is_err());
    // What was reserved before is settled when the store is there again.
    before.settle(used(0, 7), Timestamp::now());
    server.resume();
    for _ in 0..1_000 {
        if open.flush().await.is_ok() && !open.counts().is_store_failing {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(view(&open, &budget).await, (7, 0));
    // It does not try the store again at once.
    let mut passed = reserve(&closed, &set, &priced(1)).await;
    for _ in 0..1_000 {
        if passed.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        passed = reserve(&closed, &set, &priced(1)).await;
    }
    assert_eq!(passed.unwrap().tightest().requests.unwrap().remaining, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_of_a_gateway_that_is_gone_expire() {
    on_each(holds_of_a_gateway_that_is_gone_expire_on).await;
}

async fn holds_of_a_gateway_that_is_gone_expire_on(server: Server) {
    let options = LimitsOptions { hold_lifetime: Duration::from_millis(100), ..server.options() };
    let limits = Limits::open(&options, Timestamp::now()).unwrap();
    let soft = policy(1, usage(UsageOf::Tokens, 100, Reset::Weekly));
    let hard = Limit { hard: true, ..policy(2, usage(UsageOf::Cost, 100, Reset::Weekly)) };
    let set = LimitSet::new(vec![soft.clone(), hard.clone()], limits.hash());
    let estimate = Estimate { input_tokens: 40, ..priced(30) };
    std::mem::forget(reserve(&limits, &set, &estimate).await.unwrap());
    let late = reserve(&limits, &set, &estimate).await.unwrap();
    for _ in 0..1_000 {
        if view(&limits, &soft).await == (0, 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(view(&limits, &hard).await, (60, 0), "the provider may have been paid");
    // It was only slow: what it used takes the place of what it held.
    late.settle(used(45, 20), Timestamp::now());
    assert_eq!((view(&limits, &soft).await, view(&limits, &hard).await), ((45, 0), (50, 0)));
    let view = limits.usage(&hard, Timestamp::now()).await.unwrap().unwrap();
    assert_eq!(view.unreconciled, 30);
}

/// The database that a server of PostgreSQL has for the test.
fn database(server: &Server) -> Option<(&postgres_server::Server, &str)> {
    match server {
        Server::Postgres { server, url } => {
            Some((server, url.rsplit('/').next().unwrap().split('?').next().unwrap()))
        }
        Server::Redis(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_chooses_harms_no_other() {
    on_each(what_a_client_chooses_harms_no_other_on).await;
}

async fn what_a_client_chooses_harms_no_other_on(server: Server) {
    let limits = server.gateway();
    let alert = LimitKind::Usage {
        of: UsageOf::Tokens,
        credit: i64::MAX,
        alert_at: Some(i64::MAX - 1),
        reset: Reset::Monthly,
    };
    let limit = Limit { group_by: vec![FactKey::parse("metadata._user").unwrap()], ..policy(1, alert) };
    let set = LimitSet::new(vec![limit.clone()], limits.hash());
    let huge = Estimate { input_tokens: u64::MAX, output_tokens: u64::MAX, ..Estimate::default() };
    for user in ["a\0b", "'; --", "\u{10ffff}"] {
        let metadata: &[(&str, &str)] = &[("_user", user)];
        let facts = facts(&metadata);
        let selection = set.select(&facts, Phase::Request).unwrap();
        let mut held = Vec::new();
        for estimate in [&Estimate { input_tokens: 5, ..Estimate::default() }, &huge] {
            held.push(limits.reserve(&selection, estimate, None, Timestamp::now()).await.unwrap());
        }
        for reservation in held.into_iter().rev() {
            reservation.settle(used(u64::MAX, 0), Timestamp::now());
        }
    }
    limits.flush().await.unwrap();
    let views = limits.peek(&limit, Timestamp::now()).await.unwrap();
    let mut keys: Vec<&str> = views.iter().map(|view| &*view.value_key).collect();
    keys.sort_unstable();
    let nul = if database(&server).is_some() { "metadata._user:a\u{fffd}b" } else { "metadata._user:a\0b" };
    let mut wanted = [nul, "metadata._user:'; --", "metadata._user:\u{10ffff}"];
    wanted.sort_unstable();
    assert_eq!(keys, wanted);
    assert!(views.iter().all(|view| view.held == 0 && view.spent > i64::MAX / 2), "{views:?}");
    assert_eq!(limits.counts().store_failures, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_with_too_many_buckets_has_one_for_the_rest() {
    on_each(a_limit_with_too_many_buckets_has_one_for_the_rest_on).await;
}

async fn a_limit_with_too_many_buckets_has_one_for_the_rest_on(server: Server) {
    let limits = server.gateway();
    let limit = policy(1, rate(RateOf::Requests, RateUnit::Week, 2));
    let limit = Limit { group_by: vec![FactKey::parse("metadata._user").unwrap()], ..limit };
    let set = LimitSet::new(vec![limit.clone()], limits.hash());
    let reserve = async |user: &str| {
        let metadata: &[(&str, &str)] = &[("_user", user)];
        let facts = facts(&metadata);
        let selection = set.select(&facts, Phase::Request).unwrap();
        limits.reserve(&selection, &priced(0), None, Timestamp::now()).await.map(drop)
    };
    reserve("first").await.unwrap();
    match (&server, database(&server)) {
        (_, Some((server, name))) => {
            assert!(server.sql(name, "UPDATE limit_counts SET buckets = 100000"));
        }
        (Server::Redis(server), _) => {
            let client = ::redis::Client::open(server.url()).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            let fill = "for i = 1, 9999 do redis.call('SADD', ARGV[1], ARGV[2] .. i) end";
            let fill = ::redis::Script::new(fill);
            let members = format!("{{turnpike}}:m:{}:0", limit.id);
            for part in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"] {
                fill.arg(&members).arg(part).invoke_async::<()>(&mut connection).await.unwrap();
            }
        }
        _ => unreachable!(),
    }
    reserve("first").await.unwrap();
    reserve("second").await.unwrap();
    reserve("third").await.unwrap();
    assert_eq!(reserve("fourth").await.unwrap_err().cause, Cause::Rate);
    assert_eq!(reserve("first").await.unwrap_err().cause, Cause::Rate);
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_of_long_ago_are_forgotten() {
    let Some(server) = Server::postgres() else { return };
    let limits = server.gateway();
    let weekly = policy(1, usage(UsageOf::Cost, 100, Reset::Weekly));
    let forever = policy(2, usage(UsageOf::Cost, 100, Reset::Never));
    let set = LimitSet::new(vec![weekly.clone(), forever.clone()], limits.hash());
    let late = reserve(&limits, &set, &priced(10)).await.unwrap();
    let (database, name) = database(&server).unwrap();
    let check = |condition: &str| {
        let text = format!("DO $$ BEGIN ASSERT ({condition}); END $$");
        assert!(database.sql(name, &text), "{condition}");
    };
    let forget = "SELECT limits_forget_1(10)";
    assert!(database.sql(name, forget));
    check("SELECT count(*) = 2 FROM limit_buckets");
    // Its window ended two days ago.
    let past = "UPDATE limit_buckets SET window_end = limits_clock_1() - 172800000 WHERE window_end > 0";
    assert!(database.sql(name, past) && database.sql(name, forget));
    check("SELECT count(*) = 1 FROM limit_buckets");
    check("SELECT count(*) = 1 FROM limit_holds");
    check("SELECT count(*) = 1 AND sum(buckets) = 1 FROM limit_counts");
    late.settle(used(0, 7), Timestamp::now());
    assert_eq!((view(&limits, &weekly).await, view(&limits, &forever).await), ((0, 0), (7, 0)));
    // The tables are made again if someone has removed them.
    for text in [
        "DROP TABLE limit_schema_history, limit_holds, limit_counts, limit_gateways",
        "DROP TABLE limit_buckets CASCADE",
    ] {
        assert!(database.sql(name, text));
    }
    let functions = "DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname LIKE 'limits\\_%' \
                     LOOP EXECUTE format('DROP FUNCTION %s', f); END LOOP; END $$";
    assert!(database.sql(name, functions));
    let mut outcome = reserve(&limits, &set, &priced(10)).await.map(drop);
    for _ in 0..100 {
        if view_if_there(&limits, &weekly).await == Some((10, 0)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        outcome = reserve(&limits, &set, &priced(10)).await.map(drop);
    }
    assert!(outcome.is_ok() && view_if_there(&limits, &weekly).await.is_some());
}

async fn view_if_there(limits: &Limits, limit: &Limit) -> Option<(i64, i64)> {
    limits.flush().await.ok()?;
    let views = limits.peek(limit, Timestamp::now()).await.ok()?;
    views.first().map(|view| (view.spent, view.held))
}

/// A budget that is evicted could be spent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_evicts_keys_is_noticed() {
    let policy = |name: &'static str| ["--maxmemory-policy", name];
    let secretive = ["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info", "-config"];
    for (arguments, wanted) in [
        (policy("allkeys-lfu").as_slice(), "evicted"),
        (policy("volatile-lru").as_slice(), "evicted"),
        (policy("noeviction").as_slice(), "kept"),
        (secretive.as_slice(), "unknown"),
    ] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let Some(server) = RedisServer::start_at(port, arguments).await else { return };
        let server = Server::Redis(server);
        let limits = server.gateway();
        let begin = std::time::Instant::now();
        while limits.counts().counters_kept != wanted
            || !limits.shared.as_ref().unwrap().inner.keeping.is_noted()
        {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "{arguments:?}: {}",
                limits.counts().counters_kept
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Such a window moves with each use, and a look at it is none.
#[tokio::test(flavor = "multi_thread")]
async fn buckets_begin_anew_when_they_are_idle() {
    on_each(buckets_begin_anew_when_they_are_idle_on).await;
}

async fn buckets_begin_anew_when_they_are_idle_on(server: Server) {
    let limits = server.gateway();
    let limit = policy(1, usage(UsageOf::Cost, 100, Reset::Idle { minutes: 1 }));
    let set = LimitSet::new(vec![limit.clone()], limits.hash());
    for _ in 0..6 {
        reserve(&limits, &set, &priced(10)).await.unwrap().settle(used(0, 10), Timestamp::now());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for _ in 0..2 {
        assert_eq!(view(&limits, &limit).await, (60, 0));
    }
    let shown = limits.peek(&limit, Timestamp::now()).await.unwrap();
    assert_eq!(shown[0].window.reset_at(), None);
    assert_eq!(limits.counts().leases, 0);
    server.end_windows().await;
    assert_eq!(view(&limits, &limit).await, (0, 0));
    reserve(&limits, &set, &priced(10)).await.unwrap().settle(used(0, 10), Timestamp::now());
    assert_eq!(view(&limits, &limit).await, (10, 0));
}
