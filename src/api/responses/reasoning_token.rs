//! What stands in a reasoning item's `encrypted_content`, so that a provider's seals come back with the items.
//!
//! A signature stands there as the provider wrote it; thinking only the provider can read and the signature
//! of a tool call say what they are in front. All of it is text for nobody but the provider.

use std::borrow::Cow;

const SIGNATURE: &str = "signature:";
const REDACTED: &str = "redacted:";
const CALL: &str = "call:";

/// How everything begins that OpenAI sealed itself (a Fernet token): no other provider can open it.
const OPENAI: &str = "gAAAA";

/// One seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReasoningToken<'a> {
    /// On the thinking in the same item.
    Signature(Cow<'a, str>),
    /// The thinking itself.
    Redacted(Cow<'a, str>),
    /// On the function call that follows.
    Call(Cow<'a, str>),
    /// Another provider's: of no use to anybody here.
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
        } else if text.starts_with(OPENAI) {
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
    /// As it stands in `encrypted_content`. A signature is marked only where it could be taken for something
    /// else.
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
