//! A tree of a JSON text in which no object has two members of one name.
//!
//! Of two such members one program takes the first, the next one the last (RFC 8259, section 4): who judges such a text judges another one than
//! its reader gets. serde's own [`Value`] keeps the last. Lists and objects are read 127 deep, as by serde.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Reads a text.
///
/// # Errors
/// Why it is not such a text: what is wrong and where, in words of serde_json.
pub fn read(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Unique>(text).map(|unique| unique.0)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Tree).map(Self)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!("the member {name:?} is there twice")));
            }
            let Unique(value) = members.next_value()?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_repeated_names_is_read_as_serde_reads_it() {
        let text = r#"{"a":[1,-2,3.5,true,null,"é\n"],"b":{"a":{},"c":[]},"n":18446744073709551615}"#;
        assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn repeated_names_are_errors_at_every_depth_and_in_every_spelling() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#, r#"{"a":{},"b":1,"a":[]}"#] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.contains("the member \"a\" is there twice"), "{text}: {why}");
        }
        for text in ["[".repeat(200), format!("{}{}", "[".repeat(200), "]".repeat(200)), "1e999".to_owned()] {
            assert!(read(&text).is_err());
        }
    }
}
