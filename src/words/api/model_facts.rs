//! What is known of a model beside its name: how much it takes, of what kind, and what it costs.
//!
//! Read from providers' lists, which have it in several ways, and written in the client's shape. Not here: what the catalogue of
//! prices knows (`price`).

use serde::Serialize;
use serde_json::{Map, Value, json};

/// What is known. Absent: nobody says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelFacts {
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_modalities: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_modalities: Option<Vec<String>>,
    /// Whether it takes tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// US dollars per million tokens, by kind of token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Map<String, Value>>,
}

/// Where providers' lists have the context window. The first that is there counts: OpenRouter, Together AI and Fireworks; Groq; Mistral;
/// vLLM; Anthropic.
const CONTEXT_WINDOW: [&str; 5] =
    ["/context_length", "/context_window", "/max_context_length", "/max_model_len", "/max_input_tokens"];

/// OpenRouter; Groq; Anthropic.
const MAX_OUTPUT: [&str; 3] =
    ["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_tokens"];

/// Whether it takes tools: Mistral; Fireworks.
const TOOLS: [&str; 2] = ["/capabilities/function_calling", "/supports_tools"];

/// Whether it takes images: Mistral; Fireworks; Anthropic.
const IMAGES: [&str; 3] =
    ["/capabilities/vision", "/supports_image_input", "/capabilities/image_input/supported"];

impl ModelFacts {
    /// What an entry of a provider's list says; `None`: nothing.
    pub(crate) fn read(entry: &Value) -> Option<Box<Self>> {
        let number = |places: &[&str]| places.iter().find_map(|place| entry.pointer(place)?.as_u64());
        let flag = |places: &[&str]| places.iter().find_map(|place| entry.pointer(place)?.as_bool());
        let texts = |place: &str| {
            let list = entry.pointer(place)?.as_array()?;
            Some(list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>())
        };
        let by_flag = || {
            let takes_images = flag(&IMAGES)?;
            let image = takes_images.then(|| "image".to_owned());
            Some(std::iter::once("text".to_owned()).chain(image).collect())
        };
        let parameters =
            || texts("/supported_parameters").map(|names| names.iter().any(|name| name == "tools"));
        let facts = Self {
            context_window: number(&CONTEXT_WINDOW).filter(|tokens| *tokens > 0),
            max_output_tokens: number(&MAX_OUTPUT).filter(|tokens| *tokens > 0),
            input_modalities: texts("/architecture/input_modalities").or_else(by_flag),
            output_modalities: texts("/architecture/output_modalities"),
            tools: flag(&TOOLS).or_else(parameters),
            prices: None,
        };
        (facts != Self::default()).then(|| Box::new(facts))
    }

    /// The members of Anthropic's shape.
    pub(super) fn anthropic(&self) -> Map<String, Value> {
        let takes =
            |modality: &str| self.input_modalities.as_ref().map(|all| all.iter().any(|one| one == modality));
        let supported = |supported: bool| json!({"supported": supported});
        let capabilities = takes("image").map(|image| json!({"image_input": supported(image)}));
        let members = [
            ("max_input_tokens", self.context_window.map(Value::from)),
            ("max_tokens", self.max_output_tokens.map(Value::from)),
            ("capabilities", capabilities),
            ("tools", self.tools.map(Value::from)),
            ("prices", self.prices.clone().map(Value::Object)),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_several_vendors_are_read() {
        let texts = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let openrouter = json!({"id": "a/b", "context_length": 200_000, "top_provider": {"max_completion_tokens": 64_000},
            "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
            "supported_parameters": ["temperature", "tools"]});
        let mistral = json!({"max_context_length": 128_000, "capabilities": {"function_calling": true, "vision": false}});
        let anthropic = json!({"max_input_tokens": 200_000, "max_tokens": 64_000,
            "capabilities": {"image_input": {"supported": true}}});
        for (entry, wanted) in [
            (
                openrouter,
                ModelFacts {
                    context_window: Some(200_000),
                    max_output_tokens: Some(64_000),
                    input_modalities: texts(&["text", "image"]),
                    output_modalities: texts(&["text"]),
                    tools: Some(true),
                    prices: None,
                },
            ),
            (
                mistral,
                ModelFacts {
                    context_window: Some(128_000),
                    input_modalities: texts(&["text"]),
                    tools: Some(true),
                    ..ModelFacts::default()
                },
            ),
            (
                anthropic,
                ModelFacts {
                    context_window: Some(200_000),
                    max_output_tokens: Some(64_000),
                    input_modalities: texts(&["text", "image"]),
                    ..ModelFacts::default()
                },
            ),
        ] {
            assert_eq!(ModelFacts::read(&entry), Some(Box::new(wanted)), "{entry}");
        }
        for entry in [json!({"id": "m", "created": 5}), json!({"max_model_len": 0}), json!([])] {
            assert_eq!(ModelFacts::read(&entry), None, "{entry}");
        }
    }

    #[test]
    fn anthropics_clients_read_their_names() {
        let facts = ModelFacts {
            context_window: Some(9),
            max_output_tokens: Some(3),
            input_modalities: Some(vec!["text".to_owned()]),
            ..ModelFacts::default()
        };
        let wanted = json!({"max_input_tokens": 9, "max_tokens": 3, "capabilities": {"image_input": {"supported": false}}});
        assert_eq!(Value::Object(facts.anthropic()), wanted);
    }
}
