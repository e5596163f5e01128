//! Limits the label values that clients choose: the first ones are kept, the rest become `other`.
//!
//! Without it, a client could create any number of time series and exhaust the memory.

use parking_lot::RwLock;

/// The label values in use, up to a maximum number.
#[derive(Debug)]
pub(crate) struct LabelLimit {
    max_values: usize,
    /// Bytes; longer values become [`OTHER`].
    max_length: usize,
    /// Sorted: for the few values there are, a search costs less than a hash.
    values: RwLock<Vec<Box<str>>>,
}

/// The label of all values beyond the limit.
pub const OTHER: &str = "other";
/// Bytes of a value, where nothing else is said.
const MAX_LENGTH: usize = 192;

impl LabelLimit {
    pub fn new(max_values: usize) -> Self {
        Self::with_length(max_values, MAX_LENGTH)
    }

    /// `max_length`: bytes of the longest value.
    pub fn with_length(max_values: usize, max_length: usize) -> Self {
        Self { max_values, max_length, values: RwLock::default() }
    }

    /// `value` itself while there is room, [`OTHER`] after that.
    pub fn bounded<'a>(&self, value: &'a str) -> &'a str {
        if self.admit(value) { value } else { OTHER }
    }

    /// Whether `value` is in use.
    pub fn contains(&self, value: &str) -> bool {
        find(&self.values.read(), value).is_ok()
    }

    /// Takes `value` into use while there is room. Returns whether it is in use.
    pub fn admit(&self, value: &str) -> bool {
        if self.contains(value) {
            return true;
        }
        let mut values = self.values.write();
        // Another thread may have added it.
        let Err(place) = find(&values, value) else { return true };
        if value.len() > self.max_length || values.len() >= self.max_values {
            return false;
        }
        values.insert(place, value.into());
        true
    }
}

fn find(values: &[Box<str>], value: &str) -> Result<usize, usize> {
    values.binary_search_by(|kept| (**kept).cmp(value))
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
        assert!(limit.contains("b") && !limit.contains("c") && !limit.admit("c"));
        assert!(!LabelLimit::new(2).admit(&"a".repeat(MAX_LENGTH + 1)));
    }
}
