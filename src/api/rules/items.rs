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
        for item in walk::items(value)? {
            match walk::members(item) {
                Some(members) => items.roles.push(Role::from_members(members)),
                None => {
                    items.first_non_object.get_or_insert(items.count);
                }
            }
            items.count += 1;
        }
        Some(items)
    }
}

impl<'a> Role<'a> {
    /// If `role` occurs twice, the last one counts, as in most JSON parsers.
    fn from_members(members: walk::Members<'a>) -> Self {
        members.fold(Role::Absent, |role, (name, value)| match is_role(name) {
            true => unquote(value).map_or(Role::NotString, Role::Named),
            false => role,
        })
    }
}

/// Whether a name, its escapes not resolved, is `role`.
fn is_role(raw: &[u8]) -> bool {
    raw == b"role"
        || raw.contains(&b'\\') && unquote(&[b"\"", raw, b"\""].concat()).is_some_and(|name| name == "role")
}
