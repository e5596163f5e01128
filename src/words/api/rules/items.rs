//! Reads the length of a list in a request and the roles of its items; everything else is skipped, not stored.
//!
//! The rules iterate over `messages` only here: a body of a megabyte is nearly all messages.

use crate::json::string::unquote;
use crate::json::walk;
use std::borrow::Cow;

/// What the rules need to know about a list.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub(super) count: usize,
    /// The first item that is no object.
    pub(super) first_non_object: Option<usize>,
    /// The roles of the items that are objects.
    pub(super) roles: Vec<Role<'a>>,
}

/// The `role` of an item.
pub(super) enum Role<'a> {
    Named(Cow<'a, str>),
    /// Not a string.
    NotString,
    Absent,
}

impl<'a> Items<'a> {
    /// Reads a list in a body that was parsed; `None` if the JSON text is no list.
    pub(super) fn read(value: &'a [u8]) -> Option<Self> {
        let mut items = Self::default();
        let mut list = walk::items(value)?;
        loop {
            let mut role = Role::Absent;
            // If `role` occurs twice, the last one counts, as in most JSON parsers.
            let is_object = list.next_members(|name, value| {
                if is_named(name, "role") {
                    role = unquote(value).map_or(Role::NotString, Role::Named);
                }
            });
            match is_object {
                None => return Some(items),
                Some(true) => items.roles.push(role),
                Some(false) => {
                    items.first_non_object.get_or_insert(items.count);
                }
            }
            items.count += 1;
        }
    }
}

/// Whether a member's name, its escapes not resolved, is `name`.
pub(super) fn is_named(raw: &[u8], name: &str) -> bool {
    raw == name.as_bytes()
        || raw.contains(&b'\\')
            && unquote(&[b"\"", raw, b"\""].concat()).is_some_and(|unescaped| unescaped == name)
}

/// The value of the first member of that name; `None` if it is absent or null.
pub(super) fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut members = walk::members(object)?;
    members
        .find(|(member, _)| is_named(member, name))
        .map(|(_, value)| value)
        .filter(|value| *value != b"null")
}
