//! As much of a value's text as patterns look at.
//!
//! Not here: how a value becomes a text (`query::fact`).

use std::borrow::Cow;

/// The beginning of a text. What follows is not seen: nothing that stands there is found, and `$` and `\z` hold at the
/// end of the whole text only.
#[derive(Debug, Clone, PartialEq)]
pub struct Excerpt<'a> {
    text: Cow<'a, str>,
    whole: bool,
}

impl<'a> Excerpt<'a> {
    /// How much of a text patterns look at.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Cuts a text to its first [`Excerpt::MAX_BYTES`], between two characters.
    pub fn of(text: impl Into<Cow<'a, str>>) -> Self {
        let mut text = text.into();
        let end = text.floor_char_boundary(Self::MAX_BYTES);
        let whole = end == text.len();
        if !whole {
            match &mut text {
                Cow::Borrowed(text) => *text = text.get(..end).unwrap_or_default(),
                Cow::Owned(text) => text.truncate(end),
            }
        }
        Self { text, whole }
    }

    /// The beginning of a text of which more follows.
    pub(crate) fn beginning_of(text: impl Into<Cow<'a, str>>) -> Self {
        Self { whole: false, ..Self::of(text) }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing follows.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
}
