//! What all lists have: paging (`current_page` from 0 and `page_size`, in both spellings), and where objects have names, choosing them by
//! name.
//!
//! What a list has besides is its resource's.

use super::call::Call;
use super::field::{Field, Type, optional};
use super::reply::Reply;
use serde_json::{Value, json};

const PAGE: Type = Type::Integer(0, 1_000_000);
const SIZE: Type = Type::Integer(1, 1000);

pub(super) const CURRENT_PAGE: Field = optional("current_page", PAGE, "The page, from 0.");
pub(super) const PAGE_SIZE: Field = optional("page_size", SIZE, "Items on a page; 50 by default.");
pub(super) const CURRENT_PAGE_CAMEL: Field = optional("currentPage", PAGE, "The same as `current_page`.");
pub(super) const PAGE_SIZE_CAMEL: Field = optional("pageSize", SIZE, "The same as `page_size`.");

/// The parameters of every list.
pub(super) const QUERY: &[Field] = &[CURRENT_PAGE, PAGE_SIZE, CURRENT_PAGE_CAMEL, PAGE_SIZE_CAMEL];

/// The parameters of a list of objects that have names.
pub(super) const NAMED: &[Field] = &[
    optional("name", Type::Name(255), "Only with exactly this name; upper and lower case differ."),
    optional(
        "search",
        Type::Text(255),
        "Only with this text in name or slug; upper and lower case are the same.",
    ),
    CURRENT_PAGE,
    PAGE_SIZE,
    CURRENT_PAGE_CAMEL,
    PAGE_SIZE_CAMEL,
];

pub(super) const WORKSPACE: Field =
    optional("workspace_id", Type::Text(128), "Id or slug of a workspace; the key's own where absent.");

/// The parameter of a route whose path names an object by its slug, which is unique in a workspace.
pub(super) const IN_WORKSPACE: &[Field] = &[optional(
    "workspace_id",
    Type::Text(128),
    "Id or slug of the workspace that has the object; for keys of the organisation, where several have the slug.",
)];

/// The parameter of a list of one workspace's objects.
pub(super) const WORKSPACE_QUERY: &[Field] = &[WORKSPACE];

/// The names that a request asks for: [`NAMED`].
#[derive(Debug)]
pub(super) struct NameFilter<'a> {
    name: Option<&'a str>,
    /// In lower case.
    search: Option<String>,
}

impl<'a> NameFilter<'a> {
    pub fn of(call: &'a Call) -> Self {
        Self { name: call.query_text("name"), search: call.query_text("search").map(str::to_lowercase) }
    }

    /// Whether every object is asked for, so that no name needs to be read.
    pub fn has_all(&self) -> bool {
        self.name.is_none() && self.search.is_none()
    }

    /// Whether an object with this name and this slug is asked for.
    pub fn has(&self, name: Option<&str>, slug: Option<&str>) -> bool {
        self.name.is_none_or(|wanted| name == Some(wanted))
            && self.search.as_ref().is_none_or(|part| {
                [name, slug].into_iter().flatten().any(|text| text.to_lowercase().contains(part.as_str()))
            })
    }
}

/// Which part of a list was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub offset: usize,
    pub size: usize,
}

impl Page {
    /// `default_size`: items on a page where the request names no number.
    pub fn of(call: &Call, default_size: usize) -> Self {
        let number = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|name| call.query.get(*name)?.as_u64())
                .and_then(|n| usize::try_from(n).ok())
        };
        let size = number(["page_size", "pageSize"]).unwrap_or(default_size);
        let page = number(["current_page", "currentPage"]).unwrap_or(0);
        Self { offset: page.saturating_mul(size), size }
    }

    /// The list's envelope with the part of `items` on this page.
    pub fn reply<T>(self, items: &[T], show: impl Fn(&T) -> Value) -> Reply {
        let data = self.part(items).iter().map(show).collect();
        self.reply_with(items.len(), data)
    }

    /// The items on this page.
    pub fn part<T>(self, items: &[T]) -> &[T] {
        let rest = items.get(self.offset..).unwrap_or_default();
        rest.get(..self.size).unwrap_or(rest)
    }

    /// The list's envelope with what is shown of this page. `total`: of all pages.
    pub(crate) fn reply_with(self, total: usize, data: Vec<Value>) -> Reply {
        Reply::from(json!({"object": "list", "total": total, "data": data}))
    }
}
