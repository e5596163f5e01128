//! The live traffic of a demo: requests at a modest rate to the data port, as clients send them, good and bad ones.

use super::objects::{DemoTeam, TeamKey};
use fastrand::Rng;
use reqwest::{Client, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// So many requests at once, so that pages have something to show, and then one after each pause.
const FIRST: usize = 60;
const PAUSE: std::ops::Range<u64> = 250..900;
/// Requests under way, at most.
const RUNNING: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is sent, and the emulator's script for it. Several of those that are good.
const KINDS: [(&str, &str); 12] = [
    ("How do I return a parcel?", "tokens=60&ttft=180&tps=90"),
    ("Where is my order?", "tokens=25&ttft=90&tps=120"),
    ("Translate this letter into Portuguese.", "tokens=140&ttft=260&tps=100"),
    ("Which plan has the longer warranty?", "tokens=45&latency=400"),
    ("Summarise the call of this morning.", "tokens=90&ttft=350&tps=80"),
    ("Write a title for the article.", "tokens=12&latency=120"),
    ("Compare the two quotes.", "tokens=160&ttft=420&tps=110"),
    ("My IBAN is DE89 3704 0044 0532 0130 00, please note it.", ""),
    ("What changed in the last release?", "status=503&times=1&key=K"),
    ("Draft the weekly report.", "status=429&retry_after=0&times=1&key=K"),
    ("List all stores in Lisbon.", "fault=cut&after=6"),
    ("Explain the invoice.", "status=400"),
];

/// Sends until the process ends.
///
/// # Errors
/// No client can be made.
pub async fn send(data: SocketAddr, teams: &Arc<[DemoTeam]>) -> Result<(), String> {
    let client = Client::builder().timeout(TIMEOUT).no_proxy().build().map_err(|why| why.to_string())?;
    let places = Arc::new(Semaphore::new(RUNNING));
    let mut rng = Rng::new();
    for number in 0_usize.. {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let Some(request) = Request::draw(&mut rng, teams, number) else { break };
        let client = client.clone();
        tokio::spawn(async move {
            request.send(&client, data).await;
            drop(place);
        });
        if number >= FIRST {
            sleep(Duration::from_millis(rng.u64(PAUSE))).await;
        }
    }
    Ok(())
}

/// A request to be sent.
struct Request {
    key: String,
    body: serde_json::Value,
    script: String,
    metadata: String,
    config: &'static str,
}

impl Request {
    fn draw(rng: &mut Rng, teams: &[DemoTeam], number: usize) -> Option<Self> {
        let team = rng.choice(teams)?;
        let TeamKey { text, .. } = rng.choice(&team.keys)?;
        let person = rng.choice(team.people)?;
        let (_, model) = *rng.choice(team.models)?;
        // The first seven are good ones; seven of eight are of them.
        let good = rng.u8(0..8) < 7;
        let (message, script) = *rng.choice(if good { KINDS.get(..7)? } else { KINDS.get(7..)? })?;
        // Each fourth repeats a text, which the cache may have.
        let message =
            if number.is_multiple_of(4) { message.to_owned() } else { format!("{message} ({number})") };
        let body = json!({"model": model, "stream": rng.bool(), "messages": [
            {"role": "system", "content": "You help the people of a shop. Be brief and friendly."},
            {"role": "user", "content": message},
        ]});
        Some(Self {
            key: text.expose().to_owned(),
            body,
            script: script.replace("key=K", &format!("key=demo-{number}")),
            metadata: json!({"_user": person, "team": team.slug}).to_string(),
            config: team.config,
        })
    }

    /// Reads the response to its end, as a client does. What becomes of it is what the demo shows.
    async fn send(self, client: &Client, data: SocketAddr) {
        let call = client.post(format!("http://{data}/v1/chat/completions")).json(&self.body);
        let call = call.header("x-gateway-api-key", self.key).header("x-gateway-config", self.config);
        let call = call.header("x-gateway-metadata", self.metadata);
        let call = if self.script.is_empty() { call } else { call.header("x-emulator-script", self.script) };
        let read = call.send().await.map(Response::bytes);
        if let Ok(body) = read {
            let _ = body.await;
        }
    }
}
