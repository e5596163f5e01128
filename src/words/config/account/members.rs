//! An account's fields as members of an object: their types.
//!
//! Not here: which fields there are, and those of request headers.

use super::names::Names;
use super::{AccountSource, Deployment, Variants};
use crate::config::members::{Choice, FLAG, Form, MemberTable, MemberType, SECRET, TEXT, form};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema;
use serde_json::{Value, json};

impl AccountSource for MemberTable<'_> {
    fn text(&mut self, names: Names, doc: &str) -> Option<String> {
        self.get(names, TEXT, doc).filter(|text| !text.is_empty())
    }

    fn secret(&mut self, names: Names, doc: &str) -> Option<Secret> {
        self.get(names, SECRET, doc).filter(|secret| !secret.expose().is_empty())
    }

    fn object(&mut self, names: Names, doc: &str) -> Option<Secret> {
        self.get(names, SEALED_OBJECT, doc)
    }

    fn one_of<T: Copy>(&mut self, names: Names, variants: Variants<T>, doc: &str) -> Option<T> {
        self.get(names, ChoiceOrEmpty(variants), doc)
    }

    fn choice<T: Copy + PartialEq>(&mut self, names: Names, variants: Variants<T>, doc: &str) -> Option<T> {
        self.get(names, Choice(variants), doc)
    }
}

/// The host of an operator's own provider.
pub(crate) const OPERATORS_HOST: Form<String> =
    form(|at| at.text().map(str::to_owned), |doc| host_schema(doc, r"^\s*[Hh][Tt][Tt][Pp][Ss]?:"));

/// The host of a target; an empty one counts as absent.
pub(in crate::config) const TARGETS_HOST: Form<String> =
    form(|at| at.text().map(str::to_owned), |doc| host_schema(doc, r"^$|^\s*[Hh][Tt][Tt][Pp][Ss]?:"));

fn host_schema(doc: &str, form: &str) -> Value {
    schema::pattern(doc, form, &["http://10.0.0.5:8000/v1"])
}

/// An object that may be secret, kept as its JSON text. In a file it may be a text that has it.
const SEALED_OBJECT: Form<Secret> = form(
    |at| {
        at.entries()?;
        Some(Secret::new(at.node.to_json()))
    },
    |doc| {
        let text = json!({"type": "string", "pattern": r"\$\{|^credential:.|^\s*\{"});
        json!({"anyOf": [{"type": "object"}, text], "description": doc})
    },
);

/// One of these names, or an empty text, which counts as absent.
struct ChoiceOrEmpty<T: 'static>(Variants<T>);

impl<T: Copy + 'static> MemberType for ChoiceOrEmpty<T> {
    type Value = T;

    fn read(&self, at: &Cursor<'_>) -> Option<T> {
        if at.node.as_text() == Some("") { None } else { at.one_of(self.0) }
    }

    fn schema(&self, doc: &str) -> Value {
        schema::one_of(doc, self.0.iter().map(|(name, _)| *name).chain([""]))
    }
}

impl Deployment {
    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let deployment_id = table.needed("deployment_id", TEXT, "The deployment's id.");
        let alias = table.needed("alias", TEXT, "The model's name in requests.");
        let api_version = table.needed("api_version", TEXT, "The version of the API.");
        let is_default = table.get("is_default", FLAG, "For models without a deployment of their own.");
        Some(Self {
            deployment_id: deployment_id?,
            alias: alias?,
            api_version: api_version?,
            is_default: is_default.unwrap_or_default(),
        })
    }
}
