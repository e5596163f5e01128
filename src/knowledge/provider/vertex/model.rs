//! Which publisher and which API a model's name on Vertex AI stands for.

/// The API a model is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelApi {
    /// Gemini's API, and the own methods of Google's other models.
    Gemini,
    /// Anthropic's messages, through `rawPredict`.
    Anthropic,
    /// OpenAI's chat, through `rawPredict`.
    Raw,
    /// OpenAI's chat, at the endpoint that all other partners share.
    Shared,
    /// OpenAI's chat, at an endpoint of the client's own.
    Endpoint,
}

/// A model's name, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelName<'a> {
    pub api: ModelApi,
    pub publisher: &'a str,
    pub name: &'a str,
}

/// Publishers that may be followed by a dot. Before a slash any publisher is accepted; a dot is part of many
/// model names (`gemini-2.5-pro`).
const DOTTED: [&str; 16] = [
    "google",
    "anthropic",
    "meta",
    "mistralai",
    "endpoints",
    "ai21",
    "deepseek-ai",
    "qwen",
    "openai",
    "zai-org",
    "moonshotai",
    "minimaxai",
    "xai",
    "nvidia",
    "intfloat",
    "baidu",
];

impl<'a> ModelName<'a> {
    /// Parses `publisher.model`, `publisher/model`, `publishers/p/models/m`, or a bare name: names of Claude
    /// and Mistral are recognized, all others are Google's.
    pub(super) fn parse(model: &'a str) -> Self {
        let (publisher, name) = parts(model);
        let api = match publisher {
            "google" => ModelApi::Gemini,
            "anthropic" => ModelApi::Anthropic,
            "mistralai" => ModelApi::Raw,
            "endpoints" => ModelApi::Endpoint,
            _ => ModelApi::Shared,
        };
        Self { api, publisher, name }
    }

    /// The `model` of a body in OpenAI's shape. The shared endpoint needs publisher and name, a client's own
    /// endpoint serves one model, and `rawPredict` has the version in the path.
    pub(super) fn in_body(&self) -> String {
        match self.api {
            ModelApi::Shared => format!("{}/{}", self.publisher, self.name),
            ModelApi::Endpoint => String::new(),
            ModelApi::Raw => self.name.split('@').next().unwrap_or_default().to_owned(),
            ModelApi::Gemini | ModelApi::Anthropic => self.name.to_owned(),
        }
    }
}

fn parts(model: &str) -> (&str, &str) {
    let full = model.strip_prefix("publishers/").and_then(|rest| rest.split_once("/models/"));
    if let Some(parts) =
        full.or_else(|| model.split_once('/').filter(|(publisher, _)| *publisher != "models"))
    {
        return parts;
    }
    if let Some((publisher, name)) = model.split_once('.')
        && DOTTED.contains(&publisher)
    {
        return (publisher, name);
    }
    let name = model.strip_prefix("models/").unwrap_or(model);
    let bare = [
        ("claude", "anthropic"),
        ("mistral", "mistralai"),
        ("codestral", "mistralai"),
        ("ministral", "mistralai"),
    ];
    let listed = bare.iter().find(|(start, _)| name.starts_with(start));
    (listed.map_or("google", |(_, publisher)| publisher), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_names_its_publisher() {
        let cases = [
            ("gemini-2.5-pro", ModelApi::Gemini, "google", "gemini-2.5-pro"),
            ("google.gemini-2.5-pro", ModelApi::Gemini, "google", "gemini-2.5-pro"),
            ("google/gemini-2.5-pro", ModelApi::Gemini, "google", "gemini-2.5-pro"),
            ("models/gemini-2.5-pro", ModelApi::Gemini, "google", "gemini-2.5-pro"),
            (
                "anthropic.claude-3-5-sonnet@20240620",
                ModelApi::Anthropic,
                "anthropic",
                "claude-3-5-sonnet@20240620",
            ),
            ("claude-sonnet-4-5", ModelApi::Anthropic, "anthropic", "claude-sonnet-4-5"),
            ("publishers/anthropic/models/claude-x", ModelApi::Anthropic, "anthropic", "claude-x"),
            ("mistralai.mistral-small-2503@001", ModelApi::Raw, "mistralai", "mistral-small-2503@001"),
            ("codestral-2501", ModelApi::Raw, "mistralai", "codestral-2501"),
            ("meta.llama-3.3-70b-instruct-maas", ModelApi::Shared, "meta", "llama-3.3-70b-instruct-maas"),
            ("deepseek-ai/deepseek-v3.2-maas", ModelApi::Shared, "deepseek-ai", "deepseek-v3.2-maas"),
            ("endpoints.1234", ModelApi::Endpoint, "endpoints", "1234"),
            ("", ModelApi::Gemini, "google", ""),
        ];
        for (model, api, publisher, name) in cases {
            assert_eq!(ModelName::parse(model), ModelName { api, publisher, name }, "{model}");
        }
        assert_eq!(ModelName::parse("meta.llama-x").in_body(), "meta/llama-x");
        assert_eq!(ModelName::parse("mistralai/m@1").in_body(), "m");
        assert_eq!(ModelName::parse("endpoints/1").in_body(), "");
    }
}
