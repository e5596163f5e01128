//! `GET /v1/logs/{id}/prompt-cache`: what a provider's cache of prompts could keep of one request for another, and what was in the way.
//!
//! Says what the two requests and the provider's rules come to; what the cache has done is in `cached_units`.

use super::{bytes_of_bodies, find, kept_bodies};
use crate::call::Call;
use crate::field::{Field, Type, nullable, required};
use crate::reply::Reply;
use knowledge::provider::prompt_cache::PromptCache;
use memory::ledger::Row;
use serde_json::{Map, Value, json};
use words::api::prompt_parting::{PartingPlace, PromptParting};
use words::error::Error;

/// Bytes of text for a token, where the provider has not counted: as a rule of English text.
const BYTES_A_TOKEN: u64 = 4;

pub(super) const QUERY: &[Field] =
    &[required("after", Type::Text(256), "The id or trace id of the earlier request.")];

const PLACE: &[Field] = &[
    required("path", Type::Text(10_000), "Where the text stands in the later body."),
    required("byte", Type::Integer(0, i64::MAX), "From which byte of the text on it is another."),
    required("before", Type::Text(100), "What the earlier request had there, cut."),
    required("now", Type::Text(100), "What the later one has; empty: its prompt ends there."),
];

const CAUSES: &[&str] = &["changed", "other_model", "other_target", "time", "too_short"];

pub(super) const REPLY: &[Field] = &[
    required("earlier", Type::Uuid, "The log that `after` names."),
    required("later", Type::Uuid, "The log that the path names."),
    required("seconds_between", Type::Number(0.0, 1e15), "From one to the other."),
    nullable("req_units", Type::Integer(0, i64::MAX), "Input tokens of the later one."),
    nullable("cached_units", Type::Integer(0, i64::MAX), "Those that its provider has read from its cache."),
    required("common_bytes", Type::Integer(0, i64::MAX), "Text of the prompts that both begin with."),
    required("earlier_bytes", Type::Integer(0, i64::MAX), "Text of the earlier prompt."),
    required("later_bytes", Type::Integer(0, i64::MAX), "Text of the later prompt."),
    required("common_units", Type::Integer(0, i64::MAX), "Tokens of the common beginning, estimated."),
    required(
        "minimum_units",
        Type::Integer(0, i64::MAX),
        "Shorter beginnings are not cached (docs/config.md).",
    ),
    nullable(
        "time_to_live",
        Type::Number(0.0, 1e15),
        "Seconds that an unused beginning stays; null: as long as there is room.",
    ),
    required(
        "causes",
        Type::List(&Type::OneOf(CAUSES), 0, 5),
        "What was in the way of the whole earlier prompt; empty: nothing.",
    ),
    nullable(
        "parted_at",
        Type::Object(PLACE),
        "The first text that is another; null: the later prompt begins with the whole earlier one.",
    ),
];

pub(super) async fn compare(call: Call) -> Result<Reply, Error> {
    if call.data_access().without_bodies {
        return Err(Error::forbidden(
            "This key may not see the bodies of requests, which are compared here.",
        ));
    }
    let named = call.named().to_owned();
    let after = call.query.get("after").and_then(Value::as_str).unwrap_or_default().to_owned();
    let later = find(&call, &named).await?;
    let earlier = find(&call, &after).await?;
    if earlier.id == later.id || earlier.created_ms > later.created_ms {
        return Err(Error::invalid_request("after", "after must name an earlier request than the path."));
    }
    let _held = call.hold(bytes_of_bodies(&call, &earlier) + bytes_of_bodies(&call, &later))?;
    let before = body(&call, &earlier).await?;
    let now = body(&call, &later).await?;
    let parting = PromptParting::of(&before, &now);
    Ok(Reply::from(Comparison { earlier, later, parting, is_kept_longer: is_kept_longer(&before) }.view()))
}

/// The body that the provider got.
async fn body(call: &Call, row: &Row) -> Result<Value, Error> {
    let mut kept: Map<String, Value> = kept_bodies(call, row).await?.unwrap_or_default();
    let body = kept.remove("transformed_request").or_else(|| kept.remove("request"));
    let is_whole = |body: &Value| body.is_object() && body.get("cut").is_none();
    body.filter(is_whole).ok_or_else(|| {
        Error::not_found(format!(
            "The request of the log {} was not kept as a whole (logs.payloads and logs.max_payload_bytes of the settings).",
            row.id
        ))
    })
}

/// Whether a request asks for the longer of the provider's times.
fn is_kept_longer(body: &Value) -> bool {
    body["prompt_cache_retention"] == "24h" || body.to_string().contains(r#""ttl":"1h""#)
}

/// Two requests, and what they have in common.
struct Comparison {
    earlier: Row,
    later: Row,
    parting: PromptParting,
    is_kept_longer: bool,
}

impl Comparison {
    fn view(&self) -> Value {
        let Self { earlier, later, parting, .. } = self;
        let cache = self.cache();
        let time = self.time_to_live(cache);
        json!({
            "earlier": earlier.id,
            "later": later.id,
            "seconds_between": self.seconds_between(),
            "req_units": later.input_tokens,
            "cached_units": later.cached_tokens,
            "common_bytes": parting.common,
            "earlier_bytes": parting.earlier,
            "later_bytes": parting.later,
            "common_units": self.common_tokens(),
            "minimum_units": cache.min_tokens,
            "time_to_live": time,
            "causes": self.causes(cache, time),
            "parted_at": parting.at.as_ref().map(place),
        })
    }

    fn cache(&self) -> PromptCache {
        let row = &self.later;
        let model = row.model.as_deref().unwrap_or_default();
        PromptCache::find(row.vendor.as_deref().unwrap_or_default(), false, model)
    }

    fn time_to_live(&self, cache: PromptCache) -> Option<f64> {
        let time = if self.is_kept_longer { cache.long_ttl } else { cache.ttl };
        time.map(|time| time.as_secs_f64())
    }

    fn seconds_between(&self) -> f64 {
        let ms = self.later.created_ms.saturating_sub(self.earlier.created_ms);
        std::time::Duration::from_millis(ms.unsigned_abs()).as_secs_f64()
    }

    /// By the provider's count of the later prompt, as far as there is one.
    fn common_tokens(&self) -> u64 {
        let PromptParting { common, later, .. } = self.parting;
        match self.later.input_tokens {
            Some(tokens) if later > 0 => {
                u64::try_from(u128::from(tokens) * u128::from(common) / u128::from(later)).unwrap_or(u64::MAX)
            }
            _ => common / BYTES_A_TOKEN,
        }
    }

    fn causes(&self, cache: PromptCache, time: Option<f64>) -> Vec<&'static str> {
        let Self { earlier, later, parting, .. } = self;
        let is_other_target = earlier.provider != later.provider || earlier.vendor != later.vendor;
        let all = [
            ("changed", parting.at.is_some()),
            ("other_model", earlier.model != later.model),
            ("other_target", is_other_target),
            ("time", time.is_some_and(|time| self.seconds_between() > time)),
            ("too_short", self.common_tokens() < u64::from(cache.min_tokens)),
        ];
        all.into_iter().filter(|(_, is_so)| *is_so).map(|(cause, _)| cause).collect()
    }
}

fn place(place: &PartingPlace) -> Value {
    json!({"path": place.path, "byte": place.byte, "before": place.before, "now": place.now})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(between_ms: i64, change: impl Fn(&mut Row, &mut Value)) -> Value {
        let row = |ms: i64| Row {
            created_ms: ms,
            vendor: Some("anthropic".into()),
            model: Some("claude-sonnet-5".into()),
            input_tokens: Some(3000),
            ..Row::default()
        };
        let earlier = json!({"system": "s".repeat(9_000), "messages": [{"content": "a"}]});
        let mut now = json!({"system": "s".repeat(9_000), "messages": [{"content": "a"}, {"content": "b"}]});
        let mut later = row(between_ms);
        change(&mut later, &mut now);
        let parting = PromptParting::of(&earlier, &now);
        Comparison { earlier: row(0), later, parting, is_kept_longer: is_kept_longer(&earlier) }.view()
    }

    #[test]
    fn each_cause_is_named() {
        let causes = |between_ms, change: &dyn Fn(&mut Row, &mut Value)| {
            compared(between_ms, change)["causes"].clone()
        };
        assert_eq!(causes(1000, &|_, _| ()), json!([]));
        assert_eq!(causes(301_000, &|_, _| ()), json!(["time"]));
        assert_eq!(causes(1000, &|row, _| row.vendor = Some("bedrock".into())), json!(["other_target"]));
        assert_eq!(causes(1000, &|row, _| row.model = Some("claude-opus-5".into())), json!(["other_model"]));
        assert_eq!(causes(1000, &|row, _| row.input_tokens = Some(900)), json!(["too_short"]));
        let changed = |_: &mut Row, body: &mut Value| body["messages"][0]["content"] = json!("x");
        assert_eq!(causes(1000, &changed), json!(["changed"]));
        let view = compared(1000, changed);
        assert_eq!(
            view["parted_at"],
            json!({"path": "messages[0].content", "byte": 0, "before": "a", "now": "x"})
        );
        assert_eq!((&view["common_bytes"], &view["common_units"]), (&json!(9000), &json!(2999)));
    }
}
