//! How the providers' caches of prompts work: from what length on, and how long what was sent stays there.
//!
//! Data, for the choice of a target by the beginning of a request. Where sources disagree the longer minimum and the shorter time
//! stand here: a choice is then made afresh, and none is kept for a cache that is gone. Not here: what cached tokens cost (`price`).
//!
//! Sources: Anthropic <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>, Bedrock
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>, OpenAI
//! <https://developers.openai.com/api/docs/guides/prompt-caching>, Azure
//! <https://learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching>, Gemini <https://ai.google.dev/gemini-api/docs/caching>
//! (it gives no time), DeepSeek <https://api-docs.deepseek.com/guides/kv_cache> (hours to days), Groq
//! <https://console.groq.com/docs/prompt-caching>. Read in November 2026.

use std::time::Duration;

/// How the cache of one provider and model works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptCache {
    /// Beginnings of fewer tokens are not cached.
    pub min_tokens: u32,
    /// The shortest that an unused beginning stays. `None`: as long as there is room.
    pub ttl: Option<Duration>,
    /// The same where the request asks for the longer time.
    pub long_ttl: Option<Duration>,
}

/// One row: it holds for models whose name contains `model`.
struct Row {
    /// Empty: of any provider.
    provider: &'static str,
    model: &'static str,
    min_tokens: u32,
    /// Minutes, as a rule and where a request asks for longer.
    minutes: [u64; 2],
}

const fn row(provider: &'static str, model: &'static str, min_tokens: u32, minutes: [u64; 2]) -> Row {
    Row { provider, model, min_tokens, minutes }
}

/// The time that Anthropic's models have everywhere: 5 minutes, or an hour by `cache_control.ttl`.
const CLAUDE: [u64; 2] = [5, 60];
/// OpenAI: cleared after 5 to 10 minutes without use, or kept for a day by `prompt_cache_retention`.
const OPENAI: [u64; 2] = [5, 1440];

/// The first row that fits holds.
const ROWS: [Row; 20] = [
    row("", "claude-opus-4-5", 4096, CLAUDE),
    row("", "claude-opus-4-6", 4096, CLAUDE),
    row("", "claude-opus-4-7", 4096, CLAUDE),
    row("", "claude-haiku-4-5", 4096, CLAUDE),
    row("", "claude-3-5-haiku", 2048, CLAUDE),
    row("", "claude-3-haiku", 2048, CLAUDE),
    row("", "claude-opus-5", 512, CLAUDE),
    row("", "claude-fable-5", 512, CLAUDE),
    row("", "claude-mythos-5", 512, CLAUDE),
    row("", "claude", 1024, CLAUDE),
    row("anthropic", "", 1024, CLAUDE),
    row("", "gemini-2.5", 2048, [5, 5]),
    row("", "gemini", 4096, [5, 5]),
    row("bedrock", "", 1024, [5, 5]),
    row("openai", "", 1024, OPENAI),
    row("azure-openai", "", 1024, OPENAI),
    row("azure-ai", "", 1024, OPENAI),
    row("deepseek", "", 64, [60, 60]),
    row("groq", "", 1024, [120, 120]),
    // What is not known.
    row("", "", 1024, [5, 5]),
];

/// Engines of one's own: they keep what they have room for, in blocks of a few tokens.
const OWN_ENGINE: PromptCache = PromptCache { min_tokens: 0, ttl: None, long_ttl: None };

/// The providers that are such engines.
const OWN_ENGINES: [&str; 4] = ["ollama", "vllm", "lmstudio", "llamacpp"];

impl PromptCache {
    /// The cache of a model at a provider. `has_own_host`: the provider's API at a host of the operator's.
    pub fn find(provider: &str, has_own_host: bool, model: &str) -> Self {
        if has_own_host || OWN_ENGINES.contains(&provider) {
            return OWN_ENGINE;
        }
        let fits =
            |row: &&Row| (row.provider.is_empty() || row.provider == provider) && model.contains(row.model);
        ROWS.iter().find(fits).map_or(OWN_ENGINE, |row| {
            let [usual, long] = row.minutes.map(|minutes| Some(Duration::from_secs(60 * minutes)));
            Self { min_tokens: row.min_tokens, ttl: usual, long_ttl: long }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ids;

    #[test]
    fn every_provider_of_the_table_exists() {
        let named = ROWS.iter().map(|row| row.provider).filter(|name| !name.is_empty());
        for name in named.chain(OWN_ENGINES) {
            assert!(ids().any(|id| id == name), "{name}");
        }
    }

    #[test]
    fn the_first_row_that_fits_holds() {
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        for (provider, has_own_host, model, min_tokens, ttl, long_ttl) in [
            ("anthropic", false, "claude-sonnet-4-5-20250929", 1024, minutes(5), minutes(60)),
            ("bedrock", false, "us.anthropic.claude-haiku-4-5-20251001-v1:0", 4096, minutes(5), minutes(60)),
            ("vertex-ai", false, "claude-opus-4-6", 4096, minutes(5), minutes(60)),
            ("bedrock", false, "amazon.nova-pro-v1:0", 1024, minutes(5), minutes(5)),
            ("google", false, "gemini-2.5-pro", 2048, minutes(5), minutes(5)),
            ("openai", false, "gpt-5.1", 1024, minutes(5), minutes(1440)),
            ("openai", true, "qwen3", 0, None, None),
            ("vllm", false, "claude-like", 0, None, None),
            ("mistral-ai", false, "mistral-large", 1024, minutes(5), minutes(5)),
        ] {
            let found = PromptCache::find(provider, has_own_host, model);
            assert_eq!(found, PromptCache { min_tokens, ttl, long_ttl }, "{provider} {model}");
        }
    }
}
