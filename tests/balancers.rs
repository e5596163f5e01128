//! Two gateways behind HAProxy and nginx, as docs/balancers.md sets them up: streams, the client's address, and a restart without a
//! failed request.
//!
//! Not how addresses are read from headers and from the PROXY protocol (`client_addresses`).

use crate::support::balancer::Balancer;
use crate::support::client::{hello, install_ring, new_trace};
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, sse};
use reqwest::Client;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The client's address. The balancers connect from 127.0.0.1.
const CLIENT: [u8; 4] = [127, 0, 0, 2];

/// With a delay that is longer than the balancers need to notice.
fn gateway(proxy_protocol: bool) -> Gateway {
    let listen = format!(
        "listen:
  data: [{{address: '127.0.0.1:DATA_PORT', proxy_protocol: {proxy_protocol}}}]
  control: 127.0.0.1:CONTROL_PORT
  trusted_proxies: [127.0.0.1]
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}"
    );
    let standard =
        STANDARD.replace("grace_period_seconds: 5", "grace_period_seconds: 60\n  drain_delay_seconds: 3");
    Gateway::start(&format!("{listen}{standard}"))
}

/// A client that uses each connection once, from [`CLIENT`]: nginx closes idle ones when it reloads, as a request may just be sent.
fn client() -> Client {
    install_ring();
    let client = Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .local_address(IpAddr::from(CLIENT))
        .pool_max_idle_per_host(0);
    client.timeout(Duration::from_secs(60)).build().unwrap()
}

fn chat(client: &Client, balancer: &Balancer, trace: &str, body: &Value) -> reqwest::RequestBuilder {
    let call = client.post(format!("http://127.0.0.1:{}/v1/chat/completions", balancer.port)).json(body);
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    call.header("x-gateway-trace-id", trace)
}

/// The access line of a request that one of the gateways has served.
async fn access_line(gateways: &[Gateway; 2], trace: &str) -> Value {
    let member = format!("\"trace_id\":{}", Value::from(trace));
    let line = until("the access line", async || {
        gateways.iter().find_map(|gateway| gateway.stdout.lines_with(&member).first().cloned())
    });
    serde_json::from_str(&line.await).unwrap()
}

/// Requests that are sent one after the other until they are to stop.
struct Load {
    stops: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    /// Of this many clients, each with connections of its own.
    fn start(balancer: &Balancer, clients: usize) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let served = Arc::new(AtomicUsize::new(0));
        let task = |_| {
            let (stops, served) = (Arc::clone(&stops), Arc::clone(&served));
            let client = client();
            let call = chat(&client, balancer, "load", &hello(false)).build().unwrap();
            tokio::spawn(async move {
                let mut failures = Vec::new();
                while !stops.load(Ordering::Relaxed) {
                    let sent = client.execute(call.try_clone().unwrap()).await;
                    let outcome = match sent {
                        Ok(response) => {
                            let status = response.status();
                            response.text().await.map(|text| (status.as_u16(), text))
                        }
                        Err(error) => Err(error),
                    };
                    match outcome {
                        Ok((200, _)) => {
                            served.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failures.push(format!("{other:?}")),
                    }
                }
                failures
            })
        };
        Self { tasks: (0..clients).map(task).collect(), stops, served }
    }

    /// Waits for this many more requests.
    async fn more(&self, count: usize) {
        let wanted = self.served.load(Ordering::Relaxed) + count;
        until("more requests to be served", async || {
            (self.served.load(Ordering::Relaxed) >= wanted).then_some(())
        })
        .await;
    }

    /// What has failed.
    async fn failures(self) -> Vec<String> {
        self.stops.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for task in self.tasks {
            failures.extend(task.await.unwrap());
        }
        failures
    }
}

/// `prepare`: what an operator does before the restart of the gateway at this port.
async fn streams_come_event_by_event_and_a_restart_loses_nothing(
    proxy_protocol: bool,
    start: fn([u16; 2]) -> Option<Balancer>,
    prepare: fn(&Balancer, u16),
) {
    let gateways = [gateway(proxy_protocol), gateway(proxy_protocol)];
    let Some(balancer) = start([gateways[0].ports.data, gateways[1].ports.data]) else { return };
    let client = client();
    let trace = new_trace();
    let mut body = hello(true);
    body["model"] = json!("gpt-4o-mini?tokens=30&gap=100");
    let call = chat(&client, &balancer, &trace, &body).header("x-forwarded-for", "203.0.113.1");
    let mut stream = call.send().await.unwrap();
    assert_eq!(stream.status(), 200, "{}", balancer.log());
    let mut text = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let mut in_flight = 0.0;
    for gateway in &gateways {
        in_flight += gateway.metric("turnpike_requests_in_flight").await.unwrap();
    }
    assert!(in_flight >= 1.0, "the first event came when the stream had ended");
    while let Some(chunk) = stream.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert_eq!(sse::events(&text).last().unwrap().data, "[DONE]");
    assert_eq!(access_line(&gateways, &trace).await["caller"], "127.0.0.2");

    let load = Load::start(&balancer, 4);
    load.more(40).await;
    let [first, second] = &gateways;
    let has_served = |gateway: &Gateway| !gateway.stdout.lines_with("\"trace_id\":\"load\"").is_empty();
    until("both gateways to get requests", async || (has_served(first) && has_served(second)).then_some(()))
        .await;
    prepare(&balancer, first.ports.data);
    first.terminate();
    assert!(first.ended().await.success());
    load.more(40).await;
    let failures = load.failures().await;
    assert!(failures.is_empty(), "{failures:#?}\n{}\n{}", balancer.log(), first.log());
}

#[tokio::test]
async fn haproxy_with_headers() {
    let start = |ports| Balancer::haproxy("option forwardfor", ports);
    streams_come_event_by_event_and_a_restart_loses_nothing(false, start, |_, _| {}).await;
}

#[tokio::test]
async fn haproxy_with_the_proxy_protocol() {
    let start = |ports| Balancer::haproxy("send-proxy-v2", ports);
    streams_come_event_by_event_and_a_restart_loses_nothing(true, start, |_, _| {}).await;
}

#[tokio::test]
async fn nginx() {
    streams_come_event_by_event_and_a_restart_loses_nothing(false, Balancer::nginx, Balancer::leave_out)
        .await;
}
