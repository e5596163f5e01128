//! One pass over a text that finds everything that is looked for.
//!
//! It looks at each word once, and at a bounded number of bytes around it: the time is linear in the text.

use super::announced::Announced;
use super::bytes::{Bytes, is_word};
use super::category::{Categories, Category};
use super::digits::{self, Digits};
use super::{card, email, iban, ip, phone, secret, ssn};
use std::ops::Range;

/// Something found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub category: Category,
    pub range: Range<usize>,
}

/// How far in front of a match the text is looked at, in bytes.
const CONTEXT: usize = 64;

/// No number of one group is shorter.
const MIN_DIGITS: usize = 7;

/// What is looked for, and how long it may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    wanted: Categories,
    /// Whether what is found is replaced: then the long secrets are found to their end, not only their beginning.
    is_whole: bool,
}

/// What a byte may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Nothing,
    Word,
    Digit,
    At,
    Hyphen,
    Colon,
    Backslash,
}

#[expect(clippy::indexing_slicing, reason = "an index below 256, checked when it is compiled")]
const STARTS: [Start; 256] = {
    let mut starts = [Start::Nothing; 256];
    let mut byte = 0;
    while byte < 256 {
        starts[byte] = match byte as u8 {
            b'0'..=b'9' => Start::Digit,
            b'@' => Start::At,
            b'-' => Start::Hyphen,
            b':' => Start::Colon,
            b'\\' => Start::Backslash,
            other if is_word(other) => Start::Word,
            _ => Start::Nothing,
        };
        byte += 1;
    }
    starts
};

impl Scan {
    pub fn new(wanted: Categories, is_whole: bool) -> Self {
        Self { wanted, is_whole }
    }

    /// The longest range that is found, in bytes.
    pub fn longest(self) -> usize {
        let lengths = [
            (Category::EmailAddress, email::MAX),
            (Category::PhoneNumber, digits::MAX),
            (Category::Iban, iban::MAX),
            (Category::ApiKey, secret::MAX),
            (Category::Jwt, self.max_jwt()),
            (Category::PrivateKey, self.max_private_key()),
        ];
        let wanted = lengths.into_iter().filter(|(category, _)| self.wanted.has(*category));
        wanted.map(|(_, length)| length).max().unwrap_or(digits::MAX)
    }

    fn max_jwt(self) -> usize {
        if self.is_whole { secret::MAX_JWT } else { secret::MAX }
    }

    fn max_private_key(self) -> usize {
        if self.is_whole { secret::MAX_PRIVATE_KEY } else { secret::MAX }
    }

    /// What begins and ends within the range, from left to right, without overlaps.
    pub fn find(self, text: &str, range: Range<usize>) -> Vec<Found> {
        let bytes = Bytes(text.as_bytes());
        let mut found = Vec::new();
        // A word in front of the range may say what a value in it is.
        let mut at = range.start.saturating_sub(CONTEXT);
        let mut announced = Announced::default();
        let end = range.end.min(text.len());
        while at < end {
            let start = STARTS.get(usize::from(bytes.at(at))).copied().unwrap_or(Start::Nothing);
            let (hit, next) = match start {
                Start::Nothing => (None, at + 1),
                Start::Word => self.word(bytes, at, &mut announced),
                Start::Digit => self.number(bytes, at, &announced),
                Start::At => (self.email(bytes, at), at + 1),
                Start::Hyphen => (self.private_key(bytes, at), at + 1),
                Start::Colon => (self.short_ipv6(bytes, at), at + 1),
                Start::Backslash => (None, at + 1 + usize::from(bytes.is_escape(at))),
            };
            at = hit.as_ref().map_or(next, |hit: &Found| hit.range.end.max(next));
            found.extend(hit);
        }
        found.retain(|hit| hit.range.start >= range.start && hit.range.end <= range.end);
        without_overlaps(found)
    }

    /// What begins at a word, and where the search goes on.
    fn word(self, bytes: Bytes<'_>, at: usize, announced: &mut Announced) -> (Option<Found>, usize) {
        let end = word_end(bytes, at);
        if bytes.is_word_before(at) {
            return (None, end);
        }
        announced.read(bytes, at..end);
        let first = bytes.at(at);
        let next = bytes.at(end);
        let length = end - at;
        // Most words can be nothing, which shows at the byte behind them.
        let may_be_secret = length > 16
            || match next {
                b'-' | b'.' | b'=' | b':' | b'"' | b'\'' => true,
                b' ' => {
                    matches!(bytes.at(end + 1), b' ' | b'=' | b':') || length == 6 && first | 0x20 == b'b'
                }
                _ => false,
            };
        let hit = if may_be_secret { self.secret(bytes, at..end) } else { None };
        let may_be_iban = length >= 4 && first.is_ascii_uppercase() && bytes.at(at + 2).is_ascii_digit();
        let hit = hit.or_else(|| if may_be_iban { self.iban(bytes, at) } else { None });
        let may_be_ip = length <= 4 && next == b':' && first.is_ascii_hexdigit();
        (hit.or_else(|| if may_be_ip { self.ipv6(bytes, at) } else { None }), end)
    }

    /// What begins at a digit, and where the search goes on.
    fn number(self, bytes: Bytes<'_>, at: usize, announced: &Announced) -> (Option<Found>, usize) {
        let end = word_end(bytes, at);
        if bytes.is_word_before(at) {
            return (None, end);
        }
        let hit = match bytes.at(end) {
            b':' if end - at <= 4 => self.ipv6(bytes, at),
            _ => None,
        };
        if end - at < MIN_DIGITS && !digits::goes_on(bytes, end) {
            return (hit, end);
        }
        let Some(digits) = Digits::read(bytes, at) else { return (hit, end) };
        let of = |category: Category, find: &dyn Fn() -> Option<Range<usize>>| {
            let range = if self.wanted.has(category) { find() } else { None };
            range.map(|range| Found { category, range })
        };
        let hit = hit
            .or_else(|| of(Category::IpAddress, &|| ip::ipv4(&digits).filter(|_| !announced.version(at))))
            .or_else(|| of(Category::CreditCard, &|| card::card(&digits)))
            .or_else(|| of(Category::Ssn, &|| ssn::ssn(&digits, announced.ssn(at))))
            .or_else(|| of(Category::PhoneNumber, &|| phone::phone(&digits, announced.phone(at))));
        (hit, end)
    }

    fn secret(self, bytes: Bytes<'_>, word: Range<usize>) -> Option<Found> {
        if !self.wanted.has_any(&[Category::ApiKey, Category::Jwt]) {
            return None;
        }
        let (category, range) = secret::secret_at(bytes, word, self.max_jwt())?;
        self.wanted.has(category).then_some(Found { category, range })
    }

    fn iban(self, bytes: Bytes<'_>, at: usize) -> Option<Found> {
        let range = if self.wanted.has(Category::Iban) { iban::iban(bytes, at) } else { None };
        range.map(|range| Found { category: Category::Iban, range })
    }

    fn email(self, bytes: Bytes<'_>, at: usize) -> Option<Found> {
        let range = if self.wanted.has(Category::EmailAddress) { email::email_at(bytes, at) } else { None };
        range.map(|range| Found { category: Category::EmailAddress, range })
    }

    fn private_key(self, bytes: Bytes<'_>, at: usize) -> Option<Found> {
        if bytes.before(at) == b'-' || !self.wanted.has(Category::PrivateKey) {
            return None;
        }
        let range = secret::private_key(bytes, at, self.max_private_key());
        range.map(|range| Found { category: Category::PrivateKey, range })
    }

    /// An address of version 6 that begins with `::`.
    fn short_ipv6(self, bytes: Bytes<'_>, at: usize) -> Option<Found> {
        if bytes.starts_with(at, b"::") { self.ipv6(bytes, at) } else { None }
    }

    fn ipv6(self, bytes: Bytes<'_>, at: usize) -> Option<Found> {
        let range = if self.wanted.has(Category::IpAddress) { ip::ipv6(bytes, at) } else { None };
        range.map(|range| Found { category: Category::IpAddress, range })
    }
}

fn word_end(bytes: Bytes<'_>, at: usize) -> usize {
    let is_inside = |byte: &u8| matches!(STARTS.get(usize::from(*byte)), Some(Start::Word | Start::Digit));
    at + bytes.0.get(at..).unwrap_or_default().iter().take_while(|byte| is_inside(byte)).count()
}

/// Of two that overlap the one that begins first, and of those the longer one.
fn without_overlaps(mut found: Vec<Found>) -> Vec<Found> {
    if !found.is_sorted_by(|one, other| one.range.end <= other.range.start) {
        found.sort_by_key(|hit| (hit.range.start, usize::MAX - hit.range.end));
        let mut end = 0;
        found.retain(|hit| {
            let is_free = hit.range.start >= end;
            if is_free {
                end = hit.range.end;
            }
            is_free
        });
    }
    found
}
