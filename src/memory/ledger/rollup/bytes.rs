//! Numbers and texts as bytes: unsigned integers of variable length, seven bits a byte. The form that rollups and attempts have in the
//! database.

/// Something in the database that cannot be read: damaged, or of a newer version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// Appends a number: one byte below 128.
pub(in crate::ledger) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(in crate::ledger) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(in crate::ledger) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn number(&mut self) -> Result<u64, Damaged> {
        let (first, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        // Most numbers of a cell are small.
        if *first < 0x80 {
            return Ok(u64::from(*first));
        }
        let mut number = u64::from(*first & 0x7f);
        for shift in (7..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(Damaged)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    pub fn small(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.number()?).map_err(|_| Damaged)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = usize::try_from(self.number()?).map_err(|_| Damaged)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Damaged)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_cut_ones_do_not() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            assert_eq!(Reader::new(&bytes).number(), Ok(number));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).number(), Err(Damaged));
        }
        assert_eq!(Reader::new(&[0xff; 12]).number(), Err(Damaged));
        assert_eq!(Reader::new(&[5, b'a']).text().err(), Some(Damaged));
    }
}
