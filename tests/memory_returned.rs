//! Memory goes back to the system when nothing runs any more.
//!
//! Not how much a request may take (`memory`, `transfer`).

use crate::support::client::{chat, new_trace};
use crate::support::emulator::Emulator;
use crate::support::exclusive::exclusive;
use crate::support::gateway::Gateway;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use serde_json::json;

/// Bodies of half a MiB, sent at once.
const BODIES: usize = 160;
const BODY_BYTES: usize = 1 << 19;

/// The allocator gives back what is free while memory is allocated and freed; a process that does nothing would keep
/// what the last burst took, were it not made to look. Only its delay is shortened here.
#[tokio::test]
async fn memory_goes_back_to_the_system_when_idle() {
    let _alone = exclusive().await;
    let emulator = Emulator::start(None);
    let yaml = STANDARD.replace("EMULATOR_PORT", &emulator.port.to_string());
    let gateway = Gateway::start_with(&yaml, &|command| {
        command.env("_RJEM_MALLOC_CONF", "dirty_decay_ms:2000");
    });
    let body = |len: usize| json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(len)}]});
    assert_eq!(chat(&gateway, &new_trace(), &body(1000)).send().await.unwrap().status(), 200);
    let (before, _) = gateway.memory();
    let calls = (0..BODIES)
        .map(async |_| chat(&gateway, &new_trace(), &body(BODY_BYTES)).send().await.unwrap().status());
    for status in futures_util::future::join_all(calls).await {
        assert_eq!(status, 200);
    }
    let (_, peak) = gateway.memory();
    let burst = peak.saturating_sub(before);
    assert!(burst > 30 << 10, "the burst took only {burst} KiB");
    let idle = until("the memory to be given back", async || {
        let (resident, _) = gateway.memory();
        // The caches of threads keep a part.
        (resident < before + burst / 5).then_some(resident)
    })
    .await;
    eprintln!("{before} KiB before, at most {peak} KiB, {idle} KiB when idle");
}
