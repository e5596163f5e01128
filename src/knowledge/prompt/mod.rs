//! Prompts: templates with variables, compiled when they are saved, and the request bodies that are made of them.
//!
//! [`Template`] is a compiled text, [`PromptVersion`] what one version of a prompt stores and how a request's body is made of
//! it, [`PromptSet`] the prompts and partials of a workspace. Pure: knows no store, no session and no provider. How they are
//! written: `docs/prompts.md`.

mod components;
pub mod inclusion;
mod json_text;
mod json_tree;
mod library;
mod node;
mod parameters;
mod partial;
mod reference;
mod renderer;
mod scope;
mod tags;
mod template;
#[cfg(test)]
mod tests;
mod version;

pub use components::{Components, Names};
pub use library::{FoundPrompt, Prompt, PromptLibrary, PromptSet, StoredPartial};
pub use partial::{LazyPartial, Partial, PartialRef, PartialVersion, Partials};
pub use reference::{PromptReference, VersionReference};
pub use template::{Template, TemplateKind};
pub use version::{PromptVersion, RenderedPrompt, VersionBody};
