//! A JSON text as a tree, of which every member is what the text says.
//!
//! Not `serde_json::from_str::<Value>`: with serde_json's feature `raw_value` that takes an object whose first member has a certain name for
//! something of its own, and reads the text in that member in its place. Who writes a request could show one body to who judges it and
//! another to who gets it. Of two members of one name the last one counts (`json::unique` finds them). Lists and objects are read 127
//! deep, as by serde.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Reads a text.
///
/// # Errors
/// Why it is no JSON: what is wrong and where, in words of serde_json.
pub fn read(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Tree>(text).map(|tree| tree.0)
}

struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
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
        while let Some(Tree(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Tree(value) = members.next_value()?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_read_as_serde_reads_it() {
        for text in [
            r#"{"a":[1,-2,3.5,true,null,"é\n"],"b":{"a":{},"c":[]},"n":18446744073709551615}"#,
            r#"{"a":1,"a":2}"#,
            " [] ",
        ] {
            assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        for text in ["[".repeat(200), "1e999".to_owned(), "{} 1".to_owned(), String::new()] {
            assert!(read(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_name_has_a_meaning_of_its_own() {
        for name in [
            "$serde_json::private::RawValue",
            "$serde_json::private::Number",
            "\\u0024serde_json::private::RawValue",
        ] {
            let plain = name.replace("\\u0024", "$");
            let text = format!(r#"{{"a":{{"{name}":"{{\"x\":1}}","c":2}},"b":1}}"#);
            assert_eq!(read(&text).unwrap(), json!({"a": {plain: "{\"x\":1}", "c": 2}, "b": 1}), "{text}");
        }
    }
}
