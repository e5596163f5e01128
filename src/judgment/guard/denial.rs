//! What a denial shows of the results of its hooks: counts and places, and nothing of what it denies.
//!
//! A result shows texts of what was judged: an excerpt, what a pattern has matched, what a server has responded. Who may not have the text may
//! not have these. Results of what passes are shown as they are (`result`).

use super::regex::MAX_SHOWN;
use super::result::{CheckResult, HookResult, HookResults};
use serde_json::{Map, Value, json};

/// The members of a check's data that repeat no text: they are made of the config, or count. Numbers and flags are never a text. Of checks
/// that are not listed nothing else is shown.
const PLAIN: [(&str, &[&str]); 18] = [
    ("default.regexMatch", &["explanation", "regexPattern"]),
    ("default.regexReplace", &["explanation", "regexPattern"]),
    ("default.contains", &["explanation", "operator", "foundWords", "missingWords"]),
    ("default.endsWith", &["explanation", "suffix"]),
    ("default.sentenceCount", &["explanation"]),
    ("default.wordCount", &["explanation"]),
    ("default.characterCount", &["explanation"]),
    ("default.alluppercase", &["explanation"]),
    ("default.alllowercase", &["explanation"]),
    ("default.notNull", &["explanation"]),
    ("default.jsonKeys", &["explanation", "operator", "requiredKeys", "presentKeys", "missingKeys"]),
    ("default.jsonSchema", &["explanation"]),
    ("default.containsCode", &["explanation", "searchedFormat"]),
    ("default.validUrls", &["explanation", "validationMethod"]),
    ("default.webhook", &["explanation", "webhookUrl"]),
    ("default.log", &["explanation", "logUrl"]),
    ("default.pii", &["explanation", "categories", "found"]),
    ("default.promptInjection", &["explanation", "rules"]),
];

/// The checks that read no text: all that they show is of the request's circumstances.
const TEXTLESS: [&str; 6] = [
    "default.modelWhitelist",
    "default.modelRules",
    "default.allowedRequestTypes",
    "default.requiredMetadataKeys",
    "default.requiredMetadataKeyValuePairs",
    "default.jwt",
];

/// The JSON of `hook_results` in a denial: both phases, as far as they ran. `None`: neither did.
pub fn denial_results(before: &[HookResult], after: &[HookResult]) -> Option<String> {
    let without_texts = |results: &[HookResult]| results.iter().map(of_hook).collect::<Vec<_>>();
    let before = without_texts(before);
    let after = without_texts(after);
    HookResults::of(&before, &after)?.to_json()
}

fn of_hook(result: &HookResult) -> HookResult {
    let checks = result.checks.iter().map(of_check).collect();
    HookResult { checks, ..result.clone() }
}

fn of_check(result: &CheckResult) -> CheckResult {
    let data = result.data.as_ref().map(|data| match &*result.id {
        id if TEXTLESS.contains(&id) => data.clone(),
        "default.requestParametersCheck" => without_values(data),
        id => without_texts(id, data),
    });
    CheckResult { data, log: None, ..result.clone() }
}

/// Without what may repeat a text. How much that was is in `withheld`.
fn without_texts(check: &str, data: &Value) -> Value {
    let members = match data {
        Value::Object(members) => members,
        // A partner that was called several times.
        Value::Array(all) => return all.iter().map(|data| without_texts(check, data)).collect(),
        _ => return Value::Null,
    };
    let plain = PLAIN.iter().find(|(id, _)| *id == check).map_or(&[][..], |(_, plain)| plain);
    let is_partner = !check.starts_with("default.");
    let mut shown = Map::new();
    let mut withheld = Map::new();
    for (name, value) in members {
        let count = match value {
            value if plain.contains(&name.as_str()) => {
                shown.insert(name.clone(), value.clone());
                continue;
            }
            Value::Bool(_) | Value::Number(_) | Value::Null => {
                shown.insert(name.clone(), value.clone());
                continue;
            }
            Value::Object(details) if name == "matchDetails" => {
                shown.insert(name.clone(), place(details));
                continue;
            }
            // A partner's names of categories.
            Value::Object(_) if is_partner => {
                shown.insert(name.clone(), without_texts(check, value));
                continue;
            }
            Value::String(text) => text.chars().count(),
            Value::Array(items) => items.len(),
            Value::Object(object) => object.len(),
        };
        withheld.insert(name.clone(), count.into());
    }
    if !withheld.is_empty() {
        shown.insert("withheld".to_owned(), withheld.into());
    }
    shown.into()
}

/// Where a pattern has matched, and how much; of a long text only the beginning is counted.
fn place(details: &Map<String, Value>) -> Value {
    let matched = details.get("matchedText").and_then(Value::as_str).unwrap_or_default();
    let length = matched.encode_utf16().count().min(MAX_SHOWN);
    json!({"index": details.get("index"), "length": length})
}

/// Which parameters are not allowed, without their values.
fn without_values(data: &Value) -> Value {
    let mut data = data.clone();
    let blocked = data.get_mut("blockedParamsFound").and_then(Value::as_array_mut);
    for parameter in blocked.into_iter().flatten().filter_map(Value::as_object_mut) {
        parameter.remove("value");
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::checks::testing::{request, response};
    use crate::guard::outside::{OutsideCall, OutsideError, OutsideResponse};
    use crate::guard::{CHECKS, CheckKind, Outside, Parameters, Prepared, Subject, check_kind};
    use bytes::Bytes;
    use futures_util::FutureExt;
    use futures_util::future::{BoxFuture, ready};
    use std::sync::Arc;
    use std::time::Duration;
    use words::config::hooks::HookPhase;
    use words::config::pattern::PatternBudget;

    const SECRET: &str = "KESTREL";

    /// Repeats what it is sent, in every form that a check may read.
    struct Echo;

    impl Outside for Echo {
        fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
            let text = format!("all of the text: {}", String::from_utf8_lossy(&call.body));
            let result = json!({"flagged": true, "categories": {"hate": true}, "category_scores": {},
                "evaluation_result": {"pass": false, "explanation": text}});
            let body = json!({"verdict": false, "data": {"why": text}, "explanation": text, "action": "BLOCK",
                "results": [result], "flagged": true, "id": text, "text": text, "reason": text});
            let response = OutsideResponse {
                status: http::StatusCode::OK,
                headers: http::HeaderMap::new(),
                body: Bytes::from(body.to_string()),
            };
            Box::pin(ready(Ok(response)))
        }

        fn chat<'a>(&'a self, _: &'a Value, body: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
            let judgment = json!({"verdict": false, "score": 0.1, "reason": body.to_string()}).to_string();
            Box::pin(ready(Ok(json!({"choices": [{"message": {"content": judgment}}]}))))
        }
    }

    /// Parameters with which a check looks at its text.
    fn parameters(kind: &CheckKind) -> Value {
        match kind.id {
            "default.regexMatch" => json!({"rule": r"[\s\S]*KESTREL[\s\S]*", "not": true}),
            "default.regexReplace" => json!({"rule": "K.*", "failOnDetection": true}),
            "default.contains" => json!({"operator": "none", "words": ["https"]}),
            "default.endsWith" => json!({"suffix": "x"}),
            "default.sentenceCount" => json!({"minSentences": 90, "maxSentences": 99}),
            "default.wordCount" => json!({"minWords": 90, "maxWords": 99}),
            "default.characterCount" => json!({"minCharacters": 9000, "maxCharacters": 9900}),
            "default.jsonKeys" => json!({"keys": ["other"], "operator": "all"}),
            "default.jsonSchema" => json!({"schema": {"additionalProperties": {"type": "number"}}}),
            "default.containsCode" => json!({"format": "Rust"}),
            "default.webhook" => json!({"webhookURL": "https://hooks.example"}),
            "default.log" => json!({"logURL": "https://hooks.example"}),
            "default.modelJudge" => json!({"instructions": "be kind", "provider": "@a", "model": "m"}),
            "default.requestParametersCheck" => json!({"params": {"blockedKeys": ["user"]}}),
            "default.addPrefix" => json!({"prefix": "a"}),
            id if id.starts_with("default.") => json!({}),
            _ => json!({"credentials": {"apiKey": "k", "baseUrl": "https://p.example"}}),
        }
    }

    fn finding(kind: &CheckKind, subject: &Subject) -> Option<CheckResult> {
        let Value::Object(members) = parameters(kind) else { return None };
        let patterns = PatternBudget::default();
        let finding = match (kind.prepare)(&Parameters { members: &members, patterns: &patterns }) {
            Ok(Prepared::Local(check)) => check.run(subject),
            Ok(Prepared::Remote(check)) => check.run(subject, &Echo).now_or_never()?,
            Err(_) => return None,
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        Some(CheckResult::new(&Arc::from(kind.id), finding, true, Duration::ZERO, now))
    }

    /// Of every check: its result in a denial repeats nothing of the text that it looked at.
    #[test]
    fn no_check_repeats_what_is_denied() {
        let url = format!("https://{SECRET}.example");
        let text =
            format!("{SECRET} {url} a@{SECRET}.example ```{SECRET}\n{{\"{SECRET}\": \"{SECRET}\"}}\n```");
        let mut ran = 0;
        let mut repeats = 0;
        for kind in CHECKS {
            for phase in kind.phases {
                let subject = match phase {
                    HookPhase::Before => request(&text),
                    HookPhase::After => response(&text),
                };
                let Some(result) = finding(kind, &subject) else { continue };
                ran += 1;
                repeats += usize::from(json!(result).to_string().contains(SECRET));
                let mut denied = json!(of_check(&result));
                if kind.id == "default.regexMatch" {
                    // The pattern is the config's.
                    denied["data"]["explanation"] = Value::Null;
                    denied["data"]["regexPattern"] = Value::Null;
                }
                assert!(!denied.to_string().contains(SECRET), "{} {phase:?}: {denied}", kind.id);
            }
        }
        assert!(ran > 25 && repeats > 8, "{ran} results, of which {repeats} repeat the text");
    }

    #[test]
    fn the_lists_name_checks() {
        for id in PLAIN.iter().map(|(id, _)| *id).chain(TEXTLESS) {
            assert_eq!(check_kind(id).map(|kind| kind.id), Some(id));
        }
    }

    #[test]
    fn a_denial_has_counts_and_places() {
        let result = finding(check_kind("regexMatch").unwrap(), &response("a KESTREL b")).unwrap();
        let denied = of_check(&result).data.unwrap();
        assert_eq!(denied["matchDetails"], json!({"index": 0, "length": 11}));
        assert_eq!(denied["withheld"], json!({"textExcerpt": 11}));
        assert_eq!((&denied["verdict"], &denied["not"]), (&json!(false), &json!(true)));
        let result = finding(check_kind("validUrls").unwrap(), &response("see https://a.example")).unwrap();
        assert!(of_check(&result).data.unwrap()["withheld"]["urls"].is_number());
    }
}
