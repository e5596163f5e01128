//! A bound on label values that callers choose: the first so many get a name, the rest are `other`.
//!
//! A metric whose labels a caller can invent is a memory leak with a dashboard.

use parking_lot::RwLock;
use std::collections::HashSet;

/// Values seen, up to a bound.
#[derive(Debug)]
pub struct Labels {
    most: usize,
    seen: RwLock<HashSet<Box<str>>>,
}

/// What values past the bound are called.
pub const OTHER: &str = "other";
const LONGEST: usize = 128;

impl Labels {
    pub fn new(most: usize) -> Self {
        Self { most, seen: RwLock::default() }
    }

    /// The value itself while there is room, then [`OTHER`].
    pub fn fold<'a>(&self, value: &'a str) -> &'a str {
        if self.seen.read().contains(value) {
            return value;
        }
        let mut seen = self.seen.write();
        if value.len() > LONGEST || seen.len() >= self.most {
            return OTHER;
        }
        seen.insert(value.into());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_bound_everything_new_is_other() {
        let labels = Labels::new(2);
        assert_eq!(
            [labels.fold("a"), labels.fold("b"), labels.fold("c"), labels.fold("a")],
            ["a", "b", OTHER, "a"]
        );
    }
}
