//! Two machines as one, as docs/cluster.md sets them up: network namespaces with a gateway each, PostgreSQL, Redis and HAProxy, while
//! parts of it fail. The wall clock of the second machine is an hour ahead.
//!
//! Clients repeat a request that failed once, after a moment: nothing fails then, no budget is exceeded, no key is lost. What one gateway
//! shows of another is in `nodes`.

use crate::support::balancer::Balancer;
use crate::support::client::fresh_client;
use crate::support::emulator::Emulator;
use crate::support::machine::{Machine, isolate, run, wrong_clock};
use crate::support::postgres_server::Server;
use crate::support::redis_server::RedisServer;
use crate::support::settings::{KEY, OPERATOR_KEY};
use crate::support::wait::until;
use crate::support::{report, stores};
use parking_lot::Mutex;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Set in the process that is in a namespace of its own.
const MARK: &str = "TURNPIKE_TEST_CLUSTER";
const POSTGRES: u16 = 15432;
const REDIS: u16 = 16379;
const PROVIDER: u16 = 18790;
/// Requests between two things that happen: one or two seconds.
const PHASE: usize = 120;
/// Of a start, and of coming back.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const DATA: u16 = 8787;
const CONTROL: u16 = 8788;
/// What the key with the hard budget may do in each round, in requests.
const BUDGET: usize = 60;
/// How many of these a kill may lose: they are held then, and count as spent.
const LOST: usize = 6;
/// How long a client waits before it repeats a request. HAProxy and the gateways have noticed by then.
const RETRY_AFTER: Duration = Duration::from_millis(2500);

/// Runs itself again in a network namespace of its own.
#[test]
fn two_machines_fail_no_request_that_is_repeated_once() {
    if std::env::var_os(MARK).is_some() {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        return runtime.worker_threads(2).enable_all().build().unwrap().block_on(two_machines());
    }
    match isolate("cluster::two_machines_fail_no_request_that_is_repeated_once", MARK) {
        Err(why) => report(&format!("*** SKIPPED: docs/cluster.md was NOT tested: {why}")),
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(output.status.success(), "{text}");
            text.lines().filter_map(|line| Some(&line[line.find("cluster: ")?..])).for_each(report);
        }
    }
}

/// The machines, and what they use.
struct Cluster {
    machines: [Machine; 2],
    balancer: Balancer,
    postgres: Server,
    _redis: RedisServer,
    provider: Emulator,
    /// Has what is loaded by every process of the second machine.
    _clock: tempfile::TempDir,
    yaml: [String; 2],
}

impl Cluster {
    /// `None` where a program is not installed, which was reported.
    fn start() -> Option<Self> {
        let postgres = Server::start()?;
        let redis = RedisServer::start()?;
        let provider = Emulator::start(None);
        let folder = tempfile::tempdir().unwrap();
        let clock = wrong_clock(folder.path());
        if clock.is_none() {
            report("*** SKIPPED: the clock of a machine was NOT changed: there is no C compiler");
        }
        let machines = [Machine::new(1, None), Machine::new(2, clock)];
        let url = postgres.new_database();
        let database = url.rsplit('/').next().unwrap();
        // The servers of tests listen on loopback alone.
        let server_port = url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
        for (port, to) in [(POSTGRES, server_port), (REDIS, redis.port), (PROVIDER, provider.port)] {
            tokio::spawn(forward(port, to));
        }
        let yaml = [1, 2].map(|number| settings(number, database));
        for (machine, yaml) in machines.iter().zip(&yaml) {
            machine.start(yaml);
        }
        let addresses = [machines[0].address(DATA), machines[1].address(DATA)];
        let balancer = Balancer::of_cluster(&addresses)?;
        Some(Self { machines, balancer, postgres, _redis: redis, provider, _clock: folder, yaml })
    }

    /// A call of the control port of a machine.
    fn control(&self, machine: usize, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.machines[machine].address(CONTROL));
        fresh_client().request(method, url).header("x-gateway-api-key", OPERATOR_KEY)
    }

    /// What `/readyz?verbose` of a machine says, if it is ready.
    async fn ready(&self, machine: usize) -> Option<Value> {
        let response = self.control(machine, Method::GET, "/readyz?verbose").send().await.ok()?;
        (response.status() == 200).then_some(response.json().await.ok()?)
    }

    async fn until_ready(&self, machine: usize, source: &str) {
        let is_ready = async {
            while self.ready(machine).await.is_none_or(|shown| shown["config"]["source"] != source) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let in_time = tokio::time::timeout(START_TIMEOUT, is_ready).await;
        assert!(
            in_time.is_ok(),
            "machine {} is not ready with {source}\n{}",
            machine + 1,
            self.machines[machine].log()
        );
    }

    /// Makes a key at a machine; `None` where that was refused.
    async fn make_key(&self, machine: usize, more: &Value) -> Option<String> {
        let mut body = json!({"name": "made", "scopes": ["completions.write"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let call = self.control(machine, Method::POST, "/v1/api-keys/workspace/service").json(&body);
        let response = call.send().await.ok()?;
        let made: Value =
            if response.status().is_success() { response.json().await.ok()? } else { return None };
        Some(made["key"].as_str().unwrap().to_owned())
    }
}

fn settings(number: usize, database: &str) -> String {
    let store = format!("postgres://turnpike@10.232.{number}.1:{POSTGRES}/{database}");
    let store = stores::settings(&store, "");
    format!(
        "
server: {{node: machine-{number}, threads: 1, grace_period_seconds: 10, drain_delay_seconds: 2}}
listen:
  data: ['0.0.0.0:{DATA}']
  control: 0.0.0.0:{CONTROL}
  trusted_proxies: [10.231.{number}.1]
auth:
  keys:
    - {{name: tests, key: {KEY}}}
    - {{name: operator, key: {OPERATOR_KEY}, scopes: [administration]}}
limits: {{shared: 'redis://10.232.{number}.1:{REDIS}'}}
logs: {{enabled: false}}
providers:
  emulator: {{provider: openai, api_key: k, custom_host: 'http://10.231.{number}.1:{PROVIDER}/v1'}}
custom_hosts: {{allow_private: true}}
{store}"
    )
}

/// Passes connections to this port on every address on to a port of loopback.
async fn forward(port: u16, to: u16) {
    let listener = TcpListener::bind(("0.0.0.0", port)).await.unwrap();
    loop {
        let (mut from, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
            let _broken = tokio::io::copy_bidirectional(&mut from, &mut server).await;
        });
    }
}

/// What became of clients' calls.
#[derive(Default)]
struct Tally {
    stops: AtomicBool,
    served: AtomicUsize,
    repeated: AtomicUsize,
    /// What failed twice.
    failed: Mutex<Vec<String>>,
    /// Of the budget: calls that were served, and those that it refused.
    paid: AtomicUsize,
    refused: AtomicUsize,
}

/// One call: its status, and what failed.
async fn call(client: &Client, url: &str, key: &str, tag: Option<&str>) -> Result<u16, String> {
    let body =
        json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5});
    let call = client.post(url).json(&body).header("x-gateway-api-key", key);
    let call = call.header("x-gateway-provider", "@emulator");
    let call = tag.into_iter().fold(call, |call, tag| call.header("x-emulator-tag", tag));
    let response = call.send().await.map_err(|why| format!("{why:?}"))?;
    let status = response.status().as_u16();
    let body = response.text().await.map_err(|why| format!("{why:?}"))?;
    // 412 and 429 are what a budget says; all else is a failure.
    if matches!(status, 200 | 412 | 429) { Ok(status) } else { Err(format!("{status} {body}")) }
}

/// Calls one after the other, each repeated once where it fails.
async fn client(url: String, key: String, is_budget: bool, tally: Arc<Tally>) {
    let client = fresh_client();
    let tag = is_budget.then_some("budget");
    while !tally.stops.load(Ordering::Relaxed) {
        let mut outcome = call(&client, &url, &key, tag).await;
        if let Err(first) = &outcome {
            tally.repeated.fetch_add(1, Ordering::Relaxed);
            let first = first.clone();
            tokio::time::sleep(RETRY_AFTER).await;
            outcome =
                call(&client, &url, &key, tag).await.map_err(|second| format!("{first}\nthen {second}"));
        }
        match outcome {
            Ok(200) if is_budget => drop(tally.paid.fetch_add(1, Ordering::Relaxed)),
            Ok(200) => drop(tally.served.fetch_add(1, Ordering::Relaxed)),
            Ok(_) if is_budget => drop(tally.refused.fetch_add(1, Ordering::Relaxed)),
            Ok(status) => tally.failed.lock().push(status.to_string()),
            Err(why) => tally.failed.lock().push(why),
        }
        let pause = if is_budget { Duration::from_millis(400) } else { Duration::from_millis(20) };
        tokio::time::sleep(pause).await;
    }
}

/// Makes keys at both machines, one after the other, until it is to stop. Returns those that were acknowledged.
async fn key_maker(cluster: Arc<Cluster>, tally: Arc<Tally>) -> Vec<String> {
    let mut made = Vec::new();
    let mut machine = 0;
    while !tally.stops.load(Ordering::Relaxed) {
        made.extend(cluster.make_key(machine, &json!({})).await);
        machine = 1 - machine;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    made
}

impl Tally {
    /// Waits for this many more requests.
    async fn more(&self, count: usize) {
        let wanted = self.served.load(Ordering::Relaxed) + count;
        until("more requests to be served", async || {
            (self.served.load(Ordering::Relaxed) >= wanted).then_some(())
        })
        .await;
    }
}

/// Everything that happens to the cluster once. Clients call all the time.
async fn round(cluster: &Cluster, tally: &Tally) {
    let [first, second] = &cluster.machines;
    // A gateway is killed, and started again.
    tally.more(PHASE).await;
    first.stop("KILL");
    tally.more(PHASE).await;
    first.start(&cluster.yaml[0]);
    cluster.until_ready(0, "store").await;
    // The primary of the database is killed, and with it a gateway, which starts with its sealed copy and recovers alone.
    until("the sealed copy", async || first.has_sealed_copy().then_some(())).await;
    tally.more(PHASE).await;
    cluster.postgres.kill();
    tally.more(PHASE).await;
    first.stop("KILL");
    first.start(&cluster.yaml[0]);
    cluster.until_ready(0, "sealed_copy").await;
    assert_eq!(cluster.make_key(1, &json!({})).await, None, "without its database a key was acknowledged");
    tally.more(PHASE).await;
    cluster.postgres.run();
    cluster.until_ready(0, "store").await;
    cluster.until_ready(1, "store").await;
    // A gateway loses the network to both stores.
    second.set_store_link("down");
    until("the partition to be noticed", async || {
        (cluster.ready(1).await?["limits"]["available"] == false).then_some(())
    })
    .await;
    tally.more(2 * PHASE).await;
    second.set_store_link("up");
    cluster.until_ready(1, "store").await;
    until("counting again", async || (cluster.ready(1).await?["limits"]["available"] == true).then_some(()))
        .await;
    // A rolling upgrade: one takes the listeners over, the other is stopped and started.
    tally.more(PHASE).await;
    first.upgrade();
    cluster.until_ready(0, "store").await;
    second.stop("TERM");
    second.start(&cluster.yaml[1]);
    cluster.until_ready(1, "store").await;
    tally.more(PHASE).await;
}

async fn two_machines() {
    run("ip", &["link", "set", "lo", "up"]);
    let Some(cluster) = Cluster::start() else { return };
    let cluster = Arc::new(cluster);
    for machine in [0, 1] {
        cluster.until_ready(machine, "store").await;
    }
    let rounds = if std::env::var_os("TEST_ALL").is_some() { 6 } else { 1 };
    let budget = BUDGET * rounds;
    let hard =
        json!({"name": "hard", "usage_limits": {"credit_limit": budget, "type": "requests", "hard": true}});
    let budget_key = cluster.make_key(0, &hard).await.unwrap();
    let url = format!("http://127.0.0.1:{}/v1/chat/completions", cluster.balancer.port);
    until("the key at both machines, and both behind HAProxy", async || {
        for machine in &cluster.machines {
            let url = format!("http://{}/v1/chat/completions", machine.address(DATA));
            call(&fresh_client(), &url, KEY, None).await.ok().filter(|status| *status == 200)?;
        }
        call(&fresh_client(), &url, KEY, None).await.ok().filter(|status| *status == 200)
    })
    .await;
    let tally = Arc::new(Tally::default());
    let mut clients = Vec::new();
    for number in 0..6 {
        let is_budget = number >= 4;
        let key = if is_budget { budget_key.clone() } else { KEY.to_owned() };
        clients.push(tokio::spawn(client(url.clone(), key, is_budget, Arc::clone(&tally))));
    }
    let keys = tokio::spawn(key_maker(Arc::clone(&cluster), Arc::clone(&tally)));
    for _ in 0..rounds {
        round(&cluster, &tally).await;
    }
    tally.stops.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let keys = keys.await.unwrap();
    let failed = tally.failed.lock().clone();
    assert_eq!(failed, [""; 0], "failed twice");
    check_keys(&cluster, &keys).await;
    check_budget(&cluster, &tally, budget, rounds * LOST).await;
    check_clock(&cluster).await;
    report(&format!(
        "cluster: {} requests served, {} of them at the second try; {} paid and {} refused by the budget of {budget}; {} keys kept",
        tally.served.load(Ordering::Relaxed),
        tally.repeated.load(Ordering::Relaxed),
        tally.paid.load(Ordering::Relaxed),
        tally.refused.load(Ordering::Relaxed),
        keys.len(),
    ));
}

/// Every key that was acknowledged works at both machines.
async fn check_keys(cluster: &Cluster, keys: &[String]) {
    assert!(keys.len() > 5, "{keys:?}");
    let client = fresh_client();
    for machine in &cluster.machines {
        let url = format!("http://{}/v1/chat/completions", machine.address(DATA));
        for key in keys {
            until("the key", async || {
                call(&client, &url, key, None).await.ok().filter(|status| *status == 200)
            })
            .await;
        }
    }
}

/// What reached the provider is no more than the budget, and where it refused, nearly all of it.
async fn check_budget(cluster: &Cluster, tally: &Tally, budget: usize, lost: usize) {
    let bill = format!("http://127.0.0.1:{}/_emulator/requests?tag=budget&wait=10000", cluster.provider.port);
    let sent: Vec<Value> = fresh_client().get(bill).send().await.unwrap().json().await.unwrap();
    let paid = tally.paid.load(Ordering::Relaxed);
    assert!(
        sent.len() <= budget && paid <= sent.len(),
        "{} sent, {paid} served, {budget} allowed",
        sent.len()
    );
    let refused = tally.refused.load(Ordering::Relaxed);
    assert!(
        paid > budget / 4 && (refused == 0 || sent.len() + lost >= budget),
        "{} sent, {paid} served",
        sent.len()
    );
}

/// What operators see of the second machine's clock.
async fn check_clock(cluster: &Cluster) {
    let shown = until("both machines in the list", async || {
        let list: Value =
            cluster.control(0, Method::GET, "/v1/nodes").send().await.ok()?.json().await.ok()?;
        let serving = list["data"].as_array()?.iter().filter(|node| node["status"] == "serving").count();
        (serving == 2).then_some(list)
    })
    .await;
    for node in shown["data"].as_array().unwrap().iter().filter(|node| node["status"] == "serving") {
        let ahead = node["clock_ahead_seconds"].as_f64().unwrap();
        let wanted =
            if node["name"] == "machine-2" && cluster.machines[1].has_wrong_clock() { 3600.0 } else { 0.0 };
        assert!((ahead - wanted).abs() < 10.0, "{node}");
    }
}
