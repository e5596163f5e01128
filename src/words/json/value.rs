//! A JSON value that keeps its original text: `1.0` stays `1.0`, a 64-bit seed keeps its digits.
//!
//! Cannot be used in serde's `untagged`, `flatten` or internally tagged types: these buffer the value and
//! lose its text. Deserialize the members into a plain struct instead.

use super::JsonStr;
use super::outline::{FirstMembers, Outline};
use super::write::ObjectWriter;
use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Valid JSON text, borrowed where possible.
#[derive(Debug, Clone)]
pub struct Json<'a>(Cow<'a, RawValue>);

impl<'a> Json<'a> {
    pub fn borrowed(raw: &'a RawValue) -> Self {
        Self(Cow::Borrowed(raw))
    }

    /// Borrows JSON text; `None` if it is not valid JSON.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(text).ok().map(Self::borrowed)
    }

    /// Takes ownership of JSON text; `None` if it is not valid JSON.
    pub fn owned(text: String) -> Option<Json<'static>> {
        RawValue::from_string(text).ok().map(|raw| Json(Cow::Owned(raw)))
    }

    /// Serializes any value. A value that cannot be serialized (a map with keys that are not strings)
    /// becomes `null`.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Json<'static> {
        let raw = serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Json(Cow::Owned(raw))
    }

    pub fn null() -> Self {
        Self::borrowed(RawValue::NULL)
    }

    /// The schema of an object that may be empty: of a tool without arguments, where a provider demands one.
    pub fn empty_schema() -> Self {
        Json::parse(r#"{"type":"object","properties":{}}"#).unwrap_or_else(Json::null)
    }

    pub fn empty_object() -> Self {
        Json::object::<&str>(&[])
    }

    /// The JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The text with the lifetime of its source, so that values read from it can borrow as well; `None` if
    /// the text is owned.
    pub fn source(&self) -> Option<&'a str> {
        match &self.0 {
            Cow::Borrowed(raw) => Some(raw.get()),
            Cow::Owned(_) => None,
        }
    }

    /// The members of a JSON object, in order; `None` if `text` is not an object.
    pub fn members(text: &'a str) -> Option<Vec<(Cow<'a, str>, Json<'a>)>> {
        serde_json::from_str::<Outline<'a, Json<'a>>>(text).ok().map(|outline| outline.0)
    }

    /// The first members of these names of the object that `text` is; `None`: it is something else. Keeps no other member, however many
    /// there are.
    pub fn first_members<const N: usize>(text: &'a str, names: [&str; N]) -> Option<[Option<Self>; N]> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let found = FirstMembers(names).deserialize(&mut deserializer).ok()?;
        deserializer.end().ok()?;
        Some(found.map(|raw| raw.map(Self::borrowed)))
    }

    /// The members of this object, in order, borrowed where it is; `None` if it is something else.
    pub fn own_members(&self) -> Option<Vec<(Cow<'a, str>, Self)>> {
        if let Some(text) = self.source() {
            return Json::members(text);
        }
        let owned = |value: &Json<'_>| Json::owned(value.get().to_owned()).unwrap_or_else(Json::null);
        let members = serde_json::from_str::<Outline<'_, Json<'_>>>(self.get()).ok()?.0;
        Some(members.iter().map(|(name, value)| (Cow::Owned(name.to_string()), owned(value))).collect())
    }

    /// Deserializes it as `T`; `None` if it is something else.
    pub fn read<'s, T: Deserialize<'s>>(&'s self) -> Option<T> {
        serde_json::from_str(self.get()).ok()
    }

    /// The value of a JSON string.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        // The text of a value begins and ends where the value does.
        let inside = self.get().strip_prefix('"')?.strip_suffix('"')?;
        if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
            return Some(Cow::Borrowed(inside));
        }
        self.read::<JsonStr<'_>>().map(|text| text.0)
    }

    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }

    pub fn is_true(&self) -> bool {
        self.get() == "true"
    }

    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }
}

impl Json<'static> {
    /// An object with these members, in order.
    pub fn object<N: AsRef<str>>(members: &[(N, Json<'_>)]) -> Self {
        Self::object_of(members.iter().map(|(name, value)| (name.as_ref(), value.get())))
    }

    /// An object with this one member.
    pub fn object_with<T: Serialize + ?Sized>(name: &str, value: &T) -> Self {
        Self::object(&[(name, Json::from_value(value))])
    }

    /// An object with these members, names and JSON texts, in order; `null` where a text is not valid.
    pub fn object_of<'m>(members: impl IntoIterator<Item = (&'m str, &'m str)>) -> Self {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        members.into_iter().for_each(|(name, json)| object.raw(name, json));
        object.close();
        Self::written(out).unwrap_or_else(Self::null)
    }

    /// Takes JSON text from a buffer; `None` if it is not valid.
    pub fn written(text: Vec<u8>) -> Option<Self> {
        Self::owned(String::from_utf8(text).ok()?)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(Self::borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_members_of_some_names_are_found() {
        let find = |text: &'static str| {
            let found = Json::first_members(text, ["a", "b"])?;
            Some(found.map(|json| json.map(|json| json.get().to_owned())))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            find(r#" {"c":[1],"\u0062":1.0,"a":null,"b":2,"a":{}} "#),
            Some([some("null"), some("1.0")])
        );
        assert_eq!(find("{}"), Some([None, None]));
        for text in ["[1]", "\"a\"", "", r#"{"a":1"#, r#"{"a":1}}"#, r#"{"a":1,"c":x}"#] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn only_strings_have_a_text() {
        for (json, wanted) in [
            (r#" "a b" "#, Some("a b")),
            (r#""""#, Some("")),
            (r#""a\u0062\"""#, Some("ab\"")),
            (r#""\ud800""#, None),
            ("1", None),
            (r#"["a"]"#, None),
            ("null", None),
        ] {
            let read = Json::parse(json).unwrap();
            let owned = Json::owned(json.to_owned()).unwrap();
            assert_eq!((read.text().as_deref(), owned.text().as_deref()), (wanted, wanted), "{json}");
        }
    }
}
