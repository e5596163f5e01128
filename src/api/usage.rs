//! Token counts with one meaning, OpenAI's, whichever provider reported them: input includes cached and cache-write
//! tokens, output includes reasoning tokens.
//!
//! Only reads usage: each dialect's encoder writes it. Knows no prices.

mod native;

use crate::json::walk;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What a response cost, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All input tokens, including `cached` and `cache_write`.
    pub input: u64,
    /// All output tokens, including `reasoning`.
    pub output: u64,
    /// As reported; `input + output` if no total was reported.
    pub total: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cached: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write: u64,
    pub reasoning: u64,
    pub input_audio: u64,
    pub output_audio: u64,
}

impl Usage {
    /// Reads the JSON text of a `usage` object: the shapes of OpenAI's chat, completions, embeddings, responses, images
    /// and audio with the variants of other providers, Anthropic's, Bedrock's, Cohere's, and Gemini's `usageMetadata`.
    /// `None` if it is none of them or counts no tokens (rerank's search units, a transcription's seconds).
    pub fn read(json: &[u8]) -> Option<Self> {
        UsageParts::read(json)?.usage()
    }
}

/// A `usage` object as reported. Separate from [`Usage`] because Anthropic reports it in parts: some in
/// `message_start`, some (cumulative) in `message_delta`.
#[derive(Debug, Clone, Copy, Default)]
pub struct UsageParts {
    // OpenAI's chat, completions and embeddings.
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    // OpenAI's responses and images. Transcriptions have the names of the details in the singular.
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Option<Details>,
    input_token_details: Option<Details>,
    output_tokens_details: Option<Details>,
    output_token_details: Option<Details>,
    // Anthropic: not included in its `input_tokens`.
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    // Cached tokens as reported by DeepSeek, Mistral and Together.
    prompt_cache_hit_tokens: Count,
    num_cached_tokens: Count,
    cached_tokens: Count,
}

#[derive(Debug, Clone, Copy, Default)]
struct Details {
    cached_tokens: Count,
    /// OpenAI and OpenRouter.
    cache_write_tokens: Count,
    audio_tokens: Count,
    reasoning_tokens: Count,
    /// Anthropic's name for reasoning tokens.
    thinking_tokens: Count,
}

impl UsageParts {
    /// Reads the JSON text of a `usage` object; `None` if it is no object.
    pub fn read(json: &[u8]) -> Option<Self> {
        let parts = Self::from_object(json.trim_ascii_start())?;
        // Other vendors' shapes are rare, and read only if nothing was found: the common shapes pay nothing for them.
        if parts.counts() { Some(parts) } else { native::read(json).or(Some(parts)) }
    }

    /// Iterates without parsing, because usage is read for every response, and in some streams for every event.
    fn from_object(json: &[u8]) -> Option<Self> {
        let mut parts = Self::default();
        for (name, value) in walk::members(json)? {
            match name {
                b"prompt_tokens" => parts.prompt_tokens = Count::read(value),
                b"completion_tokens" => parts.completion_tokens = Count::read(value),
                b"total_tokens" => parts.total_tokens = Count::read(value),
                b"prompt_tokens_details" => parts.prompt_tokens_details = Details::read(value),
                b"completion_tokens_details" => parts.completion_tokens_details = Details::read(value),
                b"input_tokens" => parts.input_tokens = Count::read(value),
                b"output_tokens" => parts.output_tokens = Count::read(value),
                b"input_tokens_details" => parts.input_tokens_details = Details::read(value),
                b"input_token_details" => parts.input_token_details = Details::read(value),
                b"output_tokens_details" => parts.output_tokens_details = Details::read(value),
                b"output_token_details" => parts.output_token_details = Details::read(value),
                b"cache_read_input_tokens" => parts.cache_read_input_tokens = Count::read(value),
                b"cache_creation_input_tokens" => parts.cache_creation_input_tokens = Count::read(value),
                b"prompt_cache_hit_tokens" => parts.prompt_cache_hit_tokens = Count::read(value),
                b"num_cached_tokens" => parts.num_cached_tokens = Count::read(value),
                b"cached_tokens" => parts.cached_tokens = Count::read(value),
                _ => {}
            }
        }
        Some(parts)
    }

    /// Whether any token count was reported.
    fn counts(&self) -> bool {
        let counts = [
            self.prompt_tokens,
            self.completion_tokens,
            self.total_tokens,
            self.input_tokens,
            self.output_tokens,
        ];
        counts.iter().any(|count| count.0.is_some())
    }

    /// Updates the counts with a later report of the same response. Later counts are cumulative and replace earlier
    /// ones; counts that the later report does not have are kept.
    pub fn update(&mut self, later: &UsageParts) {
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.completion_tokens = later.completion_tokens.or(self.completion_tokens);
        self.total_tokens = later.total_tokens.or(self.total_tokens);
        self.prompt_tokens_details = later.prompt_tokens_details.or(self.prompt_tokens_details);
        self.completion_tokens_details = later.completion_tokens_details.or(self.completion_tokens_details);
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.input_tokens_details = later.input_tokens_details.or(self.input_tokens_details);
        self.input_token_details = later.input_token_details.or(self.input_token_details);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
        self.output_token_details = later.output_token_details.or(self.output_token_details);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.prompt_cache_hit_tokens = later.prompt_cache_hit_tokens.or(self.prompt_cache_hit_tokens);
        self.num_cached_tokens = later.num_cached_tokens.or(self.num_cached_tokens);
        self.cached_tokens = later.cached_tokens.or(self.cached_tokens);
    }

    /// The counts with OpenAI's meaning; `None` if no token count was reported.
    pub fn usage(&self) -> Option<Usage> {
        if !self.counts() {
            return None;
        }
        let into = self.prompt_tokens_details.or(self.input_tokens_details).or(self.input_token_details);
        let out = self.completion_tokens_details.or(self.output_tokens_details).or(self.output_token_details);
        let (into, out) = (into.unwrap_or_default(), out.unwrap_or_default());
        let mut usage = Usage {
            input: self.prompt_tokens.or(self.input_tokens).value(),
            output: self.completion_tokens.or(self.output_tokens).value(),
            total: 0,
            cached: self.cached(into).value(),
            cache_write: into.cache_write_tokens.or(self.cache_creation_input_tokens).value(),
            reasoning: out.reasoning_tokens.or(out.thinking_tokens).value(),
            input_audio: into.audio_tokens.value(),
            output_audio: out.audio_tokens.value(),
        };
        // Anthropic does not include cache reads and writes in `input_tokens`. A report with `prompt_tokens` (LiteLLM,
        // with Anthropic's fields added) or with details of the input includes them.
        let is_included = into.cached_tokens.or(into.cache_write_tokens).0.is_some();
        if self.prompt_tokens.0.is_none() && !is_included {
            let cache_tokens = [self.cache_read_input_tokens, self.cache_creation_input_tokens];
            usage.input =
                cache_tokens.iter().fold(usage.input, |sum, count| sum.saturating_add(count.value()));
        }
        usage.total = self.total_tokens.0.unwrap_or(usage.input.saturating_add(usage.output));
        // xAI does not include reasoning in `completion_tokens`; its total shows that.
        let separate_total = usage.input.saturating_add(usage.output).saturating_add(usage.reasoning);
        if usage.reasoning > 0 && usage.total == separate_total {
            usage.output = usage.output.saturating_add(usage.reasoning);
        }
        Some(usage)
    }

    fn cached(&self, into: Details) -> Count {
        into.cached_tokens
            .or(self.cache_read_input_tokens)
            .or(self.prompt_cache_hit_tokens)
            .or(self.num_cached_tokens)
            .or(self.cached_tokens)
    }
}

impl Details {
    /// `None` if it is no object: some providers send `null`.
    fn read(json: &[u8]) -> Option<Self> {
        let mut details = Self::default();
        for (name, value) in walk::members(json)? {
            match name {
                b"cached_tokens" => details.cached_tokens = Count::read(value),
                b"cache_write_tokens" => details.cache_write_tokens = Count::read(value),
                b"audio_tokens" => details.audio_tokens = Count::read(value),
                b"reasoning_tokens" => details.reasoning_tokens = Count::read(value),
                b"thinking_tokens" => details.thinking_tokens = Count::read(value),
                _ => {}
            }
        }
        Some(details)
    }
}

/// A count that may be absent, null, or not a number: one unexpected field must not lose the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count(Option<u64>);

impl Count {
    /// Reads any JSON text; what is no number counts as absent.
    fn read(json: &[u8]) -> Self {
        // Nearly every count is a few digits.
        if json.len() < 19 && !json.is_empty() && json.iter().all(u8::is_ascii_digit) {
            return Self(Some(json.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))));
        }
        let text = std::str::from_utf8(json).unwrap_or_default();
        let whole = text.parse().ok();
        // `as` saturates.
        let counts = |number: &f64| number.is_finite() && *number >= 0.0;
        Self(whole.or_else(|| text.parse().ok().filter(counts).map(|number| number as u64)))
    }

    fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }

    fn value(self) -> u64 {
        self.0.unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl<'de> Visitor<'de> for Number {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of tokens")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
                Ok(Count(Some(number)))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
                Ok(Count(None))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Count, E> {
                // `as` saturates, and NaN becomes 0.
                Ok(Count((number >= 0.0).then_some(number as u64)))
            }

            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<Count, E> {
                Ok(Count(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(counts: [u64; 8]) -> Option<Usage> {
        let [input, output, total, cached, cache_write, reasoning, input_audio, output_audio] = counts;
        Some(Usage { input, output, total, cached, cache_write, reasoning, input_audio, output_audio })
    }

    #[test]
    fn every_shape_is_read_in_the_same_sense() {
        let cases = [
            // OpenAI chat.
            (
                r#"{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,
                    "prompt_tokens_details":{"cached_tokens":64,"audio_tokens":5},
                    "completion_tokens_details":{"reasoning_tokens":20,"audio_tokens":3}}"#,
                usage([100, 30, 130, 64, 0, 20, 5, 3]),
            ),
            // Embeddings.
            (r#"{"prompt_tokens":8,"total_tokens":8}"#, usage([8, 0, 8, 0, 0, 0, 0, 0])),
            // Responses.
            (
                r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},
                    "output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":15}"#,
                usage([10, 5, 15, 4, 2, 1, 0, 0]),
            ),
            // Transcription.
            (
                r#"{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},
                    "output_tokens":45,"total_tokens":59}"#,
                usage([14, 45, 59, 0, 0, 0, 14, 0]),
            ),
            // Anthropic: cache reads and writes are not included in the input.
            (
                r#"{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,
                    "cache_creation":{"ephemeral_5m_input_tokens":100},"output_tokens":50,
                    "output_tokens_details":{"thinking_tokens":40}}"#,
                usage([1103, 50, 1153, 1000, 100, 40, 0, 0]),
            ),
            // DeepSeek, Mistral, Together, LiteLLM.
            (
                r#"{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_cache_hit_tokens":7}"#,
                usage([9, 1, 10, 7, 0, 0, 0, 0]),
            ),
            (
                r#"{"prompt_tokens":9,"completion_tokens":1,"num_cached_tokens":6,"prompt_tokens_details":null}"#,
                usage([9, 1, 10, 6, 0, 0, 0, 0]),
            ),
            (r#"{"prompt_tokens":9,"cached_tokens":5}"#, usage([9, 0, 9, 5, 0, 0, 0, 0])),
            (
                r#"{"prompt_tokens":110,"completion_tokens":1,"total_tokens":111,
                    "cache_read_input_tokens":80,"cache_creation_input_tokens":20}"#,
                usage([110, 1, 111, 80, 20, 0, 0, 0]),
            ),
            // xAI: reasoning is not included in the completion.
            (
                r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":112,
                    "completion_tokens_details":{"reasoning_tokens":100}}"#,
                usage([10, 102, 112, 0, 0, 100, 0, 0]),
            ),
            // Unexpected values do not affect the others.
            (
                r#"{"prompt_tokens":7.0,"completion_tokens":-1,"total_tokens":"x","cached_tokens":[{}]}"#,
                usage([7, 0, 7, 0, 0, 0, 0, 0]),
            ),
            // Objects without token counts.
            (r#"{"search_units":1}"#, None),
            (r#"{"type":"duration","seconds":9}"#, None),
            ("null", None),
            ("[1]", None),
            ("{", None),
        ];
        for (json, wanted) in cases {
            assert_eq!(Usage::read(json.as_bytes()), wanted, "{json}");
        }
    }

    #[test]
    fn cached_tokens_with_details_are_part_of_the_input() {
        // Responses with Anthropic's counts added.
        let json = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":80},"output_tokens":5,
            "cache_read_input_tokens":80}"#;
        assert_eq!(Usage::read(json.as_bytes()), usage([100, 5, 105, 80, 0, 0, 0, 0]));
    }

    #[test]
    fn a_later_report_overrides_only_what_it_contains() {
        let read = |json: &str| UsageParts::read(json.as_bytes()).unwrap();
        let mut parts = read(r#"{"input_tokens":5,"cache_read_input_tokens":9,"output_tokens":1}"#);
        parts.update(&read(r#"{"output_tokens":30}"#));
        assert_eq!(parts.usage(), usage([14, 30, 44, 9, 0, 0, 0, 0]));
        parts.update(&read(r#"{"input_tokens":6,"cache_read_input_tokens":10,"output_tokens":31}"#));
        assert_eq!(parts.usage(), usage([16, 31, 47, 10, 0, 0, 0, 0]));
    }
}
