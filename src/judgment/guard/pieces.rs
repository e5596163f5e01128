//! A text that stands in several places of a body: what each of them gets when the text has changed.
//!
//! A check sees one text and returns one. Where the borders between its pieces are in the new one is found by what is the same around them:
//! no character is lost, but next to a change a border may move.

use std::ops::Range;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it stands: its JSON string in a body, or its number in a stream.
    pub place: Range<usize>,
    /// Bytes of the text.
    pub len: usize,
    /// It is a text within the arguments that the JSON string at `place` holds: its place in them.
    pub inner: Option<Range<usize>>,
    /// It is not replaced: its provider takes it in no other form.
    pub is_fixed: bool,
}

impl Piece {
    /// A whole text at its place.
    pub fn whole(place: Range<usize>, len: usize) -> Self {
        Self { place, len, inner: None, is_fixed: false }
    }
}

/// How much of the old text around a border is looked for in the new one, bytes: more first.
const AROUND: [usize; 4] = [64, 16, 6, 2];

/// How far a border is looked for, bytes, besides four times the length of its piece.
const FURTHEST: usize = 64 << 10;

/// The pieces of `new` that take the places of the pieces of `old`, as many and in their order.
pub(crate) fn divided<'n>(old: &str, pieces: &[Piece], new: &'n str) -> Vec<&'n str> {
    let same = |(old, new): &(u8, u8)| old == new;
    let prefix = old.bytes().zip(new.bytes()).take_while(same).count();
    let most = old.len().min(new.len()) - prefix;
    let suffix = old.bytes().rev().zip(new.bytes().rev()).take(most).take_while(same).count();
    let changed = prefix..new.len() - suffix;
    let mut divided = Vec::with_capacity(pieces.len());
    let mut border = 0;
    let mut at = 0;
    for (index, piece) in pieces.iter().enumerate() {
        border += piece.len;
        let end = match border {
            _ if index + 1 == pieces.len() => new.len(),
            _ if border <= prefix => border,
            _ if border >= old.len() - suffix => new.len() - (old.len() - border),
            // Letters were replaced one by one.
            _ if old.len() == new.len() => border,
            _ => {
                let start = at.max(changed.start);
                let furthest = start.saturating_add(FURTHEST).saturating_add(4 * piece.len);
                moved(old, border, new, start..changed.end.min(furthest))
            }
        };
        let end = new.floor_char_boundary(end).max(at);
        divided.push(new.get(at..end).unwrap_or_default());
        at = end;
    }
    divided
}

/// Where a border of the old text is within a range of the new one.
fn moved(old: &str, border: usize, new: &str, range: Range<usize>) -> usize {
    let start = new.ceil_char_boundary(range.start);
    let Some(part) = new.get(start..new.floor_char_boundary(range.end)) else { return range.start };
    let around = |before: usize, behind: usize| {
        let from = old.floor_char_boundary(border.saturating_sub(before));
        let to = old.ceil_char_boundary((border + behind).min(old.len()));
        old.get(from..to).filter(|text| !text.is_empty()).map(|text| (text, border - from))
    };
    let found = AROUND.iter().find_map(|bytes| {
        [around(*bytes, *bytes), around(*bytes, 0), around(0, *bytes)]
            .into_iter()
            .flatten()
            .find_map(|(text, border)| Some(start + part.find(text)? + border))
    });
    // No text around the border is unchanged: all of the changed text goes to the piece before the border.
    found.unwrap_or(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn divide<'n>(old: &[&str], new: &'n str) -> Vec<&'n str> {
        let pieces: Vec<Piece> = old.iter().map(|piece| Piece::whole(0..0, piece.len())).collect();
        divided(&old.concat(), &pieces, new)
    }

    #[test]
    fn what_is_the_same_stays_in_its_piece() {
        for (old, new, wanted) in [
            (&["one two"][..], "1 2", &["1 2"][..]),
            (&["a secret", ", b"], "a ***, b", &["a ***", ", b"]),
            (&["a sec", "ret b"], "a *** b", &["a ***", " b"]),
            (
                &["my mail is a@b.io. Let me look.", "It was c@d.io, and no other.", "Yes."],
                "my mail is {{X}}. Let me look.It was {{X}}, and no other.Yes.",
                &["my mail is {{X}}. Let me look.", "It was {{X}}, and no other.", "Yes."],
            ),
            (&["é a", "ñ b"], "é A ñ b", &["é A ", "ñ b"]),
            (&["a", "", "b"], "A", &["A", "", ""]),
            (&["a", "", "b"], "AB", &["A", "", "B"]),
        ] {
            assert_eq!(divide(old, new), wanted, "{old:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(old in prop::collection::vec("[abé]{0,5}", 1..6), new in "[abcé]{0,20}") {
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            let pieces = divide(&old, &new);
            prop_assert_eq!(pieces.concat(), new.clone());
            prop_assert_eq!(pieces.len(), old.len());
            let same = old.concat();
            prop_assert_eq!(divide(&old, &same), old);
        }
    }
}
