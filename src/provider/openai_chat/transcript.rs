//! The transcript of audio that a model speaks, which some vendors send as the message's text as well.
//!
//! A client that gets text must get it once. For example, these two messages mean the same:
//!
//! ```text
//! {"content":null,"audio":{"data":"..","transcript":"Hello"}}
//! {"content":"Hello","audio":{"data":"..","transcript":"Hello"}}
//! ```

use super::chunk::{AudioIn, non_empty_text};
use crate::json::Json;
use std::borrow::Cow;

/// The maximum that is kept of a transcript, in bytes: a longer one is not compared.
const MAX_KEPT: usize = 1 << 20;

/// The transcript of one choice so far.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    text: String,
    /// How much of it the message's text has repeated, in bytes.
    repeated: usize,
}

impl Transcript {
    /// Takes the transcript of a message or delta and returns it, unless `content` beside it is the same text.
    pub fn take<'a>(&mut self, audio: &'a AudioIn<'_>, content: Option<&Json<'_>>) -> Option<Cow<'a, str>> {
        let transcript = non_empty_text(&audio.transcript)?;
        let content = content.and_then(Json::text).unwrap_or_default();
        if !content.is_empty() && content.trim() == transcript.trim() {
            return None;
        }
        if self.text.len() + transcript.len() <= MAX_KEPT {
            self.text.push_str(&transcript);
        }
        Some(transcript)
    }

    /// Whether a piece of the message's text only repeats what the transcript said before.
    pub fn is_repeated_by(&mut self, content: &Json<'_>) -> bool {
        let rest = self.text.get(self.repeated..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let Some(content) = content.text().filter(|content| !content.is_empty()) else { return false };
        let repeats = rest.starts_with(&*content);
        if repeats {
            self.repeated += content.len();
        }
        repeats
    }
}
