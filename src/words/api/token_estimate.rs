//! Estimates the tokens of a request, for providers that do not say how many they were.
//!
//! The text is counted by a tokenizer or, without one, by a rule that is about right for every tokenizer. What surrounds the
//! text (roles, tools, instructions that a provider adds) and what is no text has fixed figures: images are counted
//! by their pixels, PDFs by their bytes (easily off by a factor of two), images and documents given by URL or id with a
//! flat figure. `docs/usage.md` says how far off the estimates are, measured on recorded requests of which the provider's
//! count is known. A response made with them must say that it is an estimate.

use crate::api::body::Body;
use crate::api::chat::{ChatRequest, Part, Source, Tool};
use crate::api::operation::{ChatTranslator, Operation};
use crate::json::tree;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

/// One token in the unit of this file, hundredths of a token: most characters are worth less than one.
const TOKEN: u64 = 100;
/// What a token of OpenAI's table comes to with the tokenizer of Claude, which has more of them: the median of the recorded
/// responses.
const CLAUDE_TOKEN: u64 = 115;
/// Tokens for role and separators of a message, and once for the whole request.
const MESSAGE: u64 = 4;
/// Tokens for the names and ids around a tool call, and around its result.
const CALL: u64 = 25;
/// Tokens of the instructions about tools that a provider adds to the prompt.
const TOOLS: u64 = 120;
const CLAUDE_TOOLS: u64 = 440;
/// Tokens of an image of unknown size; also the maximum, because larger images are scaled down.
const PICTURE: u64 = 1_600;
/// Tokens of a document of unknown size.
const DOCUMENT: u64 = 3_000;
const PDF_PAGE: u64 = 2_250;
const PDF_PAGE_BYTES: u64 = 60_000;

/// How the tokens of a text are counted.
#[derive(Clone, Copy)]
pub enum CountText<'a> {
    /// By a rule about words, numbers and signs. Needs no table.
    ByRule,
    /// By a tokenizer.
    By(&'a dyn Fn(&str) -> u64),
}

impl CountText<'_> {
    /// The tokens of a text for this model.
    pub fn of(&self, text: &str, model: Option<&str>) -> u64 {
        self.hundredths(text, model.is_some_and(is_claude)).div_ceil(TOKEN)
    }

    fn hundredths(&self, text: &str, claude: bool) -> u64 {
        match self {
            Self::ByRule => by_rule(text),
            Self::By(count) => count(text).saturating_mul(if claude { CLAUDE_TOKEN } else { TOKEN }),
        }
    }
}

fn is_claude(model: &str) -> bool {
    model.contains("claude")
}

/// How the texts of one request are counted.
struct Texts<'a> {
    count: &'a CountText<'a>,
    claude: bool,
}

impl Texts<'_> {
    fn hundredths(&self, text: &str) -> u64 {
        self.count.hundredths(text, self.claude)
    }
}

/// The estimated input tokens of a request. One that cannot be read as a chat, or has too many values for that, is counted as plain
/// text.
pub fn input(operation: Operation, body: &Body, count: &CountText<'_>) -> u64 {
    let claude = body.text("model").is_some_and(|model| is_claude(&model));
    let count = &Texts { count, claude };
    let for_tools = if claude { CLAUDE_TOOLS } else { TOOLS };
    let read = |translator: ChatTranslator| {
        if body.has_too_many_values() { None } else { (translator.read)(body).ok() }
    };
    let chat = operation.translator().map(read);
    let hundredths = match chat {
        Some(Some(chat)) => request(&chat, for_tools, count),
        Some(None) => count.hundredths(&String::from_utf8_lossy(body.bytes())),
        None => {
            let values = INPUTS.iter().filter_map(|name| tree::read(body.raw(name)?).ok());
            values.map(|value| inputs(&value, count)).sum()
        }
    };
    hundredths.div_ceil(TOKEN)
}

/// The members with the input of requests that are no chat: embeddings in OpenAI's and Gemini's API.
const INPUTS: [&str; 4] = ["input", "content", "requests", "instances"];

fn request(chat: &ChatRequest<'_>, for_tools: u64, count: &Texts<'_>) -> u64 {
    let mut sum = MESSAGE * TOKEN;
    for message in &chat.messages {
        sum += MESSAGE * TOKEN;
        if message.tool_call_id.is_some() {
            sum += CALL * TOKEN;
        }
        sum += message.content.iter().map(|content| part(content, count)).sum::<u64>();
    }
    if !chat.tools.is_empty() {
        sum += for_tools * TOKEN;
    }
    for tool in &chat.tools {
        sum += match tool {
            Tool::Function { name, description, parameters, .. } => {
                let schema = parameters.as_ref().map_or(0, |json| count.hundredths(json.get()));
                let description = description.as_deref().map_or(0, |text| count.hundredths(text));
                count.hundredths(name) + description + schema
            }
            Tool::Other { json, .. } => count.hundredths(json.get()),
        };
    }
    sum
}

fn part(part: &Part<'_>, count: &Texts<'_>) -> u64 {
    let text = |text: &str| count.hundredths(text);
    match part {
        Part::Text { text: content, .. } | Part::Refusal(content) => text(content),
        Part::Image(image) => TOKEN * picture(&image.source),
        Part::Audio { data, .. } => TOKEN * PICTURE.max(data.len() as u64 / 1_000),
        Part::File(file) => file.name.as_deref().map_or(0, text) + document(&file.source, count),
        Part::ToolCall(call) => CALL * TOKEN + text(&call.name) + text(&call.arguments),
        // Providers remove the reasoning of earlier turns from the prompt.
        Part::Reasoning { .. } | Part::Redacted { .. } => 0,
        Part::Other { json, .. } => tree::read(json.get()).map_or(0, |value| texts(&value, count)),
    }
}

/// The input of an embedding: texts, or tokens by their numbers.
fn inputs(value: &Value, count: &Texts<'_>) -> u64 {
    match value {
        Value::Number(_) => TOKEN,
        Value::Array(list) => list.iter().map(|item| inputs(item, count)).sum(),
        other => texts(other, count),
    }
}

/// All texts in a block of unknown type, without encrypted ones.
fn texts(value: &Value, count: &Texts<'_>) -> u64 {
    match value {
        Value::String(string) => count.hundredths(string),
        Value::Array(list) => list.iter().map(|item| texts(item, count)).sum(),
        Value::Object(members) => {
            let readable =
                members.iter().filter(|(name, _)| !name.starts_with("encrypted") && *name != "data");
            readable.map(|(_, value)| texts(value, count)).sum()
        }
        _ => 0,
    }
}

fn document(source: &Source<'_>, count: &Texts<'_>) -> u64 {
    match source {
        Source::Text(content) => count.hundredths(content),
        Source::Data { media_type, data } if media_type.starts_with("text/") => {
            // Text of any language: four base64 characters are three bytes, about one token.
            TOKEN * (data.len() as u64 / 5)
        }
        Source::Data { data, .. } => {
            let bytes = data.len() as u64 / 4 * 3;
            TOKEN * PDF_PAGE * bytes.div_ceil(PDF_PAGE_BYTES).max(1)
        }
        Source::Url { .. } | Source::Id(_) => TOKEN * DOCUMENT,
    }
}

/// Tokens of an image by Anthropic's published rule, width × height / 750.
fn picture(source: &Source<'_>) -> u64 {
    let Source::Data { data, .. } = source else { return PICTURE };
    // Camera metadata of 64 KiB may precede the size. A multiple of four base64 characters decodes on its own.
    let length = (data.trim_end_matches('=').len()).min(128 << 10) / 4 * 4;
    let prefix = data.get(..length).and_then(|prefix| STANDARD_NO_PAD.decode(prefix).ok());
    match prefix.as_deref().and_then(pixels) {
        Some(pixels) => (pixels / 750).clamp(1, PICTURE),
        None => PICTURE,
    }
}

/// Width × height of a PNG, GIF or JPEG.
fn pixels(bytes: &[u8]) -> Option<u64> {
    let u32_be = |at: usize| Some(u64::from(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    let u16_be = |at: usize| Some(u64::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    let u16_le = |at: usize| Some(u64::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    if bytes.starts_with(b"\x89PNG") {
        return u32_be(16)?.checked_mul(u32_be(20)?);
    }
    if bytes.starts_with(b"GIF8") {
        return u16_le(6)?.checked_mul(u16_le(8)?);
    }
    let mut at = bytes.starts_with(b"\xff\xd8").then_some(2)?;
    loop {
        match (bytes.get(at)?, bytes.get(at + 1)?) {
            (0xff, 0xff) => at += 1,
            // Frame headers; C4, C8 and CC are tables.
            (0xff, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) => {
                return u16_be(at + 5)?.checked_mul(u16_be(at + 7)?);
            }
            (0xff, _) => at += 2 + u16_be(at + 2)? as usize,
            _ => return None,
        }
    }
}

/// Hundredths of a token: a word of up to six letters is one token, a longer one more; three digits are one;
/// punctuation often joins its neighbours; a Chinese, Japanese or Korean character is about one.
fn by_rule(text: &str) -> u64 {
    let mut sum = 0;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let mut run = |same: fn(&char) -> bool| {
            let mut length = 1;
            while chars.next_if(same).is_some() {
                length += 1;
            }
            length
        };
        sum += match char {
            'a'..='z' | 'A'..='Z' => {
                let length: u64 = run(char::is_ascii_alphabetic);
                TOKEN + 20 * length.saturating_sub(6)
            }
            '0'..='9' => TOKEN * run(char::is_ascii_digit).div_ceil(3),
            ' ' | '\n' | '\t' | '\r' => match run(char::is_ascii_whitespace) {
                1 if char == ' ' => 0,
                _ => TOKEN,
            },
            '\0'..='\x7f' => 70,
            '\u{80}'..='\u{1fff}' => 50,
            '\u{2e80}'..='\u{faff}' => 110,
            _ => 150,
        };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::body::Body;
    use bytes::Bytes;

    fn request_tokens(json: serde_json::Value) -> u64 {
        let body = Body::parse(Bytes::from(json.to_string())).unwrap();
        input(Operation::Messages, &body, &CountText::ByRule)
    }

    fn content_tokens(content: serde_json::Value) -> u64 {
        request_tokens(serde_json::json!({"model": "m", "messages": [{"role": "user", "content": content}]}))
    }

    #[test]
    fn text_counts_are_near_a_tokenizers() {
        let fox = "The quick brown fox jumps over the lazy dog.";
        assert!((15..=22).contains(&content_tokens(fox.into())), "{}", content_tokens(fox.into()));
        assert!((100..=125).contains(&content_tokens("漢".repeat(100).into())));
        assert_eq!(content_tokens("".into()), 8);
    }

    #[test]
    fn an_embedding_of_tokens_counts_them() {
        for (json, wanted) in [
            (r#"{"input":[[1,22,333],[4]]}"#, 4),
            (r#"{"input":[5,6]}"#, 2),
            (r#"{"input":["a","b"],"dimensions":512}"#, 2),
        ] {
            let body = Body::parse(Bytes::from_static(json.as_bytes())).unwrap();
            assert_eq!(input(Operation::Embeddings, &body, &CountText::ByRule), wanted, "{json}");
        }
    }

    #[test]
    fn pictures_count_by_their_pixels() {
        let png = |width: u32, height: u32| {
            let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
            bytes.extend(width.to_be_bytes());
            bytes.extend(height.to_be_bytes());
            bytes.extend([8, 6, 0, 0, 0]);
            base64::engine::general_purpose::STANDARD.encode(bytes)
        };
        let image = |data: String| {
            let source = serde_json::json!({"type": "base64", "media_type": "image/png", "data": data});
            content_tokens(serde_json::json!([{"type": "image", "source": source}])) - 8
        };
        assert_eq!(image(png(750, 100)), 100);
        assert_eq!(image(png(8000, 8000)), PICTURE);
        assert_eq!(image("!".to_owned()), PICTURE);
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x0b\x08\x01\x00\x03\x00\x01";
        assert_eq!(pixels(jpeg), Some(0x100 * 0x300));
        assert_eq!(pixels(b"GIF89a\x02\x00\x03\x00"), Some(6));
        assert_eq!(pixels(b"\xff\xd8\xff"), None);
    }

    #[test]
    fn unreadable_requests_are_counted_too() {
        let tool = serde_json::json!({"name": "f", "input_schema": {"type": "object"}});
        let plain = request_tokens(serde_json::json!({"model": "m", "messages": []}));
        let tools = request_tokens(serde_json::json!({"model": "m", "messages": [], "tools": [tool]}));
        let claude =
            request_tokens(serde_json::json!({"model": "claude-x", "messages": [], "tools": [tool]}));
        assert!(plain < tools && tools < claude);
        assert!(request_tokens(serde_json::json!({"messages": 7})) > 0);
    }
}
