//! Request members that nothing has interpreted yet, by name, in their original order.
//!
//! A provider takes out those it supports; [`crate::provider::outgoing`] handles the rest.

use crate::json::Json;
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// From this number of members on, names are found in an index: a hostile request may have very many.
const MIN_INDEXED: usize = 32;

/// An ordered list of named JSON values.
#[derive(Debug, Clone, Default)]
pub struct Params<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
    /// Where each member is, by a hash of its name. Empty where it was not needed since the last one was removed.
    places: HashMap<u64, u32>,
}

impl<'a> Params<'a> {
    /// Adds a member, or replaces the one of the same name.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: Json<'a>) {
        let name = name.into();
        match self.place(&name).and_then(|place| self.members.get_mut(place)) {
            Some((_, old)) => *old = value,
            None => {
                if self.members.len() >= MIN_INDEXED {
                    self.note(&name, self.members.len());
                }
                self.members.push((name, value));
            }
        }
    }

    /// Where a member is, found by the index if there are many.
    fn place(&mut self, name: &str) -> Option<usize> {
        if self.members.len() < MIN_INDEXED {
            return self.members.iter().position(|(key, _)| key == name);
        }
        if self.places.is_empty() {
            let members = std::mem::take(&mut self.members);
            members.iter().enumerate().for_each(|(place, (name, _))| self.note(name, place));
            self.members = members;
        }
        let place = *self.places.get(&self.places.hasher().hash_one(name))? as usize;
        // Two names of one hash are all but impossible; the member is found in any case.
        match self.members.get(place).is_some_and(|(key, _)| key == name) {
            true => Some(place),
            false => self.members.iter().position(|(key, _)| key == name),
        }
    }

    fn note(&mut self, name: &str, place: usize) {
        let hash = self.places.hasher().hash_one(name);
        if let Ok(place) = u32::try_from(place) {
            self.places.entry(hash).or_insert(place);
        }
    }

    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Removes a member. `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Json<'a>> {
        let at = self.members.iter().position(|(key, _)| key == name)?;
        let (_, value) = self.members.remove(at);
        self.places.clear();
        (!value.is_null()).then_some(value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.members.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Consumes the list, in order.
    #[expect(clippy::should_implement_trait, reason = "an IntoIterator impl would add nothing")]
    pub fn into_iter(self) -> impl Iterator<Item = (Cow<'a, str>, Json<'a>)> {
        self.members.into_iter()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
