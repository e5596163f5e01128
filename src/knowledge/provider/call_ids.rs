//! Ids of tool calls as a provider takes them.
//!
//! Other providers' ids arrive when a conversation changes providers: `functions.Bash:0` is refused by Anthropic, 90 characters by
//! OpenAI, everything but nine letters and digits by Mistral. What is sent depends only on the id, so that a call and its result
//! still match, and no two ids become one.

use std::borrow::Cow;
use words::api::chat::{Message, Part};

/// Which ids a provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRule {
    Any,
    /// At most so many characters of any kind.
    Length(usize),
    /// At most so many letters, digits, `_`, `-` and the characters named.
    Signs(usize, &'static str),
    /// Nine letters and digits (Mistral: <https://docs.mistral.ai/api>).
    Nine,
}

const NINE: usize = 9;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl IdRule {
    /// `tool_use.id` matches `^[a-zA-Z0-9_-]+$`, says Anthropic's refusal of others
    /// (<https://github.com/maximhq/bifrost/issues/5097>). No length is documented.
    pub const ANTHROPIC: Self = Self::Signs(256, "");
    /// `ToolUseId` in botocore 1.44.5: at most 64 of `[a-zA-Z0-9_.:-]`.
    pub const BEDROCK: Self = Self::Signs(64, ".:");
    /// "string too long. Expected a string with maximum length 64" (<https://github.com/langchain-ai/langchain/issues/37756>).
    pub const OPENAI: Self = Self::Length(64);

    /// The id itself if it is valid, otherwise one made of it.
    pub fn fit(self, id: &str) -> Cow<'_, str> {
        let is_sign = |char: char, also: &str| {
            char.is_ascii_alphanumeric() || matches!(char, '_' | '-') || also.contains(char)
        };
        match self {
            _ if id.is_empty() => Cow::Borrowed(id),
            Self::Any => Cow::Borrowed(id),
            Self::Length(max) if id.chars().count() <= max => Cow::Borrowed(id),
            Self::Length(max) => Cow::Owned(hashed(id.chars(), id, max)),
            Self::Signs(max, also) if id.len() <= max && id.chars().all(|char| is_sign(char, also)) => {
                Cow::Borrowed(id)
            }
            Self::Signs(max, also) => {
                let signs = id.chars().map(|char| if is_sign(char, also) { char } else { '_' });
                Cow::Owned(hashed(signs, id, max))
            }
            Self::Nine if id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Cow::Borrowed(id)
            }
            Self::Nine => Cow::Owned(nine(id)),
        }
    }

    /// Changes the ids of a conversation.
    pub fn apply(self, messages: &mut [Message<'_>]) {
        let fit = |id: &mut Cow<'_, str>| {
            if let Cow::Owned(fitting) = self.fit(id) {
                *id = Cow::Owned(fitting);
            }
        };
        if self == Self::Any {
            return;
        }
        for message in messages {
            message.tool_call_id.iter_mut().for_each(fit);
            for part in &mut message.content {
                if let Part::ToolCall(call) = part {
                    fit(&mut call.id);
                }
            }
        }
    }
}

/// The characters, cut to `max`, with a hash of the id at their end: it keeps ids apart that differ only in what is cut or replaced.
fn hashed(signs: impl Iterator<Item = char>, id: &str, max: usize) -> String {
    let kept: String = signs.take(max.saturating_sub(17)).collect();
    format!("{kept}_{:016x}", fnv(id))
}

/// FNV-1a: good enough to keep the calls of one conversation apart.
fn fnv(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn nine(id: &str) -> String {
    let mut hash = fnv(id);
    let mut short = String::with_capacity(NINE);
    for _ in 0..NINE {
        let digit = DIGITS.get((hash % 62) as usize).copied().unwrap_or(b'0');
        short.push(char::from(digit));
        hash /= 62;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ids_stay_and_no_two_become_one() {
        for (rule, good) in [
            (IdRule::Any, "functions.Bash:0"),
            (IdRule::ANTHROPIC, "toolu_01A09q90qw90lq917835lq9"),
            (IdRule::BEDROCK, "functions.Bash:0"),
            (IdRule::OPENAI, "call|fc_1"),
            (IdRule::Nine, "6IgxW8LfZ"),
        ] {
            assert_eq!(rule.fit(good), good);
        }
        let long = "x".repeat(90);
        let other = format!("{}y", "x".repeat(89));
        let ids = ["abc:1", "abc.1", "abc_1", "call|fc_1", "ü", &long, &other];
        for rule in [IdRule::ANTHROPIC, IdRule::BEDROCK, IdRule::OPENAI, IdRule::Nine] {
            let mut made: Vec<String> = ids.iter().map(|id| rule.fit(id).into_owned()).collect();
            for id in &made {
                assert_eq!(rule.fit(id), id.as_str(), "{rule:?} takes what it makes");
            }
            made.sort();
            made.dedup();
            assert_eq!(made.len(), ids.len(), "{rule:?} {made:?}");
        }
        assert_eq!(IdRule::OPENAI.fit(&long).len(), 64);
        assert_eq!(IdRule::ANTHROPIC.fit(""), "", "refused by whoever needs one");
    }
}
