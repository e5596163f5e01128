//! `GET /models` and `GET /models/{id}`, in OpenAI's shape, in Anthropic's if its version header is sent, or in Google's below its
//! version of the API.

use super::call::Call;
use super::reply::{ApiError, Dialect, Reply};
use serde_json::{Value, json};

const MODELS: [&str; 4] = ["emulator", "emulator-echo", "emulator-mini", "emulator-embedding"];
const CREATED: u64 = 1_750_000_000;

fn dialect(call: &Call<'_>) -> Dialect {
    let google = call.parts.uri.path().contains("/v1beta/");
    if call.parts.headers.contains_key("anthropic-version") {
        Dialect::Anthropic
    } else if google {
        Dialect::Gemini
    } else {
        Dialect::OpenAi
    }
}

fn model(id: &str, dialect: Dialect) -> Value {
    match dialect {
        Dialect::Gemini => json!({
            "name": format!("models/{id}"), "version": "001", "displayName": id,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }),
        Dialect::OpenAi | Dialect::Bedrock | Dialect::Cohere => {
            json!({"id": id, "object": "model", "created": CREATED, "owned_by": "emulator"})
        }
        Dialect::Anthropic => {
            json!({"type": "model", "id": id, "display_name": id, "created_at": "2025-06-15T15:06:40Z"})
        }
    }
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let dialect = dialect(call);
    let data: Vec<Value> = MODELS.iter().map(|id| model(id, dialect)).collect();
    let list = match dialect {
        Dialect::Gemini => json!({"models": data}),
        Dialect::OpenAi | Dialect::Bedrock | Dialect::Cohere => {
            json!({"object": "list", "data": data})
        }
        Dialect::Anthropic => json!({
            "data": data, "has_more": false, "first_id": MODELS.first(), "last_id": MODELS.last(),
        }),
    };
    Ok(Reply::value(&list).in_dialect(dialect))
}

/// Every model exists except `missing-*`: tests invent names as they like.
pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let dialect = dialect(call);
    let (id, script) = call.model(Some(call.id), dialect)?;
    Ok(Reply::value(&model(id, dialect)).in_dialect(dialect).scripted(script))
}
