//! The gateway's list of models: read from providers' lists in OpenAI's shape, written in the client's.
//!
//! Not where the lists come from (`engine::model_list`), and not how long they are kept (`state::model_lists`).

use crate::api::gemini::{GeminiModel, GeminiModels};
use crate::api::model_facts::ModelFacts;
use serde::Serialize;
use serde_json::{Map, Value};

/// The most models taken of one provider.
const MAX_MODELS: usize = 10_000;
/// The longest name of a model, bytes.
const MAX_ID: usize = 512;

/// Whose shape a client expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListShape {
    OpenAi,
    Anthropic,
    Gemini,
}

/// One model of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderModel {
    /// As the provider names it.
    pub id: Box<str>,
    /// Unix seconds; 0 where the provider does not say.
    pub created: u64,
    /// What is known of it besides.
    pub facts: Option<Box<ModelFacts>>,
}

/// One line of the gateway's list: a name that works as `model`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedModel {
    /// A name of `models`, `@slug/model`, or `@config`.
    pub id: String,
    object: &'static str,
    created: u64,
    /// The provider's id; `config` for a saved config.
    owned_by: String,
    /// The slug of the stored provider; `None` for a saved config.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    facts: Option<Box<ModelFacts>>,
}

/// Reads a provider's list; `None` if it is none.
pub fn read(body: &[u8]) -> Option<Vec<ProviderModel>> {
    let mut list: Value = serde_json::from_slice(body).ok()?;
    // Together AI sends the bare list.
    let data = if list.is_array() { list } else { list.get_mut("data").map(Value::take)? };
    let Value::Array(models) = data else { return None };
    let models = models.into_iter().filter_map(|model| {
        let id = model.get("id")?.as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID)?;
        let created = model.get("created").and_then(Value::as_u64).unwrap_or_default();
        Some(ProviderModel { id: id.into(), created, facts: ModelFacts::read(&model) })
    });
    Some(models.take(MAX_MODELS).collect())
}

impl ListedModel {
    pub fn of_provider(model: &ProviderModel, slug: &str, provider: &str) -> Self {
        Self {
            id: format!("@{slug}/{}", model.id),
            object: "model",
            created: model.created,
            owned_by: provider.to_owned(),
            provider: Some(slug.to_owned()),
            facts: model.facts.clone(),
        }
    }

    /// The same under another name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { id: name.to_owned(), ..self }
    }

    pub fn of_config(id: &str) -> Self {
        Self {
            id: format!("@{id}"),
            object: "model",
            created: 0,
            owned_by: "config".to_owned(),
            provider: None,
            facts: None,
        }
    }

    /// Anthropic's shape of it.
    fn anthropic(&self) -> AnthropicModel<'_> {
        let seconds = i64::try_from(self.created).unwrap_or_default();
        let created_at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        AnthropicModel {
            r#type: "model",
            id: &self.id,
            display_name: &self.id,
            created_at: created_at.to_string(),
            provider: self.provider.as_deref(),
            facts: self.facts.as_ref().map(|facts| facts.anthropic()).unwrap_or_default(),
        }
    }

    /// Gemini's shape of it.
    fn gemini(&self) -> GeminiModel<'_> {
        GeminiModel::new(&self.id).with_facts(self.facts.as_deref())
    }

    /// The JSON of one model.
    pub fn json(&self, shape: ListShape) -> Vec<u8> {
        match shape {
            ListShape::OpenAi => json(self),
            ListShape::Anthropic => json(&self.anthropic()),
            ListShape::Gemini => json(&self.gemini()),
        }
    }
}

/// The JSON of the list.
pub fn list_json(models: &[ListedModel], shape: ListShape) -> Vec<u8> {
    match shape {
        ListShape::OpenAi => json(&OpenAiList { object: "list", data: models }),
        ListShape::Anthropic => json(&AnthropicList {
            data: models.iter().map(ListedModel::anthropic).collect(),
            has_more: false,
            first_id: models.first().map(|model| model.id.as_str()),
            last_id: models.last().map(|model| model.id.as_str()),
        }),
        ListShape::Gemini => json(&GeminiModels { models: models.iter().map(ListedModel::gemini).collect() }),
    }
}

#[derive(Serialize)]
struct OpenAiList<'a> {
    object: &'static str,
    data: &'a [ListedModel],
}

#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicModel<'a> {
    r#type: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    // Texts and numbers always serialize.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn providers_lists_are_read() {
        let ids = |body: &str| {
            let models = read(body.as_bytes())?;
            Some(
                models
                    .into_iter()
                    .map(|model| (model.id.into(), model.created))
                    .collect::<Vec<(String, u64)>>(),
            )
        };
        let two = vec![("a".to_owned(), 7), ("b/c".to_owned(), 0)];
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"a","created":7},{"id":"b/c"}]}"#),
            Some(two.clone())
        );
        assert_eq!(ids(r#" [{"id":"a","created":7,"x":{}},{"id":"b/c","created":null}]"#), Some(two));
        assert_eq!(ids(r#"{"data":[{"id":""},{"name":"x"},{"id":null}]}"#), Some(vec![]));
        assert_eq!((ids("<html>"), ids(r#"{"error":{}}"#)), (None, None));
        let many: Vec<Value> = (0..MAX_MODELS + 5).map(|number| json!({"id": number.to_string()})).collect();
        assert_eq!(ids(&json!({"data": many}).to_string()).unwrap().len(), MAX_MODELS);
        let long = json!({"data": [{"id": "x".repeat(MAX_ID + 1)}]}).to_string();
        assert_eq!(ids(&long), Some(vec![]));
    }

    #[test]
    fn the_list_is_written_in_each_shape() {
        let model = ProviderModel { id: "m".into(), created: 1_700_000_000, facts: None };
        let models = [ListedModel::of_provider(&model, "s", "openai"), ListedModel::of_config("c")];
        let written = |shape| serde_json::from_slice::<Value>(&list_json(&models, shape)).unwrap();
        assert_eq!(
            written(ListShape::OpenAi),
            json!({"object": "list", "data": [
                {"id": "@s/m", "object": "model", "created": 1_700_000_000, "owned_by": "openai", "provider": "s"},
                {"id": "@c", "object": "model", "created": 0, "owned_by": "config"},
            ]})
        );
        assert_eq!(
            written(ListShape::Anthropic),
            json!({"has_more": false, "first_id": "@s/m", "last_id": "@c", "data": [
                {"type": "model", "id": "@s/m", "display_name": "@s/m", "created_at": "2023-11-14T22:13:20Z", "provider": "s"},
                {"type": "model", "id": "@c", "display_name": "@c", "created_at": "1970-01-01T00:00:00Z"},
            ]})
        );
        let methods = json!(["generateContent", "countTokens"]);
        let gemini = |name: &str| json!({"name": format!("models/{name}"), "displayName": name, "supportedGenerationMethods": methods});
        assert_eq!(written(ListShape::Gemini), json!({"models": [gemini("@s/m"), gemini("@c")]}));
        let one: Value = serde_json::from_slice(&models[0].json(ListShape::Gemini)).unwrap();
        assert_eq!(one, gemini("@s/m"));
        let empty: Value = serde_json::from_slice(&list_json(&[], ListShape::Anthropic)).unwrap();
        assert_eq!(empty, json!({"data": [], "has_more": false, "first_id": null, "last_id": null}));
    }
}
