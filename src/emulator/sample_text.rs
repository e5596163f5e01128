//! The text the emulator generates (one sentence, repeated), and a small tokenizer.
//!
//! Not a real tokenizer: a token is a word with the space before it, or one punctuation mark.

/// One sentence, token by token; the first token of a text loses its space.
const SENTENCE: [&str; 10] =
    [" The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", "."];

/// `tokens` tokens of the sentence.
pub(super) fn prose(tokens: usize) -> String {
    let mut text = String::with_capacity(tokens * 5);
    for token in SENTENCE.iter().cycle().take(tokens) {
        text.push_str(if text.is_empty() { token.trim_start() } else { token });
    }
    text
}

/// The bytes of the first token of `text`; 0 only for an empty text.
fn token_len(text: &str) -> usize {
    let mut in_token = false;
    for (at, letter) in text.char_indices() {
        if letter.is_alphanumeric() {
            in_token = true;
        } else if in_token {
            return at;
        } else if !letter.is_whitespace() {
            return at + letter.len_utf8();
        }
    }
    text.len()
}

/// A text split into tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    text: String,
    at: usize,
}

impl Tokens {
    pub(super) fn new(text: String) -> Self {
        Self { text, at: 0 }
    }

    /// The next token, as a JSON string with its quotes.
    pub(super) fn next_quoted(&mut self) -> Option<String> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (token, _) = rest.split_at(token_len(rest));
        self.at += token.len();
        Some(quote(token))
    }
}

/// Number of tokens in a text.
pub(super) fn count(mut text: &str) -> u64 {
    let mut tokens = 0;
    while !text.is_empty() {
        text = text.split_at(token_len(text)).1;
        tokens += 1;
    }
    tokens
}

/// Approximate tokens of JSON text: its words. Faster than [`count`], for prompts of any size.
pub(super) fn estimate_tokens(json: &str) -> u64 {
    let mut total = 1;
    for byte in json.bytes() {
        total += u64::from(byte == b' ');
    }
    total
}

/// Why a text ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Length,
    Stop(String),
}

/// A text after `stop` and the token limit were applied.
#[derive(Debug)]
pub(super) struct SampleText {
    pub(super) text: String,
    pub(super) tokens: u64,
    pub(super) end: End,
}

/// Truncates `text` before the first of `stops` and after `limit` tokens.
pub(super) fn truncate(mut text: String, limit: Option<u64>, stops: &[String]) -> SampleText {
    let found = stops.iter().filter(|stop| !stop.is_empty());
    let first = found.filter_map(|stop| Some((text.find(stop)?, stop))).min_by_key(|(at, _)| *at);
    let mut end = End::Complete;
    if let Some((at, stop)) = first {
        text.truncate(at);
        end = End::Stop(stop.clone());
    }
    let mut tokens = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if limit == Some(tokens) {
            text.truncate(at);
            end = End::Length;
            break;
        }
        at += token_len(rest);
        tokens += 1;
    }
    SampleText { text, tokens, end }
}

/// A JSON string with its quotes.
pub(super) fn quote(text: &str) -> String {
    // Serializing a string cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

/// One step of splitmix64: small, fast and the same on every platform.
pub(super) fn scramble(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_the_requested_tokens() {
        for tokens in [0, 1, 9, 10, 11, 48, 1000] {
            assert_eq!(count(&prose(tokens)), tokens as u64, "{tokens}");
        }
        assert_eq!(prose(12), "The quick brown fox jumps over the lazy dog. The quick");
    }

    #[test]
    fn tokens_concatenate_to_the_text() {
        for text in ["", "a", " , b", "{\"a\": [1, \"ü → é\"]}\n", "\u{1f98a}\u{1f98a} x", "  "] {
            let mut tokens = Tokens::new(text.to_owned());
            let mut out = String::new();
            while let Some(token) = tokens.next_quoted() {
                out.push_str(&serde_json::from_str::<String>(&token).unwrap());
            }
            assert_eq!(out, text);
        }
    }

    #[test]
    fn limits_and_stops_cut() {
        let sample = truncate(prose(20), Some(3), &[]);
        assert_eq!((sample.text.as_str(), sample.tokens, sample.end), ("The quick brown", 3, End::Length));
        let sample = truncate(prose(20), Some(8), &["lazy".into(), " fox".into(), String::new()]);
        assert_eq!((sample.text.as_str(), sample.end), ("The quick brown", End::Stop(" fox".into())));
        let sample = truncate(prose(10), Some(10), &["cat".into()]);
        assert_eq!((sample.tokens, sample.end), (10, End::Complete));
    }
}
