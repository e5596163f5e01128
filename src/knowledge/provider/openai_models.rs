//! Vendors' lists of models in OpenAI's shape: what is written, for all vendors that have another one.
//!
//! Not here: reading a vendor's list (its own file), and the gateway's list (`api::model_list`).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::borrow::Cow;
use words::json::Json;

/// A list of models.
#[derive(Serialize)]
pub(super) struct ModelList<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

/// A model: OpenAI's members, behind them the vendor's own.
pub(super) struct Model<'a> {
    /// The JSON of it; a vendor may leave it out.
    pub id: Option<Json<'a>>,
    /// Unix seconds; 0 where the vendor does not say.
    pub created: i64,
    pub owned_by: Cow<'a, str>,
    pub own: &'a [(Cow<'a, str>, Json<'a>)],
}

impl<'a> Model<'a> {
    /// A model of which the vendor says no more than its name.
    pub fn named(id: &str, owned_by: &'static str) -> Self {
        Self { id: Some(Json::from_value(id)), created: 0, owned_by: Cow::Borrowed(owned_by), own: &[] }
    }
}

impl<'a> ModelList<'a> {
    pub fn new(models: impl Iterator<Item = Model<'a>>) -> Self {
        Self { object: "list", data: models.collect() }
    }
}

impl Serialize for Model<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(id) = &self.id {
            map.serialize_entry("id", id)?;
        }
        map.serialize_entry("object", "model")?;
        map.serialize_entry("created", &self.created)?;
        map.serialize_entry("owned_by", &self.owned_by)?;
        for (name, json) in self.own {
            if !matches!(name.as_ref(), "id" | "object" | "created" | "owned_by") {
                map.serialize_entry(name, json)?;
            }
        }
        map.end()
    }
}
