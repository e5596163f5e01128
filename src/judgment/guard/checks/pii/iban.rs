//! International bank account numbers (ISO 13616): the length that the country has, and check digits by modulus 97.
//!
//! One text in 97 of the right form and length has right check digits by chance.

use super::bytes::{Bytes, is_word};
use std::ops::Range;

/// The longest number with a space after every four characters.
pub const MAX: usize = 42;

/// Countries and lengths by the registry of SWIFT (<https://www.swift.com/standards/data-standards/iban>), sorted.
#[rustfmt::skip]
const LENGTHS: [(&[u8; 2], u8); 89] = [
    (b"AD", 24), (b"AE", 23), (b"AL", 28), (b"AT", 20), (b"AZ", 28), (b"BA", 20), (b"BE", 16), (b"BG", 22),
    (b"BH", 22), (b"BI", 27), (b"BR", 29), (b"BY", 28), (b"CH", 21), (b"CR", 22), (b"CY", 28), (b"CZ", 24),
    (b"DE", 22), (b"DJ", 27), (b"DK", 18), (b"DO", 28), (b"EE", 20), (b"EG", 29), (b"ES", 24), (b"FI", 18),
    (b"FK", 18), (b"FO", 18), (b"FR", 27), (b"GB", 22), (b"GE", 22), (b"GI", 23), (b"GL", 18), (b"GR", 27),
    (b"GT", 28), (b"HN", 28), (b"HR", 21), (b"HU", 28), (b"IE", 22), (b"IL", 23), (b"IQ", 23), (b"IS", 26),
    (b"IT", 27), (b"JO", 30), (b"KW", 30), (b"KZ", 20), (b"LB", 28), (b"LC", 32), (b"LI", 21), (b"LT", 20),
    (b"LU", 20), (b"LV", 21), (b"LY", 25), (b"MC", 27), (b"MD", 24), (b"ME", 22), (b"MK", 19), (b"MN", 20),
    (b"MR", 27), (b"MT", 31), (b"MU", 30), (b"NI", 28), (b"NL", 18), (b"NO", 15), (b"OM", 23), (b"PK", 24),
    (b"PL", 28), (b"PS", 29), (b"PT", 25), (b"QA", 29), (b"RO", 24), (b"RS", 22), (b"RU", 33), (b"SA", 24),
    (b"SC", 31), (b"SD", 18), (b"SE", 24), (b"SI", 19), (b"SK", 24), (b"SM", 27), (b"SO", 23), (b"ST", 25),
    (b"SV", 28), (b"TL", 23), (b"TN", 24), (b"TR", 26), (b"UA", 29), (b"VA", 22), (b"VG", 24), (b"XK", 20),
    (b"YE", 30),
];

/// The number that begins at a position, where no word character precedes.
pub(crate) fn iban(bytes: Bytes<'_>, start: usize) -> Option<Range<usize>> {
    let country = bytes.slice(start..start + 2);
    let row = LENGTHS.binary_search_by(|(code, _)| code.as_slice().cmp(country)).ok()?;
    let length = usize::from(LENGTHS.get(row)?.1);
    let mut position = start;
    let mut characters = [0_u8; 34];
    for (index, character) in characters.iter_mut().take(length).enumerate() {
        if index > 0 && index % 4 == 0 && bytes.at(position) == b' ' {
            position += 1;
        }
        *character = bytes.at(position);
        let fits = match index {
            2 | 3 => character.is_ascii_digit(),
            _ => character.is_ascii_uppercase() || character.is_ascii_digit(),
        };
        if !fits {
            return None;
        }
        position += 1;
    }
    let characters = characters.get(..length)?;
    (!is_word(bytes.at(position)) && remainder(characters) == 1).then_some(start..position)
}

/// The remainder modulo 97 of the number with its first four characters last and letters as 10 to 35.
fn remainder(characters: &[u8]) -> u32 {
    let (first, rest) = characters.split_at(characters.len().min(4));
    rest.iter().chain(first).fold(0, |remainder, character| match character {
        b'0'..=b'9' => (remainder * 10 + u32::from(character - b'0')) % 97,
        _ => (remainder * 100 + u32::from(character - b'A') + 10) % 97,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_several_countries() {
        for number in [
            "DE89370400440532013000",
            "DE89 3704 0044 0532 0130 00",
            "GB29 NWBK 6016 1331 9268 19",
            "FR14 2004 1010 0505 0001 3M02 606",
            "NO93 8601 1117 947",
            "MT84MALT011000012345MTLCAST001S",
        ] {
            let text = format!("{number}, and");
            assert_eq!(iban(Bytes(text.as_bytes()), 0), Some(0..number.len()), "{number}");
        }
    }

    #[test]
    fn wrong_check_digits_lengths_and_countries() {
        for text in [
            "DE88370400440532013000",
            "DE8937040044053201300",
            "DE893704004405320130001",
            "ZZ89370400440532013000",
            "de89370400440532013000",
            "GB29",
            "",
        ] {
            assert_eq!(iban(Bytes(text.as_bytes()), 0), None, "{text}");
        }
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(LENGTHS.is_sorted_by(|one, other| one.0 < other.0));
    }
}
