//! The members of a JSON object of the control API, as a table: what reads request bodies and what describes them in the OpenAPI
//! document is the same, so neither can say what the other does not do.
//!
//! Checks types and bounds of single values and reports every problem with its path. What depends on other members or on what
//! is stored is checked by the resource.

mod read;
mod schema;

pub(super) use read::{read_object, read_text};
pub(super) use schema::{object_schema, type_schema};

/// One member of an object, or one parameter of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub name: &'static str,
    pub of: Type,
    /// Whether it must be there (in a request), or always is (in a response).
    pub is_required: bool,
    /// Whether it may be null: in a request a null is as if it were absent, or clears the value in an update.
    pub is_nullable: bool,
    /// What it means, with units; Markdown.
    pub doc: &'static str,
}

impl Field {
    /// Whether a parameter of a query may be sent without a value, as if it were absent. Not where that would turn a name that
    /// a script has failed to fill in into all names.
    pub(super) fn may_be_empty(&self) -> bool {
        !self.is_required && !matches!(self.of, Type::Name(_))
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    /// A text of at most so many characters.
    Text(usize),
    /// As `Text`, and not blank.
    Name(usize),
    /// Letters, digits, dashes and underscores, dots; from the first to the second number of characters.
    Slug(usize, usize),
    Uuid,
    /// A SHA-256 in hexadecimal.
    Sha256,
    /// RFC 3339 with an offset.
    Time,
    /// `true` and `false`; 1 and 0 mean the same.
    Flag,
    /// As `Flag`; a parameter of a query without a value is true.
    Switch,
    /// 0 or 1, as Portkey writes booleans in some responses.
    Bit,
    Integer(i64, i64),
    Number(f64, f64),
    OneOf(&'static [&'static str]),
    /// One or several of these names, with commas.
    Names(&'static [&'static str]),
    /// Ids and slugs with commas, at most so many characters.
    Ids(usize),
    /// An address of a person: `name@host`, at most 320 characters.
    Email,
    /// The name of a vendor, or an alias of it (docs/providers.md).
    Vendor,
    /// What a policy's conditions look at: a name, or `metadata.` with a name. Which names, is checked by the resource.
    PolicyKey,
    /// The name of a scope (docs/keys.md).
    Scope,
    /// A name of models, whole or with one `*` (docs/models.md).
    ModelName,
    /// The name of an operation (docs/operations.md).
    Operation,
    /// A config object. What is in it is checked by the resource.
    ConfigObject,
    /// A list of a type, with the least and the largest number of items.
    List(&'static Type, usize, usize),
    /// An object with free names and values of one type, at most so many.
    Map(&'static Type, usize),
    Object(&'static [Field]),
    /// The first type that fits in kind (text, list, object …).
    AnyOf(&'static [Type]),
    /// Any object, not looked into here.
    AnyObject,
    /// Any value, not looked into here.
    Any,
}

/// A member that a request must have, or that a response always has.
pub(super) const fn required(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, is_required: true, is_nullable: false, doc }
}

/// A member that may be absent or null.
pub(super) const fn optional(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, is_required: false, is_nullable: true, doc }
}

/// A member that may be absent and not null: an update can change it, and cannot clear it.
pub(super) const fn not_null(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, is_required: false, is_nullable: false, doc }
}

/// A member of a response that is always there and may be null.
pub(super) const fn nullable(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, is_required: true, is_nullable: true, doc }
}
