//! The page has what was recorded, and labels from fixed lists or through a limit.

use super::*;

#[test]
fn recorded_values_are_rendered() {
    let metrics = Metrics::new().unwrap();
    let target = TargetSeries::default();
    let request = FinishedRequest {
        operation: "chat",
        provider: "openai",
        model: "m",
        status: 200,
        total: Duration::from_millis(30),
        first_chunk: None,
        overhead: Duration::from_micros(60),
        input_tokens: Some(7),
        output_tokens: None,
        cost: Some(0.000_075),
        bytes_in: 10,
        bytes_out: 20,
    };
    metrics.record_request(&request, Some(&target), &|| None);
    metrics.record_request(&request, Some(&target), &|| None);
    metrics.record_request(
        &FinishedRequest { model: "made-up", status: 429, ..request },
        Some(&target),
        &|| None,
    );
    metrics.record_request(&FinishedRequest { provider: "", ..request }, None, &|| None);
    metrics.record_answered_attempt("openai", "config", &target);
    metrics.record_answered_attempt("openai", "config", &target);
    metrics.settings_loaded("abc", &MetricsSettings::default());
    metrics.settings_loaded("def", &MetricsSettings::default());
    let text = String::from_utf8(metrics.render(&[])).unwrap();
    for line in [
        r#"turnpike_requests_total{operation="chat",provider="openai",status="200"} 2"#,
        r#"turnpike_requests_total{operation="chat",provider="openai",status="429"} 1"#,
        r#"turnpike_requests_total{operation="chat",provider="",status="200"} 1"#,
        r#"gen_ai_request_model="m",gen_ai_token_type="input"} 14"#,
        r#"gen_ai_request_model="other",gen_ai_token_type="input"} 7"#,
        r#"outcome="answered",provider="openai",target="config"} 2"#,
        r#"turnpike_overhead_seconds_bucket{operation="chat",le="0.0001"} 4"#,
        r#"turnpike_settings_info{hash="def"} 1"#,
        "turnpike_settings_last_reload_successful 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains(r#"hash="abc""#) && !text.contains("made-up"), "{text}");
}

fn request<'a>(model: &'a str, status: u16) -> FinishedRequest<'a> {
    let time = Duration::from_millis(1);
    FinishedRequest {
        operation: "chat",
        provider: "openai",
        model,
        status,
        total: time,
        first_chunk: Some(time),
        overhead: time,
        input_tokens: Some(1),
        output_tokens: Some(1),
        cost: Some(0.000_075),
        bytes_in: 1,
        bytes_out: 1,
    }
}

#[test]
fn a_model_is_a_label_once_a_provider_took_it() {
    let metrics = Metrics::new().unwrap();
    let target = TargetSeries::default();
    let named = |model: &str| {
        let page = String::from_utf8(metrics.render(&[])).unwrap();
        page.contains(&format!("gen_ai_request_model={model:?}"))
    };
    // The first request of a target fails: its series must not stay without the name.
    metrics.record_request(&request("m", 404), Some(&target), &|| None);
    assert!(!named("m") && named("other"));
    metrics.record_request(&request("m", 200), Some(&target), &|| None);
    metrics.record_request(&request("", 500), Some(&target), &|| None);
    assert!(named("m") && named(""));
    let long = "x".repeat(MAX_MODEL_LENGTH + 1);
    metrics.record_request(&request(&long, 200), Some(&target), &|| None);
    assert!(!named(&long));
}

#[test]
fn names_that_clients_make_up_leave_the_page_small() {
    let metrics = Metrics::new().unwrap();
    for status in [200, 404] {
        for number in 0..10_000 {
            let model = format!("made-up-{number}");
            metrics.record_request(&request(&model, status), Some(&TargetSeries::default()), &|| None);
        }
    }
    for number in 0..10_000 {
        let target = format!("config.targets[{}]", number % 199);
        let provider = format!("p{}", number % 61);
        metrics.record_failed_attempt(&provider, &target, "401");
    }
    let page = String::from_utf8(metrics.render(&[])).unwrap();
    let models = page.matches("gen_ai_client_operation_duration_seconds_count{").count();
    assert_eq!(models, MAX_CALLS + 1);
    assert!(page.matches("\nturnpike_attempts_total{").count() <= MAX_ATTEMPTS + 61);
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
}
