//! A bound on label values that callers choose: the first so many get a name, the rest are `other`.
//!
//! A metric whose labels a caller can invent is a memory leak with a dashboard.

use parking_lot::RwLock;
use std::collections::HashSet;

/// Values seen, up to a bound.
#[derive(Debug)]
pub struct LabelLimit {
    max_values: usize,
    values: RwLock<HashSet<Box<str>>>,
}

/// What values past the bound are called.
pub const OTHER: &str = "other";
const MAX_LENGTH: usize = 128;

impl LabelLimit {
    pub fn new(max_values: usize) -> Self {
        Self { max_values, values: RwLock::default() }
    }

    /// The value itself while there is room, then [`OTHER`].
    pub fn bounded<'a>(&self, value: &'a str) -> &'a str {
        if self.values.read().contains(value) {
            return value;
        }
        let mut values = self.values.write();
        if value.len() > MAX_LENGTH || values.len() >= self.max_values {
            return OTHER;
        }
        values.insert(value.into());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_values_past_the_bound_become_other() {
        let limit = LabelLimit::new(2);
        assert_eq!(
            [limit.bounded("a"), limit.bounded("b"), limit.bounded("c"), limit.bounded("a")],
            ["a", "b", OTHER, "a"]
        );
    }
}
