//! A value that must never be shown, such as a key or a token.
//!
//! Not encryption: it only keeps a secret out of logs, errors and `Debug` output.

use std::fmt;
use std::hash::{Hash, Hasher};
use subtle::ConstantTimeEq;

/// A credential. Prints as `***`; compares in constant time.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself. Write it into a header and nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

/// For digests only: equal secrets have equal ones.
impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("sk-1")), "***");
    }
}
