//! Ids of tool calls as Mistral requires them: nine letters and digits.
//!
//! Other providers' ids arrive when a conversation changes providers. The result depends only on the id, so
//! that a call and its result still match.

use std::borrow::Cow;

const LENGTH: usize = 9;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the id itself if it is valid, otherwise a hash of it.
pub(super) fn short_id(id: &str) -> Cow<'_, str> {
    if id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    // FNV-1a: good enough to keep the calls of one conversation apart.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut short = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        let digit = DIGITS.get((hash % 62) as usize).copied().unwrap_or(b'0');
        short.push(char::from(digit));
        hash /= 62;
    }
    Cow::Owned(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_id_stays_and_others_become_one() {
        assert_eq!(short_id("6IgxW8LfZ"), "6IgxW8LfZ");
        let made = short_id("toolu_01A09q90qw90lq917835lq9");
        assert!(made.len() == 9 && made.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{made}");
        assert_eq!(made, short_id("toolu_01A09q90qw90lq917835lq9"));
        assert_ne!(made, short_id("toolu_01A09q90qw90lq917835lq8"));
    }
}
