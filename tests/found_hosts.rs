//! Hosts of a provider that come and go (`discover`): found in a file and in DNS, chosen among, tried one after the other.
//!
//! What a file may have (`memory::state::discovered_hosts`) and the records of services (`memory::net::outbound::dns`) are unit-tested.

use crate::support::client::{client, hello, new_trace};
use crate::support::command::check;
use crate::support::gateway::Gateway;
use crate::support::message::Message;
use crate::support::provider::{Provider, chat_completion};
use crate::support::settings::KEY;
use crate::support::wait::until;
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What an engine does now: its status, and how many requests its metrics say are running.
type State = Arc<Mutex<(u16, u32)>>;

async fn engine(state: &State) -> Provider {
    let state = Arc::clone(state);
    Provider::start(move |request: &Message| {
        let (status, running) = *state.lock();
        let (status, body) = match request.start.starts_with("GET /metrics ") {
            true => (200, format!("vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n")),
            false if status == 200 => (200, chat_completion()),
            false => (status, json!({"error": {"message": "no", "type": "x"}}).to_string()),
        };
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    })
    .await
}

/// `127.0.0.1:PORT` of a provider.
fn host(provider: &Provider) -> String {
    let base = provider.base_url();
    base.trim_start_matches("http://").split('/').next().unwrap().to_owned()
}

fn settings(discover: &str, custom_host: &str) -> String {
    format!(
        "auth:\n  keys:\n    - {{name: tests, key: {KEY}}}\n    - {{name: operator, key: tp-operator-0123456789, scopes: [administration]}}\n\
         providers:\n  engines: {{provider: vllm, api_key: k, custom_host: '{custom_host}', engine: {{interval_ms: 200}}, discover: {discover}}}\n  \
         cloud: {{provider: openai, api_key: sk-emulator-0123456789, custom_host: 'http://127.0.0.1:EMULATOR_PORT/v1'}}\n"
    )
}

/// Another file in its place, so that no half of it is read.
fn write(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

fn call(gateway: &Gateway, config: &Value) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string()).json(&hello(false))
}

fn index(response: &Response) -> String {
    assert_eq!(response.status(), 200);
    response.headers()["x-gateway-last-used-option-index"].to_str().unwrap().to_owned()
}

async fn count(gateway: &Gateway, wanted: f64) {
    let series = r#"turnpike_provider_hosts{provider="engines"}"#;
    until("the hosts to be found", async || (gateway.metric(series).await == Some(wanted)).then_some(()))
        .await;
}

/// The targets of some requests.
async fn used(gateway: &Gateway, config: &Value) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for _ in 0..12 {
        used.insert(index(&call(gateway, config).send().await.unwrap()));
    }
    used
}

#[tokio::test]
async fn hosts_of_a_file_are_used_as_it_changes() {
    let states = [State::new(Mutex::new((200, 0))), State::new(Mutex::new((200, 0)))];
    let engines = [engine(&states[0]).await, engine(&states[1]).await];
    let [one, two] = [host(&engines[0]), host(&engines[1])];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engines");
    write(&file, &format!("# one of them\n{one}\n"));
    let discover = format!("{{file: '{}', interval_ms: 500, by: weight}}", file.display());
    let gateway = Gateway::start(&settings(&discover, "http://engines.invalid:8000/v1"));
    count(&gateway, 1.0).await;
    let alone = json!({"provider": "@engines"});
    let at = |path: &str, host: &str| format!("{path}.hosts[{host}]");
    assert_eq!(used(&gateway, &alone).await, BTreeSet::from([at("config", &one)]));

    // Another one, as Prometheus has it; and a line that is no host changes nothing.
    write(&file, &json!([{"targets": [one, two], "labels": {"rack": "1"}}]).to_string());
    count(&gateway, 2.0).await;
    assert_eq!(used(&gateway, &alone).await, BTreeSet::from([at("config", &one), at("config", &two)]));
    write(&file, "http://no.host/\n");
    until("what is wrong", async || gateway.log().contains("is not HOST or HOST:PORT").then_some(())).await;
    assert_eq!(used(&gateway, &alone).await.len(), 2);

    // In a load balance they stand in the target's place, in a fallback they come before the next one.
    let balance = json!({"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "@engines", "weight": 1}, {"provider": "@cloud", "weight": 0}]});
    let wanted = [at("config.targets[0]", &one), at("config.targets[0]", &two)];
    assert_eq!(used(&gateway, &balance).await, BTreeSet::from(wanted.clone()));
    let fallback = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@engines"}, {"provider": "@cloud"}]});
    assert_eq!(used(&gateway, &fallback).await, BTreeSet::from(wanted.clone()));
    states[0].lock().0 = 500;
    assert_eq!(used(&gateway, &fallback).await, BTreeSet::from([wanted[1].clone()]));
    assert_eq!(used(&gateway, &alone).await, BTreeSet::from([at("config", &two)]), "a host that fails");
    states[0].lock().0 = 400;
    let mut statuses = BTreeSet::new();
    for _ in 0..12 {
        statuses.insert(call(&gateway, &alone).send().await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, BTreeSet::from([200, 400]), "what a client has done wrong is tried once");
    states[0].lock().0 = 500;
    states[1].lock().0 = 503;
    assert_eq!(used(&gateway, &fallback).await, BTreeSet::from(["config.targets[1]".to_owned()]));
    states.iter().for_each(|state| state.lock().0 = 200);

    // One of them is drained; the log and sums know the provider.
    let drain = format!("/v1/providers/engines@{one}/drain");
    let drained = gateway.control(Method::POST, &drain).json(&json!({})).send().await.unwrap();
    assert_eq!(drained.status(), 200, "{}", drained.text().await.unwrap());
    assert_eq!(used(&gateway, &alone).await, BTreeSet::from([at("config", &two)]));
    let unknown = gateway.control(Method::POST, "/v1/providers/engines@gone:1/drain").json(&json!({}));
    assert_eq!(unknown.send().await.unwrap().status(), 404);
    let trace = new_trace();
    call(&gateway, &alone).header("x-gateway-trace-id", &trace).send().await.unwrap();
    let logged = async || {
        let found = gateway.read(&format!("/v1/logs?trace_id={trace}")).await;
        (found["total"] == 1).then(|| found["data"][0].clone())
    };
    let logged = until("the log", logged).await;
    assert_eq!(
        (&logged["virtual_key"], &logged["last_used_option_index"]),
        (&json!("engines"), &json!(at("config", &two)))
    );

    // None: that of custom_host, which there is not.
    write(&file, "\n");
    count(&gateway, 0.0).await;
    let gone = call(&gateway, &alone).send().await.unwrap();
    assert_eq!(gone.status(), 502);
    assert_eq!(used(&gateway, &fallback).await, BTreeSet::from(["config.targets[1]".to_owned()]));
}

#[tokio::test]
async fn the_least_busy_host_is_chosen_and_names_lead_to_all_addresses() {
    let states = [State::new(Mutex::new((200, 9))), State::new(Mutex::new((200, 1)))];
    let engines = [engine(&states[0]).await, engine(&states[1]).await];
    let [one, two] = [host(&engines[0]), host(&engines[1])];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engines");
    write(&file, &json!([one, two]).to_string());
    let discover = format!("{{file: '{}', interval_ms: 500}}", file.display());
    let yaml = settings(&discover, "http://engines.invalid:8000/v1");
    let gateway = Gateway::start(&yaml);
    let reads = async |host: &str, wanted: f64| {
        let series = format!(r#"turnpike_engine_requests{{provider="engines@{host}",state="running"}}"#);
        until("its metrics", async || (gateway.metric(&series).await == Some(wanted)).then_some(())).await;
    };
    reads(&one, 9.0).await;
    reads(&two, 1.0).await;
    let alone = json!({"provider": "@engines"});
    assert_eq!(used(&gateway, &alone).await, BTreeSet::from([format!("config.hosts[{two}]")]));
    states[1].lock().1 = 20;
    reads(&two, 20.0).await;
    assert_eq!(used(&gateway, &alone).await, BTreeSet::from([format!("config.hosts[{one}]")]));
    // An explanation shows the choice.
    let question = json!({"headers": {"x-gateway-api-key": KEY, "x-gateway-config": alone},
        "body": {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}});
    let explained = gateway.control(Method::POST, "/v1/explain").json(&question).send().await.unwrap();
    let explained = explained.text().await.unwrap();
    assert!(explained.contains(&format!("config.hosts[{one}]")), "{explained}");

    // By DNS: this machine's own name, at the port of custom_host.
    let port = one.split(':').nth(1).unwrap();
    let by_name =
        settings("{dns: localhost, interval_ms: 500}", &format!("http://engines.invalid:{port}/v1"));
    gateway.reload(&format!("{by_name}outbound: {{ip: v4}}\n"));
    let found = async || {
        let response = call(&gateway, &alone).send().await.unwrap();
        (response.status() == 200 && index(&response) == format!("config.hosts[{one}]")).then_some(())
    };
    until("the address of the name", found).await;
    count(&gateway, 1.0).await;
    // A name that there is not: the last hosts stay. Another reload begins anew with that of custom_host.
    let missing = by_name.replace("dns: localhost", "dns: none.invalid");
    gateway.reload(&format!("{missing}outbound: {{ip: v4}}\n"));
    until("why", async || gateway.log().contains("its hosts cannot be found").then_some(())).await;
    assert_eq!(call(&gateway, &alone).send().await.unwrap().status(), 502);
}

#[tokio::test]
async fn clients_stay_at_a_host_while_it_is_there_and_share_what_was_cached() {
    let states = [0; 3].map(|_| State::new(Mutex::new((200, 0))));
    let engines = [engine(&states[0]).await, engine(&states[1]).await, engine(&states[2]).await];
    let mut hosts = [host(&engines[0]), host(&engines[1]), host(&engines[2])];
    // As they stand in the list.
    hosts.sort();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engines");
    write(&file, &json!(hosts).to_string());
    let discover = format!("{{file: '{}', interval_ms: 500, by: weight}}", file.display());
    let yaml = settings(&discover, "http://engines.invalid:8000/v1");
    let gateway = Gateway::start(&yaml);
    count(&gateway, 3.0).await;
    let sticky =
        json!({"mode": "loadbalance", "sticky": {"enabled": true, "hash_fields": ["metadata.user"]}});
    let flat = json!({"strategy": sticky, "targets": [{"provider": "@engines"}, {"provider": "@cloud", "weight": 0}]});
    let nested = json!({"strategy": {"mode": "loadbalance"}, "targets": [
        {"strategy": sticky, "targets": [{"provider": "@engines"}]}, {"provider": "@cloud", "weight": 0}]});
    let of_users = async |config: &Value| {
        let mut all = Vec::new();
        for user in 0..12 {
            let metadata = json!({"user": format!("u{user}")}).to_string();
            let response =
                call(&gateway, config).header("x-gateway-metadata", metadata).send().await.unwrap();
            all.push(index(&response));
        }
        all
    };
    let all = [of_users(&flat).await, of_users(&nested).await];
    assert_eq!([of_users(&flat).await, of_users(&nested).await], all, "each stays");
    write(&file, &json!(hosts[1..]).to_string());
    count(&gateway, 2.0).await;
    for (config, before) in [&flat, &nested].into_iter().zip(&all) {
        for (before, after) in before.iter().zip(of_users(config).await) {
            assert!(
                *before == after || before.contains(&hosts[0]),
                "{before} is there, and {after} was chosen"
            );
        }
    }

    // Without `failover` another host is tried, and no other target.
    let plain = json!({"strategy": {"mode": "loadbalance"}, "targets": [{"provider": "@engines"}]});
    let [_, second, _] = &hosts;
    let state = states.iter().zip(&engines).find(|(_, engine)| host(engine) == *second).unwrap().0;
    state.lock().0 = 500;
    assert_eq!(used(&gateway, &plain).await.len(), 1);
    state.lock().0 = 200;

    let cached = json!({"provider": "@engines", "cache": {"mode": "simple"}});
    let mut hits = 0;
    for _ in 0..8 {
        let response = call(&gateway, &cached).send().await.unwrap();
        hits += usize::from(response.headers()["x-gateway-cache-status"] == "HIT");
    }
    assert_eq!(hits, 7, "whichever host responded");

    // Another file counts at once, however long the one before was to be kept.
    let kept = yaml.replace("interval_ms: 500", "interval_ms: 3600000");
    gateway.reload(&kept);
    count(&gateway, 2.0).await;
    let other = folder.path().join("others");
    write(&other, &hosts[0]);
    gateway.reload(&kept.replace("/engines'", "/others'"));
    count(&gateway, 1.0).await;
    assert_eq!(used(&gateway, &cached).await.len(), 1);
}

#[tokio::test]
async fn a_request_is_not_sent_to_all_hosts() {
    let states = [0; 5].map(|_| State::new(Mutex::new((500, 0))));
    let mut engines = Vec::new();
    for state in &states {
        engines.push(engine(state).await);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("engines");
    write(&file, &json!(engines.iter().map(host).collect::<Vec<_>>()).to_string());
    let discover = format!("{{file: '{}', interval_ms: 500}}", file.display());
    let gateway = Gateway::start(&settings(&discover, "http://engines.invalid:8000/v1"));
    count(&gateway, 5.0).await;
    for config in [
        json!({"provider": "@engines"}),
        json!({"strategy": {"mode": "loadbalance", "failover": true}, "targets": [{"provider": "@engines"}]}),
    ] {
        let trace = new_trace();
        let response = call(&gateway, &config).header("x-gateway-trace-id", &trace).send().await.unwrap();
        assert_eq!(response.status(), 500);
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["attempts"].as_array().unwrap().len(), 3, "{line}");
    }
}

#[tokio::test]
async fn only_the_settings_name_where_hosts_are_found() {
    let gateway = Gateway::start(&settings("{dns: localhost}", "http://engines.invalid:8000/v1"));
    let body = json!({"name": "mine", "provider": "vllm", "configurations": {"custom_host": "https://example.test/v1", "discover": {"file": "/etc/passwd"}}});
    let made = gateway.control(Method::POST, "/v1/providers").json(&body).send().await.unwrap();
    assert_eq!(made.status(), 400);
    let text = made.text().await.unwrap();
    assert!(text.contains("discover"), "{text}");
    let config = json!({"provider": "openai", "api_key": "k", "discover": {"file": "/etc/passwd"}});
    assert_eq!(call(&gateway, &config).send().await.unwrap().status(), 400);
}

#[test]
fn one_source_is_named_and_fits_the_host() {
    for (discover, host, wanted) in [
        ("{}", "http://e/v1", "is required, or srv or file"),
        ("{dns: a, file: b}", "http://e/v1", "give one of dns, srv and file"),
        ("{dns: 'a b'}", "http://e/v1", "must be a name in DNS"),
        ("{dns: a, by: chance}", "http://e/v1", "by"),
        ("{dns: a, interval_ms: 10}", "http://e/v1", "interval_ms"),
        ("{dns: a}", "https://e/v1", "which certificates do not name"),
    ] {
        let problems = check(&settings(discover, host)).stderr;
        assert!(problems.contains(wanted), "{discover}: {problems}");
    }
    let none = "providers: {engines: {provider: openai, discover: {dns: a}}}\n";
    assert!(check(none).stderr.contains("needs custom_host"));
}
