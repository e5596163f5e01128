//! Alerts of limits against a real mail server and real webhooks: TLS, authentication, signatures, repeats, the audit log.
//!
//! Which usage is worth an alert is tested in `limits`.

use crate::limited_requests::USAGE;
use crate::support::client::{chat, client, hello, install_ring, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use crate::support::{Gateway, packages, ports};
use control::alerts::AlertSender;
use jiff::Timestamp;
use memory::limits::{EventKind, Limit, LimitEvent, LimitKind, LimitScope, RateOf, RateUnit, Reset, UsageOf};
use memory::state::Shared;
use memory::state::access_log::AccessLog;
use memory::state::metrics::Metrics;
use memory::state::snapshot::SettingsSnapshot;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use tokio::sync::mpsc;
use uuid::Uuid;
use words::config::Checks;
use words::settings::{AccessLog as Output, SecretSources, Settings};

const PASSWORD: &str = "canary-mail-password";

/// aiosmtpd, with STARTTLS and authentication.
struct MailServer {
    process: Child,
    /// It ends with this.
    _stdin: ChildStdin,
    port: u16,
    mails: Arc<Mutex<Vec<Value>>>,
}

impl MailServer {
    fn start(folder: &Path) -> Option<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = folder.join("cert.pem");
        let key = folder.join("key.pem");
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut command = packages::python("smtp", "smtp_server.py")?;
        command.args([&certificate, &key]).args(["turnpike", PASSWORD]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let mails = Arc::<Mutex<Vec<Value>>>::default();
        let taken = Arc::clone(&mails);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                taken.lock().push(serde_json::from_str(&line).unwrap());
            }
        });
        let port = ready["port"].as_u64().unwrap().try_into().unwrap();
        Some(Self { _stdin: process.stdin.take().unwrap(), process, port, mails })
    }

    fn mail_to(&self, address: &str) -> Option<Value> {
        self.mails.lock().iter().find(|mail| mail["to"] == serde_json::json!([address])).cloned()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A gateway's state with these settings, and where its events go in.
fn sender(yaml: &str) -> (Arc<Shared>, mpsc::Sender<LimitEvent>) {
    install_ring();
    let checks = Checks::NONE;
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse(yaml, &sources, &checks).unwrap();
    let access_log = AccessLog::open(&Output::Off).unwrap();
    let snapshot = SettingsSnapshot::new(settings, 0);
    let shared = Arc::new(Shared::new(snapshot, Metrics::new().unwrap(), access_log, None));
    let (events, receiver) = mpsc::channel(16);
    tokio::spawn(Arc::new(AlertSender::new(Arc::clone(&shared))).run(receiver));
    (shared, events)
}

fn event(name: &str, kind: LimitKind) -> LimitEvent {
    let mut limit = Limit::new(Uuid::from_u128(1), LimitScope::Policy, kind);
    limit.name = Some(name.into());
    LimitEvent {
        kind: EventKind::Exhausted,
        limit: Arc::new(limit),
        value_key: "metadata.team:red".into(),
        spent: 10_500_000_000,
        at: Timestamp::UNIX_EPOCH,
        reset_at: None,
    }
}

fn budget() -> LimitKind {
    LimitKind::Usage { of: UsageOf::Cost, credit: 10_000_000_000, alert_at: None, reset: Reset::Never }
}

fn metric(shared: &Shared, series: &str) -> bool {
    let text = String::from_utf8(shared.metrics.render(&[])).unwrap();
    text.lines().any(|line| line == series)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_go_out_encrypted_and_authenticated() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = MailServer::start(folder.path()) else { return };
    let ca_file = folder.path().join("cert.pem");
    let smtp = format!(
        "host: localhost, port: {}, ca_file: {}, username: turnpike, from: 'Turnpike <gateway@example.com>'",
        server.port,
        ca_file.display()
    );
    let to = "to: [ops@example.com, later@example.com, never@example.com]";
    let (shared, events) = sender(&format!("alerts: {{smtp: {{{smtp}, password: {PASSWORD}, {to}}}}}"));
    events.send(event("team budget", budget())).await.unwrap();
    let mail = until("a mail", async || server.mail_to("ops@example.com")).await;
    assert_eq!((&mail["tls"], &mail["authenticated"]), (&true.into(), &true.into()));
    assert_eq!(mail["from"], "gateway@example.com");
    let text = mail["text"].as_str().unwrap();
    assert!(text.contains("Subject: [turnpike] the limit of the policy team budget is exhausted"), "{text}");
    assert!(
        text.contains("Used: 10.5 dollars of 10 dollars") && text.contains("metadata.team:red"),
        "{text}"
    );
    // Refused for now: sent again. Refused for good: not.
    until("the mail that was refused for now", async || server.mail_to("later@example.com")).await;
    let failed = "turnpike_alert_deliveries_total{channel=\"email\",outcome=\"failed\"} 1";
    until("the mail that was refused for good", async || metric(&shared, failed).then_some(())).await;
    let delivered = "turnpike_alert_deliveries_total{channel=\"email\",outcome=\"delivered\"} 2";
    until("both", async || metric(&shared, delivered).then_some(())).await;
    assert!(metric(&shared, "turnpike_alerts_total{event=\"exhausted\"} 1"));

    // A server whose certificate is not trusted gets no mail, and one that refuses the password takes none.
    let untrusted = format!(
        "host: localhost, port: {}, username: turnpike, password: {PASSWORD}, from: a@b.c, to: [wrong@example.com]",
        server.port
    );
    let (_untrusted, events) = sender(&format!("alerts: {{smtp: {{{untrusted}}}}}"));
    events.send(event("b", budget())).await.unwrap();
    let refused = format!("{smtp}, password: wrong, to: [wrong@example.com]");
    let (shared, events) = sender(&format!("alerts: {{smtp: {{{refused}}}}}"));
    events.send(event("b", budget())).await.unwrap();
    let failed = "turnpike_alert_deliveries_total{channel=\"email\",outcome=\"failed\"} 1";
    until("the wrong password", async || metric(&shared, failed).then_some(())).await;
    let last = format!("{smtp}, password: {PASSWORD}, to: [last@example.com]");
    let (_last, events) = sender(&format!("alerts: {{smtp: {{{last}}}}}"));
    events.send(event("b", budget())).await.unwrap();
    until("the last mail", async || server.mail_to("last@example.com")).await;
    assert_eq!(server.mail_to("wrong@example.com"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_signed_and_tried_again() {
    let tries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&tries);
    let webhook = Provider::start(move |_| {
        *count.lock() += 1;
        let status = if *count.lock() == 1 { "503 Service Unavailable" } else { "204 No Content" };
        format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
    })
    .await;
    let gone =
        Provider::start(|_| b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec())
            .await;
    let settings = format!(
        "alerts: {{webhooks: [{{url: 'http://127.0.0.1:{}/hook', secret: canary-secret}}, {{url: 'http://127.0.0.1:{}/'}}]}}",
        webhook.port, gone.port
    );
    let (shared, events) = sender(&settings);
    // A rate limit that is reached is no news.
    let rate = LimitKind::Rate { of: RateOf::Requests, unit: RateUnit::Minute, value: 1 };
    events.send(event("rate", rate)).await.unwrap();
    events.send(event("team budget", budget())).await.unwrap();
    let delivered = "turnpike_alert_deliveries_total{channel=\"webhook\",outcome=\"delivered\"} 1";
    until("the second try", async || metric(&shared, delivered).then_some(())).await;
    let failed = "turnpike_alert_deliveries_total{channel=\"webhook\",outcome=\"failed\"} 1";
    until("the one that is gone", async || metric(&shared, failed).then_some(())).await;
    assert_eq!(gone.received().len(), 1, "what is refused for good is not repeated");
    let received = webhook.received();
    assert_eq!(received.len(), 2);
    let header = |name: &str| received[1].header(name).unwrap().to_owned();
    let body = String::from_utf8(received[1].body.clone()).unwrap();
    let json: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&json["type"], &json["current_usage"]), (&"limit.exhausted".into(), &10.5.into()));
    assert_eq!(json["id"], header("webhook-id"));
    let signed = format!("{}.{}.{body}", header("webhook-id"), header("webhook-timestamp"));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"canary-secret");
    let tag = ring::hmac::sign(&key, signed.as_bytes());
    let expected = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, tag);
    assert_eq!(header("webhook-signature"), format!("v1,{expected}"));
    assert!(gone.received()[0].header("webhook-signature").is_none(), "without a secret nothing is signed");
}

/// What begins a link or a mention in Slack is written as Slack wants it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_of_slack_gets_a_text() {
    let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let webhook = Provider::start(|_| ok.to_vec()).await;
    let settings = format!(
        "alerts: {{webhooks: [{{url: 'http://127.0.0.1:{}/services/T/B', format: slack}}]}}",
        webhook.port
    );
    let (shared, events) = sender(&settings);
    events.send(event("<!channel> @all R&D", budget())).await.unwrap();
    let delivered = "turnpike_alert_deliveries_total{channel=\"webhook\",outcome=\"delivered\"} 1";
    until("the message", async || metric(&shared, delivered).then_some(())).await;
    let json: Value = serde_json::from_slice(&webhook.received()[0].body).unwrap();
    let text = json["text"].as_str().unwrap();
    assert_eq!(json.as_object().unwrap().len(), 1, "{json}");
    assert!(text.contains("&lt;!channel&gt; @\u{200B}all R&amp;D is exhausted.\n\nUsed: "), "{text}");
}

/// From a request to the webhook and the audit log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_is_used_up_alerts_twice() {
    let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let webhook = Provider::start(|_| ok.to_vec()).await;
    let alerts = format!("alerts: {{webhooks: [{{url: 'http://127.0.0.1:{}/hook'}}]}}\n", webhook.port);
    let gateway = Gateway::start(&format!("{STANDARD}{alerts}"));
    let policy = serde_json::json!({
        "conditions": [{"key": "metadata.team", "value": "*"}], "group_by": [{"key": "metadata.team"}],
        "type": "requests", "credit_limit": 3, "alert_threshold": 2, "name": "three each",
    });
    gateway.create(USAGE, &policy).await;
    for _ in 0..3 {
        let call = chat(&gateway, &new_trace(), &hello(false));
        let response = call.header("x-gateway-metadata", r#"{"team":"red"}"#).send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
    // Until the third one is settled, which is beside its response, what it has reserved is a 429.
    let trace = until("the budget to be spent", async || {
        let trace = new_trace();
        let refused = chat(&gateway, &trace, &hello(false)).header("x-gateway-metadata", r#"{"team":"red"}"#);
        (refused.send().await.unwrap().status() == 412).then_some(trace)
    })
    .await;
    let limit = &gateway.access_line(&trace).await["limit"];
    let facts = ["scope", "name", "kind"].map(|name| limit[name].as_str().unwrap_or_default());
    assert_eq!(facts, ["policy", "three each", "usage"], "{limit}");
    let received = async || Some(webhook.received()).filter(|received| received.len() == 2);
    let received = until("two alerts", received).await;
    let mut kinds: Vec<String> = Vec::new();
    for message in &received {
        let json: Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(json["limit"]["name"], "three each");
        assert!(json["value_key"].as_str().unwrap().contains("red"), "{json}");
        kinds.push(json["type"].as_str().unwrap().to_owned());
    }
    kinds.sort();
    assert_eq!(kinds, ["limit.exhausted", "limit.threshold"]);
    let path = "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&organisation_id=o&resource_type=limits";
    let log = gateway.read(path).await;
    assert_eq!(log["total"], 2, "{log}");
    assert_eq!(log["records"][0]["user_type"], "gateway");
}

/// A user of the organisation.
async fn user(gateway: &Gateway, email: &str, role: &str) {
    let invite = serde_json::json!({"email": email, "role": role, "workspaces": []});
    let call = gateway.control(Method::POST, "/v1/admin/users/invites").json(&invite);
    let invited: Value = call.send().await.unwrap().json().await.unwrap();
    let path = format!("/v1/admin/users/invites/{}/accept", invited["id"].as_str().unwrap());
    assert_eq!(gateway.control(Method::POST, &path).send().await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrators_and_the_addresses_of_a_key_get_mail() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = MailServer::start(folder.path()) else { return };
    let alerts = format!(
        "alerts:\n  smtp: {{host: localhost, port: {}, ca_file: '{}', username: turnpike, password: {PASSWORD}, from: g@example.com, to: [OPS@example.com]}}\n",
        server.port,
        folder.path().join("cert.pem").display()
    );
    let gateway = Gateway::start(&format!("{STANDARD}{alerts}"));
    user(&gateway, "boss@example.com", "admin").await;
    user(&gateway, "plain@example.com", "member").await;
    let key = serde_json::json!({
        "name": "nightly jobs", "scopes": ["completions.write"], "alert_emails": ["jobs@example.com", "ops@example.com"],
        "usage_limits": {"type": "tokens", "credit_limit": 5, "alert_threshold": 1},
    });
    let call = gateway.control(Method::POST, "/v1/api-keys/workspace/service").json(&key);
    let made: Value = call.send().await.unwrap().json().await.unwrap();
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let call = call.header("x-gateway-api-key", made["key"].as_str().unwrap());
    let response = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
    assert_eq!(response.status(), 200, "{made}");
    // The threshold and the end of the limit, to each address once.
    let all = async || Some(server.mails.lock().clone()).filter(|mails| mails.len() == 6);
    let mails = until("six mails", all).await;
    let mut to: Vec<String> =
        mails.iter().map(|mail| mail["to"][0].as_str().unwrap().to_lowercase()).collect();
    to.sort();
    let twice = |address: &str| [format!("{address}@example.com"), format!("{address}@example.com")];
    assert_eq!(to, [twice("boss"), twice("jobs"), twice("ops")].concat());
    let exhausted =
        mails.iter().filter(|mail| mail["text"].as_str().unwrap().contains("nightly jobs is exhausted"));
    assert_eq!(exhausted.count(), 3, "{mails:?}");
    let path = "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&organisation_id=o&resource_type=limits";
    let log = gateway.read(path).await;
    assert_eq!(log["total"], 2, "{log}");
    let shown = gateway.control(Method::GET, &format!("/v1/api-keys/{}", made["id"].as_str().unwrap()));
    let shown: Value = shown.send().await.unwrap().json().await.unwrap();
    assert_eq!(log["records"][0]["workspace_id"], shown["workspace_id"]);
    let body: Value = serde_json::from_str(log["records"][0]["request_body"].as_str().unwrap()).unwrap();
    assert_eq!((&body["limit"]["scope"], &body["limit"]["id"]), (&"key".into(), &made["id"]), "{body}");
}

/// A receiver that is slow, one that is away and one that always fails, beside one that works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_that_fail_are_in_no_one_s_way() {
    let slow = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let failing = Provider::start(|_| {
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
    })
    .await;
    let working =
        Provider::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec())
            .await;
    let ports = [slow.local_addr().unwrap().port(), ports::free(), failing.port, working.port];
    let urls = ports.map(|port| format!("{{url: 'http://127.0.0.1:{port}/'}}")).join(", ");
    let gateway = Gateway::start(&format!("{STANDARD}alerts: {{webhooks: [{urls}]}}\n"));
    let policy = serde_json::json!({
        "conditions": [{"key": "metadata.n", "value": "*"}], "group_by": [{"key": "metadata.n"}],
        "type": "requests", "credit_limit": 1, "name": "one each",
    });
    gateway.create(USAGE, &policy).await;
    let begin = std::time::Instant::now();
    for number in 0..30 {
        let call = chat(&gateway, &new_trace(), &hello(false));
        let call = call.header("x-gateway-metadata", format!(r#"{{"n":"{number}"}}"#));
        assert_eq!(call.send().await.unwrap().status(), 200);
    }
    // A single wait for one of them would be 15 s.
    assert!(begin.elapsed() < std::time::Duration::from_secs(10), "{:?}", begin.elapsed());
    let all = async || Some(working.received()).filter(|received| received.len() == 30);
    until("all alerts at the one that works", all).await;
    let again = async || Some(()).filter(|()| failing.received().len() > 30);
    until("second tries at the one that fails", again).await;
}

/// Time passes by itself here whenever nothing else happens.
#[tokio::test(start_paused = true)]
async fn deliveries_are_bounded_and_given_up() {
    let slow = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}/", slow.local_addr().unwrap().port());
    let (shared, events) = sender(&format!("alerts: {{webhooks: [{{url: '{url}'}}]}}"));
    let begin = tokio::time::Instant::now();
    for _ in 0..300 {
        events.send(event("budget", budget())).await.unwrap();
    }
    let outcome = |name: &str, count: u64| {
        let series =
            format!("turnpike_alert_deliveries_total{{channel=\"webhook\",outcome=\"{name}\"}} {count}");
        metric(&shared, &series)
    };
    while !outcome("failed", 256) {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert!(begin.elapsed() < std::time::Duration::from_secs(300), "they are never given up");
    }
    assert!(outcome("dropped", 44));
    // Five tries of 15 s, and the waits between them.
    assert!(begin.elapsed() >= std::time::Duration::from_secs(1 + 5 + 30 + 120), "{:?}", begin.elapsed());
}
