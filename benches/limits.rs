//! `cargo bench --bench limits`: what limits cost a request, two threads on one hot bucket, and the memory of many buckets.
//!
//! With `LIMITS_SHARED=redis://...` or `postgres://...` (several with commas): also reservations a second of shared counters.
//! Not here: the gateway as a whole (`load`).

mod timer;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use memory::limits::{
    Actual, Calendar, CounterBackend, Estimate, FactKey, Facts, Id, Limit, LimitKind, LimitScope, LimitSet,
    Limits, LimitsOptions, Phase, RateOf, RateUnit, Reset, UsageOf,
};
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use timer::Timer;
use uuid::Uuid;
use words::config::secret::Secret;

static MEMBERS: &[(&str, &str)] = &[("_user", "ann"), ("team", "search")];
/// Requests of each thread.
const TIMES: u32 = 400_000;
const LIVE: usize = 100_000;

fn main() {
    let timer = Timer::start();
    let now = Timestamp::now();
    for (name, limits) in [
        ("nothing in force", Vec::new()),
        ("one budget", vec![budget(1)]),
        ("two rates and a budget, of the user", by_user(vec![requests(2), tokens(3), budget(1)])),
        ("two rates and a budget, of all", vec![requests(2), tokens(3), budget(1)]),
    ] {
        let counters = Limits::in_memory(Calendar::default());
        let set = LimitSet::new(limits, counters.hash());
        timer.row(&format!("a request, {name}"), || request(&counters, &set, now));
    }
    hot_bucket(now);
    memory(now);
    for url in std::env::var("LIMITS_SHARED").unwrap_or_default().split(',').filter(|url| !url.is_empty()) {
        for leases in [false, true] {
            shared(url, leases);
        }
    }
}

fn limit(id: u128, kind: LimitKind) -> Limit {
    Limit::new(Uuid::from_u128(id), LimitScope::Policy, kind)
}

fn budget(id: u128) -> Limit {
    limit(id, LimitKind::Usage { of: UsageOf::Cost, credit: i64::MAX, alert_at: None, reset: Reset::Monthly })
}

fn requests(id: u128) -> Limit {
    limit(id, LimitKind::Rate { of: RateOf::Requests, unit: RateUnit::Minute, value: i64::MAX })
}

fn tokens(id: u128) -> Limit {
    limit(id, LimitKind::Rate { of: RateOf::Tokens, unit: RateUnit::Minute, value: i64::MAX })
}

fn by_user(limits: Vec<Limit>) -> Vec<Limit> {
    let group_by = vec![FactKey::Metadata("_user".into())];
    limits.into_iter().map(|limit| Limit { group_by: group_by.clone(), ..limit }).collect()
}

/// Selects, reserves and settles.
fn request(counters: &Limits, set: &LimitSet, now: Timestamp) -> bool {
    reserve(counters, set, &facts_of_all(), now)
}

fn facts_of_all() -> Facts<'static> {
    Facts {
        organisation: None,
        workspace: Some(Uuid::from_u128(7)),
        api_key: Some(Id::Record(Uuid::from_u128(8))),
        config: None,
        prompt: None,
        endpoint_type: Some("chatComplete"),
        metadata: &MEMBERS,
        target: None,
    }
}

fn reserve(counters: &Limits, set: &LimitSet, facts: &Facts<'_>, now: Timestamp) -> bool {
    let estimate =
        Estimate { input_tokens: 100, output_tokens: 50, cost: Some(75_000), ..Estimate::default() };
    let Ok(selection) = set.select(black_box(facts), Phase::Request) else { return false };
    match counters.reserve(&selection, &estimate, None, now).now_or_never() {
        Some(Ok(reservation)) => {
            reservation.settle(Actual { requests: 1, tokens: Some(120), cost: Some(60_000) }, now);
            true
        }
        _ => false,
    }
}

/// One bucket of each limit, used by one thread and by two.
fn hot_bucket(now: Timestamp) {
    print("\n| one hot bucket of each of three limits | requests a second |\n|---|---:|");
    let run = |threads: usize| {
        let counters = Limits::in_memory(Calendar::default());
        let set = LimitSet::new(vec![requests(2), tokens(3), budget(1)], counters.hash());
        let gate = Barrier::new(threads + 1);
        let began = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    gate.wait();
                    (0..TIMES).for_each(|_| assert!(request(&counters, &set, now)));
                });
            }
            gate.wait();
            Instant::now()
        });
        f64::from(TIMES) * threads as f64 / began.elapsed().as_secs_f64()
    };
    for threads in [1, 2] {
        let mut runs: Vec<f64> = (0..5).map(|_| run(threads)).collect();
        runs.sort_unstable_by(f64::total_cmp);
        print(&format!("| {threads} threads | {:.0} |", runs.get(2).copied().unwrap_or_default()));
    }
}

/// What so many live buckets take, each of another user.
fn memory(now: Timestamp) {
    let counters = Limits::in_memory(Calendar::default());
    let set = LimitSet::new(by_user(vec![budget(1)]), counters.hash());
    let before = resident();
    for user in 0..LIVE {
        let user = format!("user-{user:08}@example.com");
        let members = [("_user", user.as_str())];
        let metadata = members.as_slice();
        let facts = Facts {
            organisation: None,
            workspace: None,
            api_key: None,
            config: None,
            prompt: None,
            endpoint_type: None,
            metadata: &metadata,
            target: None,
        };
        assert!(reserve(&counters, &set, &facts, now));
    }
    assert_eq!(counters.counts().live_buckets, LIVE);
    let taken = resident().saturating_sub(before);
    print(&format!(
        "\n{LIVE} live buckets: {:.1} MiB, {} bytes each",
        taken as f64 / 1_048_576.0,
        taken / LIVE
    ));
}

/// How many requests a second the counters at this URL make and settle, for so many at the same time, without leases or with them.
fn shared(url: &str, leases: bool) {
    let secret = Secret::new(url);
    let backend = if url.starts_with("redis") {
        CounterBackend::Redis(secret)
    } else {
        CounterBackend::Postgres(secret)
    };
    let options = LimitsOptions { shared: Some(backend), leases, ..LimitsOptions::default() };
    let Ok(counters) = Limits::open(&options, Timestamp::now()) else {
        return print("the URL cannot be read");
    };
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return };
    let scheme = url.split(':').next().unwrap_or_default();
    let with = if leases { "with leases" } else { "without leases" };
    print(&format!(
        "\n| {scheme}, a budget and a rate of requests, {with} | at once | requests a second |\n|---|---:|---:|"
    ));
    let unique = Uuid::now_v7().as_u128();
    for (name, limits) in [
        ("one bucket of each", vec![requests(unique), budget(unique + 1)]),
        ("a bucket of each for each user", by_user(vec![requests(unique + 2), budget(unique + 3)])),
    ] {
        let set = LimitSet::new(limits, counters.hash());
        for tasks in [1_usize, 16, 256] {
            let (begin, length) = (Instant::now(), Duration::from_secs(3));
            let one = async |user: usize| {
                let user = format!("user-{user}");
                let members = [("_user", user.as_str())];
                let mut count = 0_u32;
                while begin.elapsed() < length {
                    let metadata = members.as_slice();
                    let facts = Facts { metadata: &metadata, ..facts_of_all() };
                    let Ok(selection) = set.select(&facts, Phase::Request) else { break };
                    let estimate = Estimate { cost: Some(75_000), ..Estimate::default() };
                    let now = Timestamp::now();
                    match counters.reserve(&selection, &estimate, None, now).await {
                        Ok(held) => {
                            held.settle(Actual { requests: 1, tokens: Some(1), cost: Some(60_000) }, now);
                        }
                        Err(refusal) => print(&format!("refused: {:?}", refusal.cause)),
                    }
                    count += 1;
                }
                count
            };
            let counts = runtime.block_on(async {
                let counts = futures_util::future::join_all((0..tasks).map(one)).await;
                counters.flush().await.ok();
                counts
            });
            let all: u32 = counts.into_iter().sum();
            print(&format!("| {name} | {tasks} | {:.0} |", f64::from(all) / begin.elapsed().as_secs_f64()));
        }
    }
}

/// Bytes of memory that the process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

fn print(line: &str) {
    // A closed pipe does not fail the bench.
    let _ = writeln!(std::io::stdout(), "{line}");
}
