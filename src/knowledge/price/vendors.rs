//! Which provider of the catalogue each of our vendors is.
//!
//! Not here: models (`catalog`).

/// Our vendors whose name in the catalogue is another. The rest are called the same there, or are not in it.
const NAMES: [(&str, &str); 16] = [
    ("azure-openai", "azure"),
    ("azure-ai", "azure"),
    ("azure-ai-inference", "azure"),
    ("bedrock", "aws"),
    ("vertex-ai", "google"),
    ("gemini", "google"),
    ("mistral-ai", "mistral"),
    ("together-ai", "together"),
    ("fireworks-ai", "fireworks"),
    ("perplexity-ai", "perplexity"),
    ("novita-ai", "novita"),
    ("workers-ai", "cloudflare"),
    ("moonshot", "moonshotai"),
    ("z-ai", "zai"),
    ("zhipu", "zhipuai"),
    ("voyage", "voyageai"),
];

/// Prefixes of Hugging Face's own providers in the catalogue: a model is `org/name:provider` there.
const HUGGING_FACE: &str = "huggingface";

/// The catalogue's provider, and the model as it is called there.
pub(crate) fn catalogue_provider<'a>(
    vendor: &'a str,
    model: &'a str,
) -> (std::borrow::Cow<'a, str>, &'a str) {
    if vendor == HUGGING_FACE
        && let Some((model, provider)) = model.rsplit_once(':')
    {
        return (format!("{HUGGING_FACE}_{provider}").into(), model);
    }
    let name = NAMES.iter().find(|(ours, _)| *ours == vendor).map_or(vendor, |(_, theirs)| theirs);
    let model = match name {
        // `models/gemini-…` of Google AI Studio, `publishers/google/models/gemini-…` and `google/gemini-…` of Vertex AI.
        "google" => model.rsplit_once('/').map_or(model, |(_, model)| model),
        _ => model,
    };
    (name.into(), model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_have_their_name_in_the_catalogue() {
        for (vendor, model, expected) in [
            ("openai", "gpt-5", ("openai", "gpt-5")),
            ("bedrock", "eu.anthropic.claude-x", ("aws", "eu.anthropic.claude-x")),
            ("google", "models/gemini-3", ("google", "gemini-3")),
            ("vertex-ai", "publishers/anthropic/models/claude-x", ("google", "claude-x")),
            ("huggingface", "a/b:groq", ("huggingface_groq", "a/b")),
            ("huggingface", "a/b", ("huggingface", "a/b")),
            ("together-ai", "a/b", ("together", "a/b")),
        ] {
            let (provider, name) = catalogue_provider(vendor, model);
            assert_eq!((&*provider, name), expected);
        }
    }
}
