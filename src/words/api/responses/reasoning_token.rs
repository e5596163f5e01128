//! The content of a reasoning item's `encrypted_content`, which carries a provider's signatures through the
//! client and back.
//!
//! A signature is written unchanged. Encrypted reasoning and the signature of a tool call get a prefix:
//!
//! ```text
//! Signature("EqQB")   EqQB
//! Redacted("XYZ")     redacted:XYZ
//! Call("SEAL")        call:SEAL
//! ```
//!
//! The prefixes are part of running conversations at clients and must not change.

use std::borrow::Cow;

const SIGNATURE: &str = "signature:";
const REDACTED: &str = "redacted:";
const CALL: &str = "call:";

/// The start of everything that OpenAI encrypted itself (a Fernet token), which no other provider can read.
const OPENAI: &str = "gAAAA";

/// Whether OpenAI encrypted this thinking itself: no other provider can read it, and OpenAI reads no other.
pub fn is_openais_thinking(token: &str) -> bool {
    token.starts_with(OPENAI)
}

/// One value of `encrypted_content`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReasoningToken<'a> {
    /// The signature on the reasoning in the same item.
    Signature(Cow<'a, str>),
    /// Encrypted reasoning.
    Redacted(Cow<'a, str>),
    /// The signature on the function call that follows.
    Call(Cow<'a, str>),
    /// Made by OpenAI, and of no use to another provider.
    Foreign,
}

impl<'a> ReasoningToken<'a> {
    pub fn parse(text: Cow<'a, str>) -> Self {
        if let Some(rest) = strip(&text, SIGNATURE) {
            Self::Signature(rest)
        } else if let Some(rest) = strip(&text, REDACTED) {
            Self::Redacted(rest)
        } else if let Some(rest) = strip(&text, CALL) {
            Self::Call(rest)
        } else if is_openais_thinking(&text) {
            Self::Foreign
        } else {
            Self::Signature(text)
        }
    }
}

fn strip<'a>(text: &Cow<'a, str>, prefix: &str) -> Option<Cow<'a, str>> {
    match text {
        Cow::Borrowed(text) => text.strip_prefix(prefix).map(Cow::Borrowed),
        Cow::Owned(text) => text.strip_prefix(prefix).map(|rest| Cow::Owned(rest.to_owned())),
    }
}

impl ReasoningToken<'_> {
    /// As written into `encrypted_content`. A signature gets its prefix only if it could be mistaken for
    /// something else.
    pub fn encode(&self) -> Cow<'_, str> {
        match self {
            Self::Signature(text) => match ReasoningToken::parse(Cow::Borrowed(text)) {
                ReasoningToken::Signature(same) if same == *text => same,
                _ => Cow::Owned([SIGNATURE, text].concat()),
            },
            Self::Redacted(data) => Cow::Owned([REDACTED, data].concat()),
            Self::Call(signature) => Cow::Owned([CALL, signature].concat()),
            Self::Foreign => Cow::Borrowed(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_round_trips() {
        for text in ["EqQBCkgIARAB", "", "gAAAAABp", "redacted:x", "call:", "signature:signature:"] {
            for token in [
                ReasoningToken::Signature(text.into()),
                ReasoningToken::Redacted(text.into()),
                ReasoningToken::Call(text.into()),
            ] {
                assert_eq!(ReasoningToken::parse(token.encode()), token);
            }
        }
        assert_eq!(ReasoningToken::Signature("EqQB".into()).encode(), "EqQB");
        assert_eq!(ReasoningToken::parse("gAAAAABqUWSj".into()), ReasoningToken::Foreign);
    }
}
