//! Proves that a text is a JSON object and outlines its top-level members, in one pass over its bytes.
//!
//! Accepts exactly what `serde_json` accepts when it reads an object whose values are kept as text: values may nest as
//! deep as they like, and an escape inside them need not be a character. It does not say what is wrong with a text: for
//! a message the caller has `serde_json` read it again. Nothing is built and nothing is unescaped.
//!
//! A request body of a megabyte is nearly all string, so what counts is how fast a string is passed over: 64 bytes at a
//! time, in a form the compiler turns into vector instructions, and UTF-8 is proven only where a byte is not ASCII.
//! Functions take a position and return the one behind what they have proven: it stays in a register that way, and
//! lists of numbers take half the time.

use super::word::{HIGH_BITS, stops_in, word_at};
use std::ops::Range;

/// Where a top-level member stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberSpan {
    /// The name between its quotes, escapes as they stand.
    pub name: Range<usize>,
    pub value: Range<usize>,
    pub name_has_escapes: bool,
}

/// Calls `each` for every top-level member, in order. `None` when `text` is not a JSON object in UTF-8, or when `each`
/// refuses a member.
pub(crate) fn outline(text: &[u8], mut each: impl FnMut(MemberSpan) -> Option<()>) -> Option<()> {
    let mut at = token(text, 0, b'{')?;
    let first = skip_space(text, at);
    if byte(text, first) == b'}' {
        return is_end(text, first + 1);
    }
    loop {
        let (name, name_has_escapes, colon) = name(text, at)?;
        let start = skip_space(text, token(text, colon, b':')?);
        let end = value(text, start)?;
        each(MemberSpan { name, value: start..end, name_has_escapes })?;
        at = skip_space(text, end);
        match byte(text, at) {
            b',' => at += 1,
            b'}' => return is_end(text, at + 1),
            _ => return None,
        }
    }
}

/// The byte at a position; behind the end of the text a zero, which is valid nowhere in JSON.
#[inline(always)]
fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or_default()
}

#[inline(always)]
fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(byte(text, at), b' ' | b'\n' | b'\t' | b'\r') {
        at += 1;
    }
    at
}

/// Behind `wanted`, which may have white space before it.
#[inline(always)]
fn token(text: &[u8], at: usize, wanted: u8) -> Option<usize> {
    let at = skip_space(text, at);
    (byte(text, at) == wanted).then_some(at + 1)
}

/// Only white space follows.
fn is_end(text: &[u8], at: usize) -> Option<()> {
    (skip_space(text, at) == text.len()).then_some(())
}

/// A member's name, which may have white space before it: where it stands, whether it has escapes, and what is behind
/// its closing quote.
#[inline(always)]
fn name(text: &[u8], at: usize) -> Option<(Range<usize>, bool, usize)> {
    let start = token(text, at, b'"')?;
    let (end, has_escapes) = string(text, start)?;
    Some((start..end - 1, has_escapes, end))
}

/// A whole value without white space before it, whatever is nested in it.
fn value(text: &[u8], mut at: usize) -> Option<usize> {
    let mut nesting = Nesting::default();
    loop {
        match byte(text, at) {
            b'"' => at = string(text, at + 1)?.0,
            b'-' => at = number(text, at + 1)?,
            b'0'..=b'9' => at = number(text, at)?,
            open @ (b'{' | b'[') => {
                at = skip_space(text, at + 1);
                let is_object = open == b'{';
                if byte(text, at) != closing(is_object) {
                    nesting.push(is_object);
                    at = next_in(text, at, is_object)?;
                    continue;
                }
                at += 1;
            }
            b't' => at = literal(text, at, b"true")?,
            b'f' => at = literal(text, at, b"false")?,
            b'n' => at = literal(text, at, b"null")?,
            _ => return None,
        }
        // A value has ended: so do the lists and objects whose last one it was.
        loop {
            let Some(is_object) = nesting.top() else { return Some(at) };
            at = skip_space(text, at);
            let separator = byte(text, at);
            at += 1;
            if separator == b',' {
                at = next_in(text, at, is_object)?;
                break;
            }
            if separator != closing(is_object) {
                return None;
            }
            nesting.pop();
        }
    }
}

/// Where the next value of a list or an object begins: in an object its name comes before it.
#[inline(always)]
fn next_in(text: &[u8], at: usize, is_object: bool) -> Option<usize> {
    let at = if is_object { token(text, name(text, at)?.2, b':')? } else { at };
    Some(skip_space(text, at))
}

const fn closing(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

#[inline(always)]
fn literal(text: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    let end = at + literal.len();
    (text.get(at..end)? == literal).then_some(end)
}

/// A number without its sign.
#[inline(always)]
fn number(text: &[u8], at: usize) -> Option<usize> {
    let mut at = match byte(text, at) {
        b'0' if byte(text, at + 1).is_ascii_digit() => return None,
        _ => digits(text, at)?,
    };
    if byte(text, at) == b'.' {
        at = digits(text, at + 1)?;
    }
    if matches!(byte(text, at), b'e' | b'E') {
        at += 1 + usize::from(matches!(byte(text, at + 1), b'+' | b'-'));
        at = digits(text, at)?;
    }
    Some(at)
}

/// At least one digit.
#[inline(always)]
fn digits(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while byte(text, at).is_ascii_digit() {
        at += 1;
    }
    (at > start).then_some(at)
}

/// The rest of a string and its closing quote, from behind the opening one; and whether it has escapes.
fn string(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut is_ascii = true;
    let mut has_escapes = false;
    loop {
        at = plain_end(text, at, &mut is_ascii);
        match byte(text, at) {
            b'"' => break,
            b'\\' => at = escape(text, at + 1)?,
            // A control character, or the end of the text.
            _ => return None,
        }
        has_escapes = true;
    }
    if !is_ascii {
        simdutf8::basic::from_utf8(text.get(start..at)?).ok()?;
    }
    Some((at + 1, has_escapes))
}

/// What stands behind a backslash.
#[inline(always)]
fn escape(text: &[u8], at: usize) -> Option<usize> {
    match byte(text, at) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => {
            let digits = text.get(at + 1..at + 5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 5)
        }
        _ => None,
    }
}

/// Words looked at one by one before whole blocks are: most strings are short, and end within them.
const FIRST_WORDS: usize = 8;

/// The next quote, backslash or control character, or the end of the text. `is_ascii` is cleared when a byte before it
/// is not ASCII, and may be cleared by one behind it.
#[inline(always)]
fn plain_end(text: &[u8], mut at: usize, is_ascii: &mut bool) -> usize {
    loop {
        for _ in 0..FIRST_WORDS {
            let Some(word) = word_at(text, at) else { return last_plain_end(text, at, is_ascii) };
            *is_ascii &= word & HIGH_BITS == 0;
            let stops = stops_in(word);
            if stops != 0 {
                return at + stops.trailing_zeros() as usize / 8;
            }
            at += 8;
        }
        let (blocks, _) = text.get(at..).unwrap_or_default().as_chunks::<64>();
        at += 64 * blocks.iter().take_while(|block| is_plain(block, is_ascii)).count();
    }
}

/// As [`plain_end`], where fewer than eight bytes are left.
fn last_plain_end(text: &[u8], at: usize, is_ascii: &mut bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    *is_ascii &= rest.is_ascii();
    at + rest.iter().position(|&byte| byte < b' ' || byte == b'"' || byte == b'\\').unwrap_or(rest.len())
}

/// Whether no byte of a block ends the run. No early exit and no branch: this is what becomes vector instructions.
#[inline(always)]
fn is_plain(block: &[u8; 64], is_ascii: &mut bool) -> bool {
    let mut stops = 0;
    let mut all = 0;
    for &byte in block {
        stops |= u8::from(byte < b' ') | u8::from(byte == b'"') | u8::from(byte == b'\\');
        all |= byte;
    }
    *is_ascii &= all.is_ascii();
    stops == 0
}

/// The open lists and objects, one bit each: set for an object. The innermost is the lowest bit of `inner`.
#[derive(Default)]
struct Nesting {
    depth: usize,
    inner: u64,
    /// The outer ones, 64 to a word; nearly always empty.
    outer: Vec<u64>,
}

impl Nesting {
    #[inline(always)]
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.inner);
        }
        self.depth += 1;
        self.inner = (self.inner << 1) | u64::from(is_object);
    }

    /// Whether the innermost is an object; `None` when none is open.
    #[inline(always)]
    fn top(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.inner & 1 == 1)
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.inner >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.inner = self.outer.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests;
