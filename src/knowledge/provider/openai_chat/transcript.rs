//! The transcript of audio that a model speaks, which some vendors send as the message's text as well.
//!
//! A client that gets text must get it once, in whole responses and in streams, whichever comes first and however it is
//! cut. For example, these responses mean the same:
//!
//! ```text
//! {"content":null,"audio":{"data":"..","transcript":"Hello"}}
//! {"content":"Hello","audio":{"data":"..","transcript":"Hello"}}
//! {"content":"Hel"}  {"audio":{"transcript":"Hello"}}  {"content":"lo"}  {"audio":{"transcript":"Hello"}}
//! ```

use std::borrow::Cow;

/// The maximum that is kept of the text, in bytes: a longer one is not compared.
const MAX_KEPT: usize = 1 << 20;
/// The same as long as nothing was spoken.
const MAX_KEPT_UNSPOKEN: usize = 4 << 10;
/// Shorter transcripts that equal the text so far are taken for what comes next: a model may laugh.
const MIN_REPEATED: usize = 8;

/// Where a piece of text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextSource {
    Content,
    Transcript,
}

/// The text of one choice so far, which its content and its transcript have in common.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    text: String,
    /// How much of the text each source has sent, in bytes.
    content: usize,
    transcript: usize,
    /// The two differ, or are too long to compare: everything is passed on.
    differ: bool,
}

impl Transcript {
    /// The part of a piece of text that is new.
    pub(crate) fn new_part<'t>(&mut self, piece: Cow<'t, str>, source: TextSource) -> Cow<'t, str> {
        if self.differ || piece.is_empty() {
            return piece;
        }
        let is_spoken = self.transcript > 0 || source == TextSource::Transcript;
        let max = if is_spoken { MAX_KEPT } else { MAX_KEPT_UNSPOKEN };
        let sent = match source {
            TextSource::Content => &mut self.content,
            TextSource::Transcript => &mut self.transcript,
        };
        let mut rest = self.text.get(*sent..).unwrap_or_default();
        let mut wanted = piece.as_ref();
        if *sent == 0 {
            (rest, wanted) = (rest.trim_start(), wanted.trim_start());
        }
        if !rest.is_empty() && rest.starts_with(wanted.trim_end()) {
            *sent = self.text.len() - rest.len() + wanted.len().min(rest.len());
            return Cow::Borrowed("");
        }
        // Some vendors end with the transcript as a whole.
        let is_end = source == TextSource::Transcript && rest.is_empty() && wanted.len() >= MIN_REPEATED;
        if is_end && self.text.trim() == wanted.trim() {
            return Cow::Borrowed("");
        }
        let Some(new) = wanted.strip_prefix(rest) else {
            self.differ = true;
            return piece;
        };
        let repeated = if rest.is_empty() { 0 } else { piece.len() - new.len() };
        if self.text.len() + piece.len() - repeated > max {
            self.differ = true;
        } else {
            self.text.push_str(piece.get(repeated..).unwrap_or_default());
            *sent = self.text.len();
        }
        match piece {
            Cow::Borrowed(piece) => Cow::Borrowed(piece.get(repeated..).unwrap_or_default()),
            Cow::Owned(mut piece) => {
                piece.drain(..repeated);
                Cow::Owned(piece)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that a client gets of pieces: `c` is content, `t` a transcript.
    fn joined(pieces: &[(char, &str)]) -> String {
        let mut transcript = Transcript::default();
        let mut joined = String::new();
        for (source, piece) in pieces {
            let source = if *source == 'c' { TextSource::Content } else { TextSource::Transcript };
            joined.push_str(&transcript.new_part(Cow::Borrowed(piece), source));
        }
        joined
    }

    #[test]
    fn a_text_is_sent_once_however_it_is_cut() {
        for pieces in [
            &[('c', "Hello you"), ('t', "Hello you")][..],
            &[('t', "Hello you"), ('c', "Hello you")],
            &[('c', "Hel"), ('t', "Hello"), ('c', "lo you"), ('t', " you")],
            &[('t', "Hello"), ('t', " you"), ('t', "Hello you")],
            &[('t', "Hello"), ('t', " you"), ('c', "Hello you"), ('t', "Hello you")],
            &[('c', "Hello"), ('c', " you"), ('t', "\nHello"), ('t', " you\n")],
            &[('t', "Hello you"), ('c', " Hello"), ('c', " you")],
        ] {
            assert_eq!(joined(pieces), "Hello you", "{pieces:?}");
        }
    }

    #[test]
    fn what_is_no_repetition_stays() {
        assert_eq!(joined(&[('c', "haha haha"), ('c', "haha haha")]), "haha hahahaha haha");
        assert_eq!(joined(&[('t', "ha"), ('t', "ha")]), "haha");
        assert_eq!(joined(&[('c', "See:"), ('t', "Hello"), ('c', " end")]), "See:Hello end");
        let long = "x".repeat(MAX_KEPT_UNSPOKEN);
        assert_eq!(joined(&[('c', &long), ('c', "y"), ('t', "z")]), format!("{long}yz"));
    }
}
