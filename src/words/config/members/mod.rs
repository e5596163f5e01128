//! The members of an object, stated once: the function that reads them also describes them in JSON Schema.
//!
//! Such a function takes a [`MemberTable`] and has one line for each member: name, type, default, description. It runs on an object
//! of a text, which it reads, and on none, which makes every line leave its schema behind; so neither can have a member, a bound or
//! a default that the other has not. Every line must run each time: a missing member may end the function only below the last one.
//! Checks of several members stand below the lines and use [`MemberTable::at`]. Not here: the types of values (`types`).
//!
//! Example: `table.or("h2", FLAG, true, "HTTP/2.")` reads a boolean, which is `true` where it is absent, and is described as
//! `"h2": {"type": ["boolean", "null"], "default": true, "description": "HTTP/2."}`.

mod types;

use types::Defaulted;
pub(crate) use types::{
    AtLeast, Choice, FILE, FLAG, Form, List, MILLIS, MemberType, NON_EMPTY, NUMBER, OBJECT_TEXT, OneOf,
    SECRET, SHARE, STATUSES, TEXT, Time, default_shown, form, list, non_empty, object, only_if, seconds, see,
    whole,
};

use super::node::Entry;
use super::read::{Cursor, ObjectReader};
use super::secret::Secret;
use crate::json::schema;
use serde_json::{Map, Value};
use std::any::TypeId;

/// The members of one object, while they are read or described.
#[derive(Default)]
pub(crate) struct MemberTable<'a> {
    /// `None`: they are described.
    reader: Option<ObjectReader<'a>>,
    names: Vec<&'static str>,
    needed: Vec<&'static str>,
    schemas: Vec<(&'static str, Value)>,
    keywords: Map<String, Value>,
    /// Keys that it does not have, and what to write in their place.
    hints: &'static [(&'static str, &'static str)],
}

/// Reads an object. Unknown members are reported.
pub(crate) fn read<T>(at: &Cursor<'_>, members: impl FnOnce(&mut MemberTable<'_>) -> Option<T>) -> Option<T> {
    let mut table = MemberTable { reader: Some(at.fields()?), ..MemberTable::default() };
    let value = members(&mut table);
    if let Some(reader) = table.reader {
        reader.reject_unknown_with(&table.names, table.hints);
    }
    value
}

/// The schema of such an object.
pub(crate) fn schema<T>(doc: &str, members: impl FnOnce(&mut MemberTable<'_>) -> Option<T>) -> Value {
    let mut table = MemberTable::default();
    members(&mut table);
    let mut schema = schema::object(doc, &table.needed, table.schemas);
    if let Value::Object(keywords) = &mut schema {
        keywords.extend(table.keywords);
    }
    schema
}

/// The name of a member, or its names: the first is the usual one, the others mean the same.
pub(crate) trait Names: Copy {
    fn all(&self) -> &[&'static str];
}

impl Names for &'static str {
    fn all(&self) -> &[&'static str] {
        std::slice::from_ref(self)
    }
}

impl Names for &'static [&'static str] {
    fn all(&self) -> &[&'static str] {
        self
    }
}

/// Whether values of this type are secrets, alone or in a list. A type of its own that holds one is not known here.
fn is_secret<T: 'static>() -> bool {
    let secret = [TypeId::of::<Secret>(), TypeId::of::<Vec<Secret>>(), TypeId::of::<Vec<(String, Secret)>>()];
    secret.contains(&TypeId::of::<T>())
}

impl<'a> MemberTable<'a> {
    /// A member that may be absent.
    pub(crate) fn get<T: MemberType>(&mut self, names: impl Names, of: T, doc: &str) -> Option<T::Value> {
        self.names.extend(names.all());
        if let Some(reader) = &mut self.reader {
            let at = reader.get(names.all())?;
            if is_secret::<T::Value>() {
                at.note_secret();
            }
            return of.read(&at);
        }
        let first = names.all().first().copied().unwrap_or_default();
        for name in names.all() {
            let schema = match *name == first {
                true => of.schema(doc),
                false => of.schema(&format!("The same as {first}. {doc}")),
            };
            self.schemas.push((*name, schema));
        }
        None
    }

    /// A member with a default.
    pub(crate) fn or<T: MemberType>(
        &mut self,
        names: impl Names,
        of: T,
        default: T::Value,
        doc: &str,
    ) -> T::Value {
        let of = Defaulted { of, default };
        let value = self.get(names, &of, doc);
        value.unwrap_or(of.default)
    }

    /// A member that must be there.
    pub(crate) fn needed<T: MemberType>(&mut self, name: &'static str, of: T, doc: &str) -> Option<T::Value> {
        if self.at(name).is_none() {
            self.missing(name, "is required");
        }
        self.needed_here(name, of, doc)
    }

    /// A member that must be there, and whose absence the object reports itself.
    pub(crate) fn needed_here<T: MemberType>(
        &mut self,
        name: &'static str,
        of: T,
        doc: &str,
    ) -> Option<T::Value> {
        if self.reader.is_none() {
            self.needed.push(name);
        }
        self.get(name, of, doc)
    }

    /// What to write in place of these keys, which the object does not have.
    pub(crate) fn hints(&mut self, hints: &'static [(&'static str, &'static str)]) {
        self.hints = hints;
    }

    /// A member that the schema does not have.
    pub(crate) fn undescribed(&mut self, name: &'static str) -> Option<Cursor<'a>> {
        self.reader.as_mut()?.get(&[name])
    }

    /// The entries that no line has read, of an object that has free names besides.
    pub(crate) fn rest(&mut self) -> Vec<(&'a Entry, Cursor<'a>)> {
        self.reader.as_mut().map(ObjectReader::rest).unwrap_or_default()
    }

    /// The number of problems found so far, anywhere in the text.
    pub(crate) fn problem_count(&self) -> usize {
        self.reader.as_ref().map_or(0, |reader| reader.at.problem_count())
    }

    /// The object that is read; `None` while members are described.
    pub(crate) fn reader(&self) -> Option<&ObjectReader<'a>> {
        self.reader.as_ref()
    }

    /// The member as it was written; `None` where it is absent, and while members are described.
    pub(crate) fn at(&self, names: impl Names) -> Option<Cursor<'a>> {
        self.reader.as_ref()?.peek(names.all())
    }

    /// Reports a problem with a member, if it is there.
    pub(crate) fn problem(&self, names: impl Names, message: &str) {
        if let Some(at) = self.at(names) {
            at.problem(message);
        }
    }

    /// Reports that a member is absent, which this object must have.
    pub(crate) fn missing(&self, name: &str, message: impl Into<String>) {
        if let Some(reader) = &self.reader {
            reader.missing(name, message);
        }
    }

    /// Adds a keyword to the schema of the object: what it says of several members.
    pub(crate) fn keyword(&mut self, name: &str, value: impl FnOnce() -> Value) {
        if self.reader.is_none() {
            self.keywords.insert(name.to_owned(), value());
        }
    }
}

#[cfg(test)]
mod tests;
