//! Runs each row, and checks what the client and the emulator's log must show.
//!
//! The rows are in `rows`.

use super::case::{Bed, Case, PrimaryDialect, TOKENS, emulator_requests, sample_text};
use super::observed::ObservedResponse;
use super::rows::{Scenario, Served};
use crate::support::client::new_trace;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Runs a case to its end; panics if it fails.
pub(super) async fn run(bed: &Bed, case: Case) {
    match case.fault.scenario {
        Scenario::Once => once(bed, case).await,
        Scenario::TooLong => {
            once(bed, case).await;
            same_model_is_skipped(bed, case).await;
        }
        Scenario::Refused => refused(bed, case).await,
        Scenario::NoPrefill => no_prefill(bed, case).await,
        Scenario::Flapping => flapping(bed, case).await,
        Scenario::Accounting => accounting(bed, case).await,
    }
}

async fn once(bed: &Bed, case: Case) {
    let trace = new_trace();
    let config = case.config(&case.targets(&trace));
    let response = case.send(&bed.gateway, &bed.client, &trace, &config).await;
    is_whole(&case, &response);
    let primary = emulator_requests(&bed.gateway, &format!("{trace}-p")).await;
    let fallback = emulator_requests(&bed.gateway, &format!("{trace}-f")).await;
    assert!(
        case.fault.primary_requests.contains(&primary.len()),
        "{case}: the primary got {} requests",
        primary.len()
    );
    let served = served(&case);
    assert_eq!(fallback.len(), usize::from(served != Served::Primary), "{case}: requests to the fallback");
    assert!(response.elapsed < Duration::from_secs(case.fault.max_seconds), "{case}: {:?}", response.elapsed);
    if case.fault.name.contains("Retry-After") {
        let waited = at(&primary[1]) - at(&primary[0]);
        assert!(waited >= 1_800, "{case}: retried after {waited} ms");
    }
    assert_served_by(&case, &response, served);
    let line = bed.gateway.access_line(&trace).await;
    let attempts = line["attempts"].as_array().unwrap();
    assert!(attempts.len() >= 2 || primary.len() == 1 && fallback.is_empty(), "{case}: {line}");
    assert_eq!(line["status"], 200, "{case}: {line}");
}

/// Asserts a complete response in either of the client's dialects.
fn is_whole(case: &Case, response: &ObservedResponse) {
    assert_eq!(response.status, 200, "{case}: {}", response.body);
    assert_eq!(response.broken, None, "{case}: {}", response.body);
    assert_eq!(response.error, None, "{case}: {}", response.body);
    assert_eq!(response.text, sample_text(TOKENS), "{case}: {}", response.body);
    assert!(response.done, "{case}: no end marker: {}", response.body);
    let finish = if case.messages { "end_turn" } else { "stop" };
    // A stream that passes has what its provider sent.
    let finish =
        (case.fault.served_at_openai.is_none() || case.served() != Served::Primary).then_some(finish);
    assert_eq!(response.finish.as_deref(), finish, "{case}: {}", response.body);
    // Amazon reports the usage in the last event.
    if case.fault.name == "no [DONE]" && case.dialect == PrimaryDialect::Bedrock {
        return;
    }
    let (_, output) = response.tokens.unwrap_or_else(|| panic!("{case}: no usage: {}", response.body));
    assert!((0..=TOKENS).contains(&output), "{case}: {output} tokens");
}

fn served(case: &Case) -> Served {
    match case.served() {
        Served::Both if !case.is_streamed() => Served::Fallback,
        served => served,
    }
}

/// Asserts that headers, model and usage are those of the target that served.
fn assert_served_by(case: &Case, response: &ObservedResponse, served: Served) {
    let (dialect, index, role) = match served {
        Served::Fallback => (case.fallback(), "config.targets[1]", "fallback"),
        Served::Primary => (case.dialect, "config.targets[0]", "primary"),
        // The headers are those of the target that started, which can be either: chunks that arrive together
        // with the break may be held back.
        Served::Both => return,
    };
    assert_eq!(response.header("x-gateway-provider"), dialect.id(), "{case}");
    assert_eq!(response.header("x-gateway-last-used-option-index"), index, "{case}");
    assert!(response.model.starts_with(&dialect.model(role)), "{case}: {}", response.model);
    let retries = match served {
        Served::Primary => (case.fault.primary_requests.end() - 1).to_string(),
        _ => "0".to_owned(),
    };
    assert_eq!(response.header("x-gateway-retry-attempt-count"), retries, "{case}");
    if retries != "0" || served == Served::Fallback {
        let attempts = response.attempts();
        assert_eq!(attempts[0].0, "config.targets[0]", "{case}: {attempts:?}");
    }
    if let Some((_, output)) = response.tokens {
        assert_eq!(output, TOKENS, "{case}: {}", response.body);
    }
}

fn at(request: &Value) -> u64 {
    request["at_ms"].as_u64().unwrap()
}

/// Two targets of the model whose context is too short for the request, then one of another model.
async fn same_model_is_skipped(bed: &Bed, case: Case) {
    let trace = new_trace();
    let [primary, fallback] = case.targets(&trace);
    let config = case.config(&[primary.clone(), primary, fallback]);
    let response = case.send(&bed.gateway, &bed.client, &trace, &config).await;
    is_whole(&case, &response);
    assert_eq!(response.header("x-gateway-last-used-option-index"), "config.targets[2]", "{case}");
    assert_eq!(
        emulator_requests(&bed.gateway, &format!("{trace}-p")).await.len(),
        1,
        "{case}: the same model got a second request"
    );
}

/// A content-policy error is returned to the client, not routed around.
async fn refused(bed: &Bed, case: Case) {
    let trace = new_trace();
    let config = case.config(&case.targets(&trace));
    let response = case.send(&bed.gateway, &bed.client, &trace, &config).await;
    assert_eq!(
        emulator_requests(&bed.gateway, &format!("{trace}-p")).await.len(),
        1,
        "{case}: {}",
        response.body
    );
    assert!(
        emulator_requests(&bed.gateway, &format!("{trace}-f")).await.is_empty(),
        "{case}: routed around: {}",
        response.body
    );
    assert_eq!(response.header("x-gateway-last-used-option-index"), "config.targets[0]", "{case}");
    // Google reports it as a 200 without candidates.
    if case.dialect == PrimaryDialect::Gemini {
        assert_eq!(
            (response.status, response.finish.as_deref()),
            (200, Some("content_filter")),
            "{case}: {}",
            response.body
        );
        return;
    }
    assert_eq!(response.status, 400, "{case}: {}", response.body);
    let error = response.error.unwrap_or_else(|| panic!("{case}: no error: {}", response.body));
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("content"), "{case}: the provider's message: {error}");
    if case.dialect == PrimaryDialect::OpenAi {
        assert_eq!(error["code"], "content_filter", "{case}");
    }
}

/// A broken stream whose fallback refuses to continue it and is then sent the original request.
async fn no_prefill(bed: &Bed, case: Case) {
    for (refuses, requests) in [(true, 2), (false, 1)] {
        let trace = new_trace();
        let [primary, _] = case.targets(&trace);
        let script = format!("tokens={TOKENS}&no_prefill={}&tag={trace}-f", u8::from(refuses));
        let config = case.config(&[primary, PrimaryDialect::Anthropic.target("fallback", &script)]);
        let response = case.send(&bed.gateway, &bed.client, &trace, &config).await;
        is_whole(&case, &response);
        let fallback = emulator_requests(&bed.gateway, &format!("{trace}-f")).await;
        assert_eq!(fallback.len(), requests, "{case}: {refuses}");
        let ends_with = |request: &Value| {
            let body: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
            body["messages"].as_array().unwrap().last().unwrap()["role"].as_str().unwrap().to_owned()
        };
        assert_eq!(ends_with(&fallback[0]), "assistant", "{case}: it was not asked to continue");
        if refuses {
            assert_eq!(ends_with(&fallback[1]), "user", "{case}");
        }
    }
}

/// The primary alternates between two bad and two good seconds: every request is served, and by the primary
/// in its good seconds.
async fn flapping(bed: &Bed, case: Case) {
    const HALF: u64 = 2_000;
    const EVERY: u64 = 250;
    let trace = new_trace();
    let config = case.config(&case.targets(&trace));
    // The first request starts the primary's period.
    let started = Instant::now();
    let requests = (0..(3 * HALF + HALF / 2) / EVERY).map(|number| {
        let config = &config;
        async move {
            tokio::time::sleep(Duration::from_millis(number * EVERY)).await;
            let after = started.elapsed().as_millis() as u64;
            (after, case.send(&bed.gateway, &bed.client, &new_trace(), config).await)
        }
    });
    let responses = join_all(requests).await;
    let mut good = 0;
    let mut back = 0;
    for (after, response) in responses {
        is_whole(&case, &response);
        // Leave out half a second at either end, for a busy machine.
        if after / HALF % 2 == 1 && (500..HALF - 500).contains(&(after % HALF)) {
            good += 1;
            back += usize::from(response.header("x-gateway-last-used-option-index") == "config.targets[0]");
        }
    }
    assert!(good > 2 && back == good, "{case}: {back} of {good} returned to the primary");
}

/// Model, usage and counters are those of the target that served; failed attempts are recorded as such.
async fn accounting(bed: &Bed, case: Case) {
    let trace = new_trace();
    let mut targets = case.targets(&trace);
    for (target, role) in targets.iter_mut().zip(["primary", "fallback"]) {
        let model = target["override_params"]["model"].as_str().unwrap().to_owned();
        target["override_params"]["model"] = json!(model.replacen(role, &format!("{role}-{trace}"), 1));
    }
    let response = case.send(&bed.counted, &bed.client, &trace, &case.config(&targets)).await;
    is_whole(&case, &response);
    let fallback = case.fallback().model(&format!("fallback-{trace}"));
    assert!(response.model.starts_with(&fallback), "{case}: {}", response.model);
    let line = bed.counted.access_line(&trace).await;
    assert!(line["model"].as_str().unwrap().starts_with(&fallback), "{case}: {line}");
    assert_eq!(
        (&line["provider"], &line["tokens"]["output"]),
        (&json!(case.fallback().id()), &json!(TOKENS)),
        "{line}"
    );
    let attempts: Vec<String> = line["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempts| format!("{} {}", attempts["target"].as_str().unwrap(), attempts["status"]))
        .collect();
    let primary = "config.targets[0] 503".to_owned();
    let expected = [primary.clone(), primary.clone(), primary, "config.targets[1] 200".to_owned()];
    assert_eq!(attempts, expected, "{case}: {line}");
    let metrics = bed.counted.metrics().await;
    let completions = |model: &str| {
        let mut lines =
            metrics.lines().filter(|line| line.starts_with("gen_ai_client_operation_duration_seconds_count"));
        lines.find(|line| line.contains(model)).map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    assert_eq!(completions(&format!("fallback-{trace}")).as_deref(), Some("1"), "{case}: {metrics}");
    assert_eq!(
        completions(&format!("primary-{trace}")),
        None,
        "{case}: a failed attempt was counted as a completion"
    );
}

/// After all counted cases: three failed attempts and one successful one for each.
pub(super) async fn accounts_balance(bed: &Bed) {
    let metrics = bed.counted.metrics().await;
    let sum = |name: &str, labels: &[&str]| -> f64 {
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    let requests = sum("turnpike_requests_total{", &["chat"]);
    assert_eq!(sum("turnpike_attempts_total{", &["config.targets[0]"]), 3.0 * requests, "{metrics}");
    assert_eq!(sum("turnpike_attempts_total{", &["config.targets[1]"]), requests, "{metrics}");
}
