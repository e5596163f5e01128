//! The types of members' values: how each is read, how JSON Schema describes it, and how a default is written.
//!
//! Not here: types that only one object has; they are made with [`form`] beside it.

use super::MemberTable;
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::config::values::{MAX_MS, at_least, status_codes};
use crate::json::schema;
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

/// The type of a value.
pub(crate) trait MemberType {
    type Value: 'static;
    /// Reads a value, or reports what is wrong with it.
    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value>;
    fn schema(&self, doc: &str) -> Value;
    /// A default as it would be written. `None`: the schema does not have it.
    fn written(&self, _value: &Self::Value) -> Option<Value> {
        None
    }
}

impl<T: MemberType> MemberType for &T {
    type Value = T::Value;

    fn read(&self, at: &Cursor<'_>) -> Option<T::Value> {
        (**self).read(at)
    }

    fn schema(&self, doc: &str) -> Value {
        (**self).schema(doc)
    }

    fn written(&self, value: &T::Value) -> Option<Value> {
        (**self).written(value)
    }
}

/// A type made of functions.
pub(crate) struct Form<V> {
    read: fn(&Cursor<'_>) -> Option<V>,
    schema: fn(&str) -> Value,
    written: fn(&V) -> Option<Value>,
}

/// A type that is read and described by these functions.
pub(crate) const fn form<V>(read: fn(&Cursor<'_>) -> Option<V>, schema: fn(&str) -> Value) -> Form<V> {
    Form { read, schema, written: |_| None }
}

impl<V> Form<V> {
    /// The type with a function that writes its values.
    pub(crate) const fn written(self, written: fn(&V) -> Option<Value>) -> Self {
        Self { written, ..self }
    }
}

impl<V: 'static> MemberType for Form<V> {
    type Value = V;

    fn read(&self, at: &Cursor<'_>) -> Option<V> {
        (self.read)(at)
    }

    fn schema(&self, doc: &str) -> Value {
        (self.schema)(doc)
    }

    fn written(&self, value: &V) -> Option<Value> {
        (self.written)(value)
    }
}

pub(crate) const FLAG: Form<bool> = form(|at| at.flag(), schema::flag).written(|flag| Some((*flag).into()));

pub(crate) const NUMBER: Form<f64> =
    form(|at| at.number(), |doc| json!({"type": "number", "description": doc}));

pub(crate) const TEXT: Form<String> = form(|at| at.text().map(str::to_owned), schema::text);

/// A text that is not blank.
pub(crate) const NON_EMPTY: Form<String> =
    form(|at| non_empty(at).map(str::to_owned), schema::non_empty).written(|text| Some(text.as_str().into()));

/// The path of a file or directory. Whether it exists is checked when it is opened.
pub(crate) const FILE: Form<PathBuf> = form(|at| non_empty(at).map(PathBuf::from), schema::non_empty);

/// A text that is never shown.
pub(crate) const SECRET: Form<Secret> = form(|at| at.text().map(Secret::new), schema::text);

/// A number from 0 to 1.
pub(crate) const SHARE: Form<f64> = form(
    |at| {
        let number = at.number()?;
        let is_share = (0.0..=1.0).contains(&number);
        if !is_share {
            at.problem("must be a number from 0 to 1");
        }
        is_share.then_some(number)
    },
    |doc| json!({"type": "number", "minimum": 0, "maximum": 1, "description": doc}),
)
.written(|share| Some((*share).into()));

/// A list of HTTP statuses; it may be empty.
pub(crate) const STATUSES: Form<Vec<u16>> =
    form(status_codes, schema::statuses).written(|codes| Some(codes.as_slice().into()));

/// An object that is kept as its JSON text.
pub(crate) const OBJECT_TEXT: Form<Box<str>> = form(
    |at| {
        at.fields()?;
        Some(at.node.to_json().into_boxed_str())
    },
    schema::free,
);

/// A text that is not blank.
pub(crate) fn non_empty<'a>(at: &Cursor<'a>) -> Option<&'a str> {
    let text = at.text()?;
    if text.trim().is_empty() {
        at.problem("must not be empty");
        return None;
    }
    Some(text)
}

/// A whole number, of any type of integers that has room for its bounds.
pub(crate) struct Whole<N> {
    min: i64,
    max: i64,
    of: PhantomData<N>,
}

/// A whole number from `min` to `max`, both included.
pub(crate) const fn whole<N>(min: i64, max: i64) -> Whole<N> {
    Whole { min, max, of: PhantomData }
}

impl<N: TryFrom<i64> + Into<Value> + Copy + 'static> MemberType for Whole<N> {
    type Value = N;

    fn read(&self, at: &Cursor<'_>) -> Option<N> {
        N::try_from(at.integer_within(self.min, self.max)?).ok()
    }

    fn schema(&self, doc: &str) -> Value {
        schema::integer(doc, self.min, Some(self.max))
    }

    fn written(&self, value: &N) -> Option<Value> {
        Some((*value).into())
    }
}

/// A number not less than this.
pub(crate) struct AtLeast(pub(crate) f64);

impl MemberType for AtLeast {
    type Value = f64;

    fn read(&self, at: &Cursor<'_>) -> Option<f64> {
        at_least(at, self.0)
    }

    fn schema(&self, doc: &str) -> Value {
        schema::number(doc, self.0)
    }

    fn written(&self, number: &f64) -> Option<Value> {
        Some(if number.fract() == 0.0 { (*number as i64).into() } else { (*number).into() })
    }
}

/// A time as a whole number of units.
pub(crate) struct Time {
    unit_ms: u64,
    count: Whole<u64>,
}

/// A number of milliseconds from 1 to a day.
pub(crate) const MILLIS: Time = Time { unit_ms: 1, count: whole(1, 86_400_000) };

impl Time {
    /// From `min` to `max` units of so many milliseconds.
    pub(crate) const fn new(unit_ms: u64, min: i64, max: i64) -> Self {
        Self { unit_ms, count: whole(min, max) }
    }
}

/// A number of seconds from `min` to `max`.
pub(crate) const fn seconds(min: i64, max: i64) -> Time {
    Time::new(1_000, min, max)
}

impl MemberType for Time {
    type Value = Duration;

    fn read(&self, at: &Cursor<'_>) -> Option<Duration> {
        let ms = self.count.read(at)?.saturating_mul(self.unit_ms);
        Some(Duration::from_millis(ms.min(MAX_MS)))
    }

    fn schema(&self, doc: &str) -> Value {
        self.count.schema(doc)
    }

    fn written(&self, value: &Duration) -> Option<Value> {
        let units = value.as_millis().checked_div(self.unit_ms.into())?;
        Some(u64::try_from(units).ok()?.into())
    }
}

/// One of these names, each with its value.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> MemberType for Choice<T> {
    type Value = T;

    fn read(&self, at: &Cursor<'_>) -> Option<T> {
        at.one_of(self.0)
    }

    fn schema(&self, doc: &str) -> Value {
        schema::one_of(doc, self.0.iter().map(|(name, _)| *name))
    }

    fn written(&self, value: &T) -> Option<Value> {
        self.0.iter().find(|(_, of)| of == value).map(|(name, _)| (*name).into())
    }
}

/// One of these names, which is the value itself.
pub(crate) struct OneOf(pub(crate) &'static [&'static str]);

impl MemberType for OneOf {
    type Value = &'static str;

    fn read(&self, at: &Cursor<'_>) -> Option<&'static str> {
        at.one_of(&self.0.iter().map(|name| (*name, *name)).collect::<Vec<_>>())
    }

    fn schema(&self, doc: &str) -> Value {
        schema::one_of(doc, self.0.iter().copied())
    }

    fn written(&self, name: &&'static str) -> Option<Value> {
        Some((*name).into())
    }
}

/// A list of values of one type.
pub(crate) struct List<'d, T> {
    item: T,
    item_doc: &'d str,
}

/// A list of such values, each described so; a definition of its own ([`see`]) needs no description.
pub(crate) const fn list<T>(item: T, item_doc: &str) -> List<'_, T> {
    List { item, item_doc }
}

impl<T: MemberType> MemberType for List<'_, T> {
    type Value = Vec<T::Value>;

    fn read(&self, at: &Cursor<'_>) -> Option<Self::Value> {
        Some(at.list()?.iter().filter_map(|item| self.item.read(item)).collect())
    }

    fn schema(&self, doc: &str) -> Value {
        schema::list(doc, self.item.schema(self.item_doc))
    }
}

/// An object with these members.
pub(crate) struct Object<F>(F);

/// An object whose members this function reads and describes.
pub(crate) const fn object<T, F: Fn(&mut MemberTable<'_>) -> Option<T>>(members: F) -> Object<F> {
    Object(members)
}

impl<T: 'static, F: Fn(&mut MemberTable<'_>) -> Option<T>> MemberType for Object<F> {
    type Value = T;

    fn read(&self, at: &Cursor<'_>) -> Option<T> {
        super::read(at, &self.0)
    }

    fn schema(&self, doc: &str) -> Value {
        super::schema(doc, &self.0)
    }
}

/// A type that has a definition of its own in the schema.
pub(crate) struct See<T> {
    name: &'static str,
    of: T,
}

/// The type whose definition in the schema has this name.
pub(crate) const fn see<T>(name: &'static str, of: T) -> See<T> {
    See { name, of }
}

impl<T: MemberType> MemberType for See<T> {
    type Value = T::Value;

    fn read(&self, at: &Cursor<'_>) -> Option<T::Value> {
        self.of.read(at)
    }

    fn schema(&self, doc: &str) -> Value {
        schema::see(self.name, doc)
    }

    fn written(&self, value: &T::Value) -> Option<Value> {
        self.of.written(value)
    }
}

/// A type whose schema has a default.
pub(crate) struct Defaulted<T: MemberType> {
    pub(super) of: T,
    pub(super) default: T::Value,
}

/// A type whose schema shows this default. The reader leaves an absent member open, since the level above may have it.
pub(crate) const fn default_shown<T: MemberType>(of: T, default: T::Value) -> Defaulted<T> {
    Defaulted { of, default }
}

impl<T: MemberType> MemberType for Defaulted<T> {
    type Value = T::Value;

    fn read(&self, at: &Cursor<'_>) -> Option<T::Value> {
        self.of.read(at)
    }

    fn schema(&self, doc: &str) -> Value {
        let schema = self.of.schema(doc);
        match self.of.written(&self.default) {
            Some(default) => schema::or(schema, default),
            None => schema,
        }
    }
}

/// A type for some objects of a kind only.
pub(crate) struct OnlyIf<'m, T> {
    is_here: bool,
    of: T,
    problem: &'m str,
    doc: &'m str,
}

/// The type where the object may have the member. `problem`: what is wrong with one elsewhere; `doc`: what its schema says there.
pub(crate) const fn only_if<'m, T>(is_here: bool, of: T, problem: &'m str, doc: &'m str) -> OnlyIf<'m, T> {
    OnlyIf { is_here, of, problem, doc }
}

impl<T: MemberType> MemberType for OnlyIf<'_, T> {
    type Value = T::Value;

    fn read(&self, at: &Cursor<'_>) -> Option<T::Value> {
        if !self.is_here {
            at.problem(self.problem);
        }
        self.of.read(at)
    }

    fn schema(&self, doc: &str) -> Value {
        match self.is_here {
            true => self.of.schema(doc),
            false => json!({"type": "null", "description": self.doc}),
        }
    }

    fn written(&self, value: &T::Value) -> Option<Value> {
        self.of.written(value).filter(|_| self.is_here)
    }
}
