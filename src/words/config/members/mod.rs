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

pub(crate) use types::{
    Choice, FILE, FLAG, Form, MILLIS, MemberType, NON_EMPTY, OneOf, SHARE, Time, form, list, non_empty,
    object, seconds, see, whole,
};

use super::read::{Cursor, ObjectReader};
use crate::json::schema;
use serde_json::{Map, Value};

/// The members of one object, while they are read or described.
#[derive(Default)]
pub(crate) struct MemberTable<'a> {
    /// `None`: they are described.
    reader: Option<ObjectReader<'a>>,
    names: Vec<&'static str>,
    needed: Vec<&'static str>,
    schemas: Vec<(&'static str, Value)>,
    keywords: Map<String, Value>,
}

/// Reads an object. Unknown members are reported.
pub(crate) fn read<T>(at: &Cursor<'_>, members: impl FnOnce(&mut MemberTable<'_>) -> Option<T>) -> Option<T> {
    let mut table = MemberTable { reader: Some(at.fields()?), ..MemberTable::default() };
    let value = members(&mut table);
    if let Some(reader) = table.reader {
        reader.reject_unknown(&table.names);
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

impl<'a> MemberTable<'a> {
    /// A member that may be absent.
    pub(crate) fn get<T: MemberType>(&mut self, name: &'static str, of: T, doc: &str) -> Option<T::Value> {
        self.names.push(name);
        match &mut self.reader {
            Some(reader) => of.read(&reader.get(&[name])?),
            None => {
                self.schemas.push((name, of.schema(doc)));
                None
            }
        }
    }

    /// A member with a default.
    pub(crate) fn or<T: MemberType>(
        &mut self,
        name: &'static str,
        of: T,
        default: T::Value,
        doc: &str,
    ) -> T::Value {
        self.names.push(name);
        match &mut self.reader {
            Some(reader) => reader.get(&[name]).and_then(|at| of.read(&at)).unwrap_or(default),
            None => {
                let written = of.written(&default);
                let schema = of.schema(doc);
                self.schemas.push((name, written.map_or(schema.clone(), |value| schema::or(schema, value))));
                default
            }
        }
    }

    /// A member that must be there.
    pub(crate) fn needed<T: MemberType>(&mut self, name: &'static str, of: T, doc: &str) -> Option<T::Value> {
        self.names.push(name);
        match &mut self.reader {
            Some(reader) => of.read(&reader.required(&[name])?),
            None => {
                self.needed.push(name);
                self.schemas.push((name, of.schema(doc)));
                None
            }
        }
    }

    /// The member as it was written; `None` where it is absent, and while members are described.
    pub(crate) fn at(&self, name: &str) -> Option<Cursor<'a>> {
        self.reader.as_ref()?.peek(&[name])
    }

    /// Reports a problem with a member, if it is there.
    pub(crate) fn problem(&self, name: &str, message: &str) {
        if let Some(at) = self.at(name) {
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
