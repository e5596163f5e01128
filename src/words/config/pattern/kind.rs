//! What assertions (`^`, `$`, `\b`) see of a byte, and whether they hold between two.
//!
//! Not here: when they are looked at (`builder`).

use regex_automata::util::look::Look;

/// What assertions see of a byte beside a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// There is none: the text begins or ends here.
    Edge,
    Word,
    LineFeed,
    CarriageReturn,
    Other,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Edge, Self::Word, Self::LineFeed, Self::CarriageReturn, Self::Other];

    pub fn of_byte(byte: u8) -> Self {
        match byte {
            b'\n' => Self::LineFeed,
            b'\r' => Self::CarriageReturn,
            b'_' => Self::Word,
            _ if byte.is_ascii_alphanumeric() => Self::Word,
            _ => Self::Other,
        }
    }

    /// The kind that `kind as u32` is the number of.
    pub fn of_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number).unwrap_or(Self::Other)
    }
}

/// Whether an assertion holds between two bytes, in the order in which they are read. An NFA that reads backwards has
/// its assertions turned round.
pub(super) fn holds(look: Look, before: Kind, after: Kind, backwards: bool) -> bool {
    if backwards {
        return holds(look.reversed(), after, before, false);
    }
    let word_before = before == Kind::Word;
    let word_after = after == Kind::Word;
    match look {
        Look::Start => before == Kind::Edge,
        Look::End => after == Kind::Edge,
        Look::StartLF => matches!(before, Kind::Edge | Kind::LineFeed),
        Look::EndLF => matches!(after, Kind::Edge | Kind::LineFeed),
        Look::StartCRLF => {
            matches!(before, Kind::Edge | Kind::LineFeed)
                || (before == Kind::CarriageReturn && after != Kind::LineFeed)
        }
        Look::EndCRLF => {
            matches!(after, Kind::Edge | Kind::CarriageReturn)
                || (after == Kind::LineFeed && before != Kind::CarriageReturn)
        }
        Look::WordAscii | Look::WordUnicode => word_before != word_after,
        Look::WordAsciiNegate | Look::WordUnicodeNegate => word_before == word_after,
        Look::WordStartAscii | Look::WordStartUnicode => !word_before && word_after,
        Look::WordEndAscii | Look::WordEndUnicode => word_before && !word_after,
        Look::WordStartHalfAscii | Look::WordStartHalfUnicode => !word_before,
        Look::WordEndHalfAscii | Look::WordEndHalfUnicode => !word_after,
    }
}
