//! Request members that nothing has interpreted yet, by name, in their original order.
//!
//! A provider takes out those it supports; `provider::translation_notes` handles the rest.

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
    /// Where each member is, by a hash of its name: all of them, or none where it was not needed since one was removed.
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

    /// Where a member is. With many members the index is made first.
    fn place(&mut self, name: &str) -> Option<usize> {
        if self.members.len() >= MIN_INDEXED && self.places.is_empty() {
            let members = std::mem::take(&mut self.members);
            members.iter().enumerate().for_each(|(place, (name, _))| self.note(name, place));
            self.members = members;
        }
        self.find(name)
    }

    fn find(&self, name: &str) -> Option<usize> {
        if !self.places.is_empty() {
            let place = *self.places.get(&self.places.hasher().hash_one(name))? as usize;
            if self.members.get(place).is_some_and(|(key, _)| key == name) {
                return Some(place);
            }
            // Two names of one hash: all but impossible.
        }
        self.members.iter().position(|(key, _)| key == name)
    }

    fn note(&mut self, name: &str, place: usize) {
        let hash = self.places.hasher().hash_one(name);
        if let Ok(place) = u32::try_from(place) {
            self.places.entry(hash).or_insert(place);
        }
    }

    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.find(name).and_then(|place| self.members.get(place)).map(|(_, value)| value)
    }

    /// Removes a member. `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<Json<'a>> {
        let at = self.find(name)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_members_are_found_replaced_and_removed() {
        let mut params = Params::default();
        let number = |value: usize| Json::from_value(&value);
        for round in [0, 1000] {
            for n in 0..100 {
                params.set(format!("m{n}"), number(n + round));
            }
        }
        assert_eq!(params.iter().count(), 100);
        assert_eq!(params.take("m50").unwrap().get(), "1050");
        assert!(params.get("m50").is_none() && params.take("m50").is_none());
        assert_eq!(params.get("m99").unwrap().get(), "1099");
        params.set("m51", number(7));
        params.set("m50", number(8));
        assert!(params.get("m100").is_none());
        let all: Vec<_> = params.iter().map(|(name, value)| format!("{name}={}", value.get())).collect();
        assert_eq!((all.len(), all[50].as_str(), all[99].as_str()), (100, "m51=7", "m50=8"));
    }
}
