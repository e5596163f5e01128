//! Every recorded request of OpenAI's Responses API is either parsed or refused for a known limitation.
//!
//! The recordings are not part of the repository; without them next to the checkout the test reports that it
//! was skipped.

use super::super::read;
use crate::api::body::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
struct RecordedRequest<'a> {
    id: String,
    uri: String,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

#[test]
fn recorded_requests_are_read_or_refused_for_a_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(path) else {
        return eprintln!("SKIPPED: no ../shared/traffic/recorded.jsonl next to this checkout");
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        let line: RecordedRequest<'_> = serde_json::from_str(line).unwrap();
        let path = line.uri.split(['?', '#']).next().unwrap_or_default();
        let Some(request) = line.request.filter(|_| path.ends_with("/responses")) else { continue };
        let body = Body::parse(request.get().to_owned().into()).unwrap();
        let outcome = match read(&body) {
            Ok(request) => {
                assert!(!request.messages.is_empty(), "{}", line.id);
                "read".to_owned()
            }
            Err(error) => {
                assert_eq!(error.status(), 400, "{}: {error}", line.id);
                let param = error.param.unwrap_or_default();
                assert!(
                    ["previous_response_id", "conversation", "background"].contains(&param.as_str())
                        || param.starts_with("input["),
                    "{}: {}",
                    line.id,
                    error.message
                );
                error.message
            }
        };
        *counts.entry(outcome).or_default() += 1;
    }
    for (outcome, count) in &counts {
        eprintln!("{count:4}  {outcome}");
    }
    assert!(counts.get("read").is_some_and(|count| *count > 100));
}
