//! A part of a value that is rarely there: an empty one takes the room of a pointer.
//!
//! Saved configs are kept compiled by the thousand, and most name no cloud account. Not for values that are usually there.

use std::ops::Deref;

/// A `T`, kept apart unless it is empty. Reads as a `T`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sparse<T>(Option<Box<T>>);

/// A type with an empty value that lives as long as the process.
pub trait Empty: Default + PartialEq + 'static {
    fn empty() -> &'static Self;
}

impl<T: Empty> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        Self((value != *T::empty()).then(|| Box::new(value)))
    }
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Empty> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::empty(),
        }
    }
}

/// An empty value gets its room when it is first changed.
impl<T: Empty> std::ops::DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::account::CloudB;

    #[test]
    fn an_empty_value_takes_no_room() {
        let empty = Sparse::from(CloudB::default());
        assert_eq!((&empty.0, &empty), (&None, &Sparse::default()));
        assert_eq!(empty.region, None);
        let full = Sparse::from(CloudB { region: Some("r".to_owned()), ..CloudB::default() });
        assert_eq!(full.region.as_deref(), Some("r"));
    }
}
