//! Edits of a body that goes to Google in the client's own bytes, and what routing reads of it.

use super::generation::own_name;
use super::names::{camel, snake};
use super::signature::WRAPPED;
use crate::api::body::{Body, Edit};
use crate::api::output_bounds::most;
use crate::error::Error;
use crate::json::Json;
use crate::json::path::JsonPath;
use crate::json::whole_number::whole_number;
use serde_json::Value;
use std::borrow::Cow;

/// The two spellings of a member's name.
const CONFIG: [&str; 2] = ["generationConfig", "generation_config"];

/// The number of requested candidates.
pub fn candidates(body: &Body) -> u64 {
    with_numbers(body, "candidateCount", |values| values.filter_map(whole_number).max()).unwrap_or(1)
}

/// The bound of the output of one candidate, in tokens; `None`: it has none, or none that can be read.
pub(in crate::api) fn most_output(body: &Body) -> Option<u64> {
    with_numbers(body, "maxOutputTokens", |values| most(values))
}

/// Calls `read` with every value of a member of the configuration: it may occur in both spellings.
fn with_numbers<T>(body: &Body, wanted: &str, read: impl FnOnce(&mut dyn Iterator<Item = &[u8]>) -> T) -> T {
    let texts =
        CONFIG.iter().flat_map(|name| body.every(name)).filter_map(|text| std::str::from_utf8(text).ok());
    let configs = texts.filter_map(Json::members).flatten();
    let found: Vec<Json<'_>> =
        configs.filter(|(name, _)| camel(name) == wanted).map(|(_, value)| value).collect();
    read(&mut found.iter().map(|value| value.get().as_bytes()))
}

/// The edits that `override_params` make: OpenAI's parameters go to `generationConfig`, members of the dialect to their place.
/// The model and the stream are in the path and not in the body.
pub fn override_edits<'a>(body: &Body, params: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Edit<'a>> {
    let mut edits = Vec::new();
    let mut own: Vec<(&'static str, Cow<'a, str>)> = Vec::new();
    for (name, value) in params {
        match (name, own_name(name)) {
            ("model" | "stream", _) => {}
            (_, Some("stopSequences")) if value.starts_with('"') => {
                own.push(("stopSequences", Cow::Owned(format!("[{value}]"))));
            }
            (_, Some(parameter)) => own.push((parameter, Cow::Borrowed(value))),
            (name, None) => {
                // Google takes a member once, in either spelling.
                let other = CONFIG.iter().find(|other| camel(other) == camel(name) && **other != name);
                edits.extend(other.map(|other| Edit::Remove(other)));
                edits.push(Edit::Set(name, Cow::Borrowed(value)));
            }
        }
    }
    if !own.is_empty() {
        let name =
            if body.raw("generation_config").is_some() { "generation_config" } else { "generationConfig" };
        let before = body.raw(name).and_then(Json::members).unwrap_or_default();
        let kept = before.iter().filter(|(name, _)| !own.iter().any(|(own, _)| *own == camel(name)));
        let kept = kept.map(|(name, json)| (name.as_ref(), json.get()));
        let config = Json::object_of(kept.chain(own.iter().map(|(name, json)| (*name, json.as_ref()))));
        edits.push(Edit::Set(name, Cow::Owned(config.get().to_owned())));
    }
    edits
}

/// Whether the body has a parameter, under OpenAI's name for it or its own. The model and the stream are in the path.
pub fn has_param(body: &Body, name: &str) -> bool {
    let Some(own) = own_name(name) else {
        return matches!(name, "model" | "stream") || body.names().any(|sent| camel(sent) == camel(name));
    };
    let texts = CONFIG.iter().filter_map(|config| body.raw(config));
    texts.filter_map(Json::members).flatten().any(|(sent, _)| camel(&sent) == own)
}

/// Where a parameter of OpenAI's name is in a body, in every spelling; empty for other names.
pub fn paths_of(path: &JsonPath) -> Vec<JsonPath> {
    let Some(own) = own_name(path.first()) else { return Vec::new() };
    let spellings = [own.to_owned(), snake(own)];
    CONFIG.iter().flat_map(|config| spellings.iter().map(|own| path.moved_to(config, own))).collect()
}

/// The edit that leaves out what other providers signed or encrypted in earlier turns: Google would refuse the request for it.
/// `None` for a request without such signatures, which is nearly every one.
///
/// # Errors
/// 400 if the request has such signatures and too many values.
pub fn foreign_signatures(body: &Body) -> Result<Option<Edit<'static>>, Error> {
    if memchr::memmem::find(body.bytes(), WRAPPED.as_bytes()).is_none() {
        return Ok(None);
    }
    body.check_values("Google with the signatures of other providers")?;
    Ok(body.read("contents").and_then(without_signatures))
}

fn without_signatures(mut contents: Value) -> Option<Edit<'static>> {
    for content in contents.as_array_mut()? {
        let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { continue };
        parts.retain_mut(|part| {
            let Some(part) = part.as_object_mut() else { return true };
            let mut removed = false;
            for name in ["thoughtSignature", "thought_signature"] {
                if part.get(name).and_then(Value::as_str).is_some_and(|text| text.starts_with(WRAPPED)) {
                    part.remove(name);
                    removed = true;
                }
            }
            // What is left of a part that only carried the signature.
            let is_empty = part.get("text").is_none_or(|text| text == "")
                && part.keys().all(|name| name == "text" || name == "thought");
            !(removed && is_empty)
        });
    }
    Some(Edit::Set("contents", Cow::Owned(contents.to_string())))
}

#[cfg(test)]
mod tests {
    use super::super::signature::Signature;
    use super::*;

    fn body(text: &str) -> Body {
        Body::parse(text.to_owned().into()).unwrap()
    }

    fn edited(text: &str, params: &[(&str, &str)]) -> String {
        let body = body(text);
        let bytes = body.edit(&override_edits(&body, params.iter().copied()));
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn overriding_parameters_go_to_their_place() {
        for (text, params, wanted) in [
            (
                r#"{"contents":[],"generationConfig":{"topP":0.50,"max_output_tokens":9}}"#,
                vec![("temperature", "0"), ("max_tokens", "5"), ("model", "\"m\""), ("stop", "\"x\"")],
                r#"{"contents":[],"generationConfig":{"topP":0.50,"temperature":0,"maxOutputTokens":5,"stopSequences":["x"]}}"#,
            ),
            (
                r#"{"generation_config":{"seed":1}}"#,
                vec![("seed", "2"), ("labels", r#"{"a":"b"}"#)],
                r#"{"generation_config":{"seed":2},"labels":{"a":"b"}}"#,
            ),
            (r#"{"a":1}"#, vec![("n", "2")], r#"{"a":1,"generationConfig":{"candidateCount":2}}"#),
            (r#"{"a":1}"#, vec![("model", "\"m\""), ("stream", "true")], r#"{"a":1}"#),
        ] {
            assert_eq!(edited(text, &params), wanted);
        }
    }

    #[test]
    fn parameters_are_found_in_their_place() {
        let body =
            body(r#"{"generation_config":{"max_output_tokens":1,"topP":1},"labels":{},"toolConfig":{}}"#);
        for (name, has) in [
            ("max_tokens", true),
            ("max_completion_tokens", true),
            ("top_p", true),
            ("temperature", false),
            ("labels", true),
            ("tool_config", true),
            ("safetySettings", false),
            ("model", true),
        ] {
            assert_eq!(has_param(&body, name), has, "{name}");
        }
        let drop = |path: &str| {
            let text = std::str::from_utf8(body.bytes()).unwrap();
            crate::json::path::without(text, &paths_of(&JsonPath::parse(path).unwrap()))
        };
        let wanted = r#"{"generation_config":{"topP":1},"labels":{},"toolConfig":{}}"#;
        assert_eq!(drop("max_tokens").as_deref(), Some(wanted));
        assert_eq!((drop("temperature"), drop("labels")), (None, None));
    }

    #[test]
    fn only_signatures_of_others_are_left_out() {
        let other = Signature::Reasoning("x".into()).encode();
        let text = format!(
            r#"{{"contents":[{{"role":"model","parts":[{{"text":"t","thought":true,"thoughtSignature":"{other}"}},{{"text":"","thought":true,"thought_signature":"{other}"}},{{"text":"a","thoughtSignature":"R29vZ2xl"}}]}}]}}"#
        );
        let with_others = body(&text);
        let edit = foreign_signatures(&with_others).unwrap().unwrap();
        let sent: Value = serde_json::from_slice(&with_others.edit(&[edit])).unwrap();
        assert_eq!(
            sent["contents"][0]["parts"],
            serde_json::json!([{"text": "t", "thought": true}, {"text": "a", "thoughtSignature": "R29vZ2xl"}])
        );
        assert!(foreign_signatures(&body(r#"{"contents":[]}"#)).unwrap().is_none());
    }

    #[test]
    fn candidates_are_counted() {
        assert_eq!(candidates(&body(r#"{"generationConfig":{"candidateCount":3}}"#)), 3);
        assert_eq!(candidates(&body(r#"{"generation_config":{"candidate_count":2}}"#)), 2);
        assert_eq!(candidates(&body("{}")), 1);
    }
}
