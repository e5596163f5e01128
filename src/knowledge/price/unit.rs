//! What is counted and has a price of its own: kinds of tokens, searches, requests.
//!
//! The names of prices are those of genai-prices' data, and so is the rule of how units contain each other: a unit whose
//! properties are all properties of another contains it (input tokens contain cache reads, which contain cached audio). Units
//! of that data which neither a response's usage nor the request tells us (seconds of audio, pages) are not here: their prices are
//! read over. Not here: the arithmetic (`rate_card`).

use words::api::usage::Usage;

/// A thing that is counted. Ordered from the general to the specific: a unit stands behind all that contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    Input,
    Output,
    CacheRead,
    CacheWrite,
    InputAudio,
    InputImage,
    InputVideo,
    OutputAudio,
    OutputImage,
    Reasoning,
    CacheWrite5m,
    CacheWrite1h,
    CacheAudioRead,
    CacheImageRead,
    WebSearch,
    RerankSearch,
    Request,
    Characters,
}

// Properties of units.
const INPUT: u16 = 1;
const OUTPUT: u16 = 1 << 1;
const CACHE_READ: u16 = 1 << 2;
const CACHE_WRITE: u16 = 1 << 3;
const FIVE_MINUTES: u16 = 1 << 4;
const ONE_HOUR: u16 = 1 << 5;
const AUDIO: u16 = 1 << 6;
const REASONING: u16 = 1 << 7;
const IMAGE: u16 = 1 << 8;
const VIDEO: u16 = 1 << 9;
const WEB_SEARCH: u16 = 1 << 10;
const RERANK_SEARCH: u16 = 1 << 11;
const REQUEST: u16 = 1 << 12;
const CHARACTERS: u16 = 1 << 13;

impl Unit {
    pub const COUNT: usize = 18;

    pub const ALL: [Self; Self::COUNT] = [
        Self::Input,
        Self::Output,
        Self::CacheRead,
        Self::CacheWrite,
        Self::InputAudio,
        Self::InputImage,
        Self::InputVideo,
        Self::OutputAudio,
        Self::OutputImage,
        Self::Reasoning,
        Self::CacheWrite5m,
        Self::CacheWrite1h,
        Self::CacheAudioRead,
        Self::CacheImageRead,
        Self::WebSearch,
        Self::RerankSearch,
        Self::Request,
        Self::Characters,
    ];

    /// The name of its price in catalogues and in the overlay: dollars per million tokens or characters, or per thousand calls.
    pub fn price_key(self) -> &'static str {
        match self {
            Self::Input => "input_mtok",
            Self::Output => "output_mtok",
            Self::CacheRead => "cache_read_mtok",
            Self::CacheWrite => "cache_write_mtok",
            Self::InputAudio => "input_audio_mtok",
            Self::InputImage => "input_image_mtok",
            Self::InputVideo => "input_video_mtok",
            Self::OutputAudio => "output_audio_mtok",
            Self::OutputImage => "output_image_mtok",
            Self::Reasoning => "output_reasoning_mtok",
            Self::CacheWrite5m => "cache_write_5m_mtok",
            Self::CacheWrite1h => "cache_write_1h_mtok",
            Self::CacheAudioRead => "cache_audio_read_mtok",
            Self::CacheImageRead => "cache_image_read_mtok",
            Self::WebSearch => "web_searches_kcount",
            Self::RerankSearch => "rerank_searches_kcount",
            Self::Request => "requests_kcount",
            Self::Characters => "input_mchars",
        }
    }

    pub(crate) fn from_price_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.price_key() == key)
    }

    /// Its name in `pricing_config` and `pricing_adjustments` of integrations.
    pub fn token_name(self) -> Option<&'static str> {
        match self {
            Self::Input => Some("request_token"),
            Self::Output => Some("response_token"),
            Self::CacheRead => Some("cache_read_input_token"),
            Self::CacheWrite => Some("cache_write_input_token"),
            Self::InputAudio => Some("request_audio_token"),
            Self::OutputAudio => Some("response_audio_token"),
            Self::Reasoning => Some("reasoning_token"),
            Self::CacheAudioRead => Some("cache_read_audio_input_token"),
            Self::InputImage => Some("request_image_token"),
            Self::OutputImage => Some("response_image_token"),
            _ => None,
        }
    }

    /// Its name among the `additional_units` of `pricing_config` and `pricing_adjustments`.
    pub fn additional_name(self) -> Option<&'static str> {
        match self {
            Self::CacheWrite1h => Some("cache_write_1h"),
            Self::CacheWrite5m => Some("cache_write_5m"),
            Self::WebSearch => Some("web_search"),
            Self::RerankSearch => Some("search"),
            Self::Request => Some("request"),
            _ => None,
        }
    }

    /// How many of it a price is for.
    pub fn per(self) -> u64 {
        match self {
            Self::WebSearch | Self::RerankSearch | Self::Request => 1_000,
            _ => 1_000_000,
        }
    }

    /// Whether it is a kind of input token.
    pub fn is_input(self) -> bool {
        self.properties() & INPUT != 0
    }

    /// Whether it is a kind of output token.
    pub(crate) fn is_output(self) -> bool {
        self.properties() & OUTPUT != 0
    }

    /// Whether every one of `other` is one of this too.
    pub fn contains(self, other: Self) -> bool {
        self != other && self.properties() & other.properties() == self.properties()
    }

    /// How many of it the usage has. A provider that reports more cache writes of an hour than cache writes has that many.
    pub fn count(self, usage: &Usage) -> u64 {
        match self {
            Self::Input => usage.input,
            Self::Output => usage.output,
            Self::CacheRead => usage.cached,
            Self::CacheWrite => usage.cache_write.max(usage.cache_write_1h),
            Self::CacheWrite5m => usage.cache_write.saturating_sub(usage.cache_write_1h),
            Self::CacheWrite1h => usage.cache_write_1h,
            Self::InputAudio => usage.input_audio.max(usage.cached_audio),
            Self::InputImage => usage.input_image.max(usage.cached_image),
            Self::InputVideo => usage.input_video,
            Self::OutputAudio => usage.output_audio,
            Self::OutputImage => usage.output_image,
            Self::Reasoning => usage.reasoning,
            Self::CacheAudioRead => usage.cached_audio,
            Self::CacheImageRead => usage.cached_image,
            Self::WebSearch => usage.web_searches,
            Self::RerankSearch => usage.rerank_searches,
            Self::Request => 1,
            Self::Characters => usage.characters,
        }
    }

    fn properties(self) -> u16 {
        match self {
            Self::Input => INPUT,
            Self::Output => OUTPUT,
            Self::CacheRead => INPUT | CACHE_READ,
            Self::CacheWrite => INPUT | CACHE_WRITE,
            Self::CacheWrite5m => INPUT | CACHE_WRITE | FIVE_MINUTES,
            Self::CacheWrite1h => INPUT | CACHE_WRITE | ONE_HOUR,
            Self::InputAudio => INPUT | AUDIO,
            Self::InputImage => INPUT | IMAGE,
            Self::InputVideo => INPUT | VIDEO,
            Self::OutputAudio => OUTPUT | AUDIO,
            Self::OutputImage => OUTPUT | IMAGE,
            Self::CacheAudioRead => INPUT | AUDIO | CACHE_READ,
            Self::CacheImageRead => INPUT | IMAGE | CACHE_READ,
            Self::Reasoning => OUTPUT | REASONING,
            Self::WebSearch => WEB_SEARCH,
            Self::RerankSearch => RERANK_SEARCH,
            Self::Request => REQUEST,
            Self::Characters => CHARACTERS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_stands_behind_all_that_contain_it() {
        for (index, unit) in Unit::ALL.into_iter().enumerate() {
            assert_eq!(unit as usize, index);
            assert_eq!(Unit::from_price_key(unit.price_key()), Some(unit));
            for (other_index, other) in Unit::ALL.into_iter().enumerate() {
                assert!(!unit.contains(other) || index < other_index, "{unit:?} {other:?}");
            }
        }
        assert!(Unit::Input.contains(Unit::CacheAudioRead));
        assert!(Unit::InputAudio.contains(Unit::CacheAudioRead));
        assert!(!Unit::Input.contains(Unit::Reasoning));
        assert!(!Unit::Request.contains(Unit::Input));
    }
}
