//! JSON as text: reading, checking, changing and writing it without building a tree in memory.
//!
//! | File | For |
//! |---|---|
//! | [`value`] | a value that keeps its text, to be deserialized or passed on |
//! | [`string`] | a string that borrows |
//! | [`outline`] | the members of an object, unread |
//! | [`proof`] | proof that a text is an object, and its members, in one pass |
//! | `word` | eight bytes of a text at a time, for `proof` and `write` |
//! | [`values`] | how many values a text has |
//! | [`walk`] | members and items of text that was proven valid |
//! | [`string_walk`] | all strings of such a text, in one pass |
//! | [`scan`] | a few members of a text of any length, as it streams by |
//! | `schema` | JSON Schema of the types that configs and settings have |
//! | [`surrogates`] | halves of characters that other programs read, and serde does not |
//! | [`unique`] | proof that no name is there twice |
//! | [`rewrite`] | a text with the values of a changed tree |
//! | [`splice`] | nested members changed in place |
//! | [`path`] | what paths name, left out |
//! | [`whole_number`] | a number as the least strict reader takes it |
//! | [`write`] | an object written member by member |
//! | [`canonical`] | one text for all spellings of a value |
//! | `spellings` | for tests: other spellings of a value |
//! | [`similarity`] | proof that a text is valid, by its likeness to the last one |
//!
//! Pure. It knows no API: which members a body has is defined in `api` and `provider`.

pub(crate) mod bounded_yaml;
pub mod canonical;
pub(crate) mod outline;
pub mod path;
pub mod proof;
pub mod rewrite;
pub mod scan;
pub(crate) mod schema;
pub mod similarity;
#[cfg(test)]
mod spellings;
pub mod splice;
pub mod string;
pub mod string_walk;
pub mod surrogates;
pub mod tree;
pub mod unique;
pub mod value;
pub mod values;
pub mod walk;
pub mod whole_number;
mod word;
pub mod write;

pub use string::JsonStr;
pub use value::Json;
