//! Words that say what the number behind them is: "call me at 9380 6377", "SSN: 536904399", "version 1.2.3.4".

use super::bytes::Bytes;
use std::ops::Range;

/// How far behind the word the number may begin, in bytes.
const REACH: usize = 40;
const VERSION_REACH: usize = 2;

/// Where the last words ended that announce a number.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    phone: Option<usize>,
    ssn: Option<usize>,
    version: Option<usize>,
}

impl Announced {
    pub fn read(&mut self, bytes: Bytes<'_>, word: Range<usize>) {
        let announces = |list: &[&str]| {
            let word = bytes.slice(word.clone());
            list.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        match (word.len(), bytes.at(word.start) | 0x20) {
            (3, b's') if announces(&["ssn"]) => self.ssn = Some(word.end),
            (8, b's') if announces(&["security"]) => self.ssn = Some(word.end),
            (7, b'v') if announces(&["version"]) => self.version = Some(word.end),
            (3 | 4, b't' | b'f' | b'c' | b'd' | b'm')
                if announces(&["tel", "fax", "call", "cell", "dial", "desk", "mob"]) =>
            {
                self.phone = Some(word.end);
            }
            (5..=9, b'p' | b'm' | b't' | b'c' | b'w')
                if announces(&["phone", "phones", "mobile", "telephone", "cellphone", "whatsapp"]) =>
            {
                self.phone = Some(word.end);
            }
            _ => {}
        }
    }

    pub fn phone(&self, at: usize) -> bool {
        self.phone.is_some_and(|end| at - end <= REACH)
    }

    pub(crate) fn ssn(&self, at: usize) -> bool {
        self.ssn.is_some_and(|end| at - end <= REACH)
    }

    pub fn version(&self, at: usize) -> bool {
        self.version.is_some_and(|end| at - end <= VERSION_REACH)
    }
}
