//! What a request asks of a model, by the names of OpenTelemetry's conventions: temperature, the most tokens, stop sequences …
//!
//! Read from the body that the provider got, whichever vendor's it is: these members have few names.

use opentelemetry::{KeyValue, StringValue, Value};
use words::json::string::unquote;
use words::json::walk;

/// The longest body that is looked into, bytes: a longer one would take the request's thread for more than a millisecond.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Stop sequences that are shown.
const MAX_STOPS: usize = 16;
/// Bytes of each.
const MAX_STOP_BYTES: usize = 64;

/// How a value is shown.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Number,
    Integer,
    /// How many choices: one is what everyone gets.
    Choices,
    Stops,
}

/// The names of vendors: OpenAI's and Anthropic's, Gemini's, those of Bedrock's Converse.
const NAMES: &[(&[u8], &str, Kind)] = &[
    (b"temperature", "gen_ai.request.temperature", Kind::Number),
    (b"top_p", "gen_ai.request.top_p", Kind::Number),
    (b"topP", "gen_ai.request.top_p", Kind::Number),
    (b"top_k", "gen_ai.request.top_k", Kind::Number),
    (b"topK", "gen_ai.request.top_k", Kind::Number),
    (b"frequency_penalty", "gen_ai.request.frequency_penalty", Kind::Number),
    (b"frequencyPenalty", "gen_ai.request.frequency_penalty", Kind::Number),
    (b"presence_penalty", "gen_ai.request.presence_penalty", Kind::Number),
    (b"presencePenalty", "gen_ai.request.presence_penalty", Kind::Number),
    (b"seed", "gen_ai.request.seed", Kind::Integer),
    (b"max_tokens", "gen_ai.request.max_tokens", Kind::Integer),
    (b"max_completion_tokens", "gen_ai.request.max_tokens", Kind::Integer),
    (b"max_output_tokens", "gen_ai.request.max_tokens", Kind::Integer),
    (b"maxOutputTokens", "gen_ai.request.max_tokens", Kind::Integer),
    (b"maxTokens", "gen_ai.request.max_tokens", Kind::Integer),
    (b"n", "gen_ai.request.choice.count", Kind::Choices),
    (b"candidateCount", "gen_ai.request.choice.count", Kind::Choices),
    (b"stop", "gen_ai.request.stop_sequences", Kind::Stops),
    (b"stop_sequences", "gen_ai.request.stop_sequences", Kind::Stops),
    (b"stopSequences", "gen_ai.request.stop_sequences", Kind::Stops),
];
/// The members that such members may stand in.
const INSIDE: [&[u8]; 3] = [b"generationConfig", b"generation_config", b"inferenceConfig"];

/// The attributes of a body, each once; none of what is no JSON object, or too long.
pub(super) fn of_body(body: &[u8]) -> Vec<KeyValue> {
    let mut found = Vec::new();
    if body.len() <= MAX_BODY_BYTES {
        collect(body, true, &mut found);
    }
    found
}

fn collect(object: &[u8], is_outermost: bool, found: &mut Vec<KeyValue>) {
    for (name, value) in walk::members(object).into_iter().flatten() {
        if is_outermost && INSIDE.contains(&name) {
            collect(value, false, found);
            continue;
        }
        let Some((_, attribute, kind)) = NAMES.iter().find(|(own, ..)| *own == name) else { continue };
        if found.iter().any(|other| other.key.as_str() == *attribute) {
            continue;
        }
        found.extend(shown(*kind, value).map(|value| KeyValue::new(*attribute, value)));
    }
}

/// The value; `None`: it has another type, or is null.
fn shown(kind: Kind, json: &[u8]) -> Option<Value> {
    let number = || std::str::from_utf8(json).ok()?.parse::<f64>().ok().filter(|number| number.is_finite());
    let integer =
        || number().filter(|number| number.fract() == 0.0 && number.abs() < 9e15).map(|number| number as i64);
    match kind {
        Kind::Number => number().map(Value::F64),
        Kind::Integer => integer().map(Value::I64),
        Kind::Choices => integer().filter(|count| *count != 1).map(Value::I64),
        Kind::Stops => {
            let items: Vec<&[u8]> = match walk::items(json) {
                Some(items) => items.take(MAX_STOPS).collect(),
                None => vec![json],
            };
            let stop = |item: &[u8]| {
                let text = unquote(item)?;
                let text = text.get(..text.floor_char_boundary(MAX_STOP_BYTES)).unwrap_or_default();
                Some(StringValue::from(text.to_owned()))
            };
            let stops: Vec<StringValue> = items.into_iter().filter_map(stop).collect();
            (!stops.is_empty()).then(|| Value::Array(stops.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(body: &str) -> Vec<String> {
        let of = of_body(body.as_bytes());
        of.iter()
            .map(|pair| {
                format!("{}={:?}", pair.key.as_str().trim_start_matches("gen_ai.request."), pair.value)
            })
            .collect()
    }

    #[test]
    fn the_members_of_every_vendor_have_the_conventions_names() {
        let openai = r#"{"model":"m","temperature":0.2,"top_p":1,"max_completion_tokens":50,"max_tokens":60,"n":2,
            "seed":7,"stop":"x","messages":[{"temperature":9}],"presence_penalty":null}"#;
        let wanted = [
            "temperature=F64(0.2)",
            "top_p=F64(1.0)",
            "max_tokens=I64(50)",
            "choice.count=I64(2)",
            "seed=I64(7)",
        ];
        let shown = lines(openai);
        assert_eq!(shown.get(..5).unwrap(), wanted, "{shown:?}");
        let [.., stops] = &shown[..] else { panic!("{shown:?}") };
        assert!(
            shown.len() == 6 && stops.starts_with("stop_sequences=") && stops.contains("\"x\""),
            "{stops}"
        );
        let gemini = r#"{"contents":[],"generationConfig":{"temperature":1,"topK":40,"maxOutputTokens":9,"candidateCount":1}}"#;
        assert_eq!(lines(gemini), ["temperature=F64(1.0)", "top_k=F64(40.0)", "max_tokens=I64(9)"]);
        let bedrock = r#"{"inferenceConfig":{"maxTokens":5,"topP":0.5}}"#;
        assert_eq!(lines(bedrock), ["max_tokens=I64(5)", "top_p=F64(0.5)"]);
        assert_eq!(lines(r#"{"temperature":"warm","max_tokens":1.5,"n":1,"stop":[]}"#), Vec::<String>::new());
        assert_eq!(lines("[1]"), Vec::<String>::new());
    }
}
