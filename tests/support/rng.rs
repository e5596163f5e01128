//! Seeded random input: a test draws the same bytes on every run and machine.
//!
//! Not for cryptography, and not proptest: the draws are bytes for a socket, which need no shrinking.

/// splitmix64: the same numbers on every platform.
pub(crate) struct Rng(u64);

impl Rng {
    /// The generator for one case of a kind of input.
    pub(crate) fn new(sort: &str, case: u64) -> Self {
        let seed = sort.bytes().fold(case, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut drawn = self.0;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        drawn ^ (drawn >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// One of these, at random.
    pub(crate) fn one<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Up to `limit` bytes, mostly printable.
    pub(crate) fn bytes(&mut self, limit: usize) -> Vec<u8> {
        let length = self.below(limit);
        let byte = |rng: &mut Self| match rng.below(8) {
            0 => rng.next() as u8,
            1 => *rng.one(&[&b'"', &b'{', &b'}', &b'[', &b'\\', &b',', &b':', &b'@', &b'/', &b'%', &b'\t']),
            _ => 0x20 + rng.below(0x5f) as u8,
        };
        (0..length).map(|_| byte(self)).collect()
    }

    /// `good` with a few bytes changed, removed, doubled or inserted.
    pub(crate) fn mutated(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..self.below(6) {
            let at = self.below(bytes.len());
            let upto = (at + self.below(12)).min(bytes.len());
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                1 => drop(bytes.drain(at..upto)),
                2 => {
                    let copy = bytes[at..upto].to_vec();
                    bytes.splice(at..at, copy);
                }
                3 => {
                    let odd = self.one(&[
                        "null",
                        "-1",
                        "1e999",
                        "[]",
                        "{}",
                        "\"\"",
                        "\\u0000",
                        "\\ud800",
                        "99999999999999999999",
                    ]);
                    bytes.splice(at..upto, odd.bytes());
                }
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}
