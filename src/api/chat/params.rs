//! Request members that nothing has interpreted yet, by name, in their original order.
//!
//! A provider takes out those it supports; [`crate::provider::outgoing`] handles the rest.

use crate::json::Json;
use std::borrow::Cow;

/// An ordered list of named JSON values.
#[derive(Debug, Clone, Default)]
pub struct Params<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Params<'a> {
    /// Adds a member, or replaces the one of the same name.
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

    /// Removes a member. `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Json<'a>> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        let (_, value) = self.0.remove(at);
        (!value.is_null()).then_some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Consumes the list, in order.
    #[expect(clippy::should_implement_trait, reason = "an IntoIterator impl would add nothing")]
    pub fn into_iter(self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> {
        self.0.into_iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
