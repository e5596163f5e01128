//! A list in a request, read for its length and its items' roles; all else is skipped, not stored.
//!
//! The one place that walks `messages`: a body of a megabyte is nearly all messages.

use crate::api::body::Text;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A list, as far as the rules care.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub(super) count: usize,
    /// The first item that is no object.
    pub(super) odd: Option<usize>,
    /// Of the items that are objects.
    pub(super) roles: Vec<Role<'a>>,
}

/// The `role` of an item.
pub(super) enum Role<'a> {
    Told(Cow<'a, str>),
    /// Not a string.
    Odd,
    Absent,
}

impl<'a> Items<'a> {
    /// `None` when the JSON text is no list.
    pub(super) fn read(value: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Items::default();
                while let Some(Item(role)) = list.next_element()? {
                    if role.is_none() && items.odd.is_none() {
                        items.odd = Some(items.count);
                    }
                    items.count += 1;
                    items.roles.extend(role);
                }
                Ok(items)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// One item's role; `None` when it is no object.
struct Item<'a>(Option<Role<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyItem)
    }
}

struct AnyItem;

impl<'de> Visitor<'de> for AnyItem {
    type Value = Item<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut role = Role::Absent;
        while let Some(Text(name)) = map.next_key()? {
            if name == "role" {
                role = map.next_value()?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Item(Some(role)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Item(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Item(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Item(None))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Role<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &serde_json::value::RawValue = Deserialize::deserialize(deserializer)?;
        Ok(serde_json::from_str(raw.get()).map_or(Role::Odd, |Text(role)| Role::Told(role)))
    }
}
