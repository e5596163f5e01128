//! Whose model a name on Vertex AI means, and how models of that publisher are asked.

/// The words a model is asked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelApi {
    /// Gemini's, and Google's other models with their own methods.
    Gemini,
    /// Anthropic's messages, through `rawPredict`.
    Anthropic,
    /// OpenAI's chat, through `rawPredict`.
    Raw,
    /// OpenAI's chat, at the endpoint all other partners share.
    Shared,
    /// OpenAI's chat, at an endpoint of the caller's own.
    Endpoint,
}

/// A model's name taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelName<'a> {
    pub api: ModelApi,
    pub publisher: &'a str,
    pub name: &'a str,
}

/// Publishers whose names callers may put before a dot. With a slash any publisher may stand: a dot is in many
/// a model's name (`gemini-2.5-pro`).
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
    /// `publisher.model`, `publisher/model`, `publishers/p/models/m`, or a bare name: Claude and Mistral by their
    /// names, all else Google's.
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

    /// The `model` of a body in OpenAI's shape: the shared endpoint tells publishers apart by it, an endpoint of
    /// one's own serves one model, and `rawPredict` has the version in the path.
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
