//! Proof that no object of a JSON text has two members of one name.
//!
//! Of two such members one program takes the first, the next one the last (RFC 8259, section 4): who judges such a text judges another one than
//! its reader gets. Lists and objects are read 127 deep, as by serde. No tree is built of it.

use super::JsonStr;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// So many names are compared one by one: few objects have more.
const MAX_COMPARED: usize = 16;

/// Reads a text to its end.
///
/// # Errors
/// Why it is not such a text: what is wrong and where, in words of serde_json.
pub fn check(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<Unique>(text).map(|Unique| ())
}

/// A value that was read.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

/// The names of one object.
#[derive(Default)]
struct Names<'t> {
    first: Vec<Cow<'t, str>>,
    others: BTreeSet<Cow<'t, str>>,
}

impl<'t> Names<'t> {
    fn has(&self, name: &str) -> bool {
        self.first.iter().any(|first| first == name) || self.others.contains(name)
    }

    fn add(&mut self, name: Cow<'t, str>) {
        if self.first.len() < MAX_COMPARED {
            self.first.push(name);
        } else {
            self.others.insert(name);
        }
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while let Some(Unique) = items.next_element()? {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unique, A::Error> {
        let mut names = Names::default();
        while let Some(JsonStr(name)) = members.next_key()? {
            if names.has(&name) {
                return Err(A::Error::custom(format!("the member {name:?} is there twice")));
            }
            names.add(name);
            let Unique = members.next_value()?;
        }
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_repeated_names_is_read_to_its_end() {
        check(r#"{"a":[1,-2,3.5,true,null,"é\n"],"b":{"a":{},"c":[]},"n":18446744073709551615}"#).unwrap();
        assert!(check(r#"{"a":1} 2"#).is_err());
    }

    #[test]
    fn repeated_names_are_errors_among_many() {
        let members: Vec<String> = (0..100).map(|number| format!(r#""{number}":0"#)).collect();
        check(&format!("{{{}}}", members.join(","))).unwrap();
        for name in ["0", "15", "16", "99"] {
            let why = check(&format!(r#"{{{},"{name}":0}}"#, members.join(","))).unwrap_err().to_string();
            assert!(why.contains(&format!("the member \"{name}\" is there twice")), "{why}");
        }
    }

    #[test]
    fn repeated_names_are_errors_at_every_depth_and_in_every_spelling() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#, r#"{"a":{},"b":1,"a":[]}"#] {
            let why = check(text).unwrap_err().to_string();
            assert!(why.contains("the member \"a\" is there twice"), "{text}: {why}");
        }
        for text in ["[".repeat(200), format!("{}{}", "[".repeat(200), "]".repeat(200)), "1e999".to_owned()] {
            assert!(check(&text).is_err());
        }
    }
}
