//! The members of a request nobody has judged yet, by name, in the order they were written.
//!
//! A provider takes out what it has a word for; [`crate::provider::outgoing`] settles what is left.

use super::json::Json;
use std::borrow::Cow;

/// An ordered list of named JSON values.
#[derive(Debug, Clone, Default)]
pub struct Params<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Params<'a> {
    /// Adds a member, or replaces the one of that name.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: Json<'a>) {
        let name = name.into();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Takes a member out. A `null` is as good as absent.
    pub fn take(&mut self, name: &str) -> Option<Json<'a>> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        let (_, value) = self.0.remove(at);
        (!value.is_null()).then_some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Gives the members away, in order.
    #[expect(clippy::should_implement_trait, reason = "an IntoIterator impl says no more")]
    pub fn into_iter(self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> {
        self.0.into_iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
