//! What a request, and an attempt of it, is to limits and to rules of access: the values of the keys of `docs/limits.md`.
//!
//! Borrowed from the request; nothing is copied to find out which limits are for it.

use super::fact_key::{Condition, FactKey};
use std::fmt;
use uuid::Uuid;

/// The request.
pub struct Facts<'a> {
    pub organisation: Option<Uuid>,
    pub workspace: Option<Uuid>,
    /// Which service key; never the secret.
    pub api_key: Option<Id<'a>>,
    /// The saved config in use.
    pub config: Option<Named<'a>>,
    /// The slug of the prompt.
    pub prompt: Option<&'a str>,
    /// What kind of call it is: `chatComplete`, `embed` …
    pub endpoint_type: Option<&'a str>,
    /// The merged metadata.
    pub metadata: &'a dyn Metadata,
    /// `None` before an attempt's target is chosen.
    pub target: Option<TargetFacts<'a>>,
}

/// The metadata of a request, wherever it is kept.
pub trait Metadata: Sync {
    /// The member with this name.
    fn value(&self, name: &str) -> Option<&str>;
}

impl<A: AsRef<str> + Sync, B: AsRef<str> + Sync> Metadata for &[(A, B)] {
    fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(key, _)| key.as_ref() == name).map(|(_, value)| value.as_ref())
    }
}

/// The target of an attempt.
#[derive(Clone, Copy)]
pub struct TargetFacts<'a> {
    /// As the request names it, after `override_params`: not as the response does.
    pub model: Option<&'a str>,
    /// The vendor: `openai`.
    pub provider: &'a str,
    /// The stored provider.
    pub virtual_key: Option<Named<'a>>,
    pub integration: Option<Uuid>,
}

/// What names an object: the id of its record, or the name that the settings give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Id<'a> {
    Record(Uuid),
    Settings(&'a str),
}

/// An object with a slug: conditions compare the slug, buckets have the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'a> {
    pub slug: &'a str,
    pub id: Id<'a>,
}

/// A value of one key.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Id(Uuid),
    /// In a condition: `@provider/model`, by the slug and by the vendor.
    ModelName {
        slug: Option<&'a str>,
        vendor: &'a str,
        model: &'a str,
    },
    /// In a bucket: `provider.model`.
    ModelOf {
        provider: &'a str,
        model: &'a str,
    },
}

impl<'a> Facts<'a> {
    /// Whether the request has what a condition wants.
    pub(crate) fn meet(&self, condition: &Condition) -> bool {
        condition.matches(self.value(&condition.key))
    }

    /// The value that conditions compare.
    pub(crate) fn value(&self, key: &FactKey) -> Option<Value<'a>> {
        let target = self.target.as_ref();
        match key {
            FactKey::VirtualKey => Some(Value::Text(target?.virtual_key?.slug)),
            FactKey::Config => Some(Value::Text(self.config?.slug)),
            FactKey::Model => {
                let target = target?;
                let slug = target.virtual_key.map(|named| named.slug);
                Some(Value::ModelName { slug, vendor: target.provider, model: target.model? })
            }
            same => self.group_value(same),
        }
    }

    /// The value that names a bucket.
    pub(crate) fn group_value(&self, key: &FactKey) -> Option<Value<'a>> {
        let target = self.target.as_ref();
        Some(match key {
            FactKey::ApiKey => self.api_key?.value(),
            FactKey::Organisation => Value::Id(self.organisation?),
            FactKey::Workspace => Value::Id(self.workspace?),
            FactKey::Metadata(name) => Value::Text(self.metadata.value(name)?),
            FactKey::VirtualKey => target?.virtual_key?.id.value(),
            FactKey::Provider => Value::Text(target?.provider),
            FactKey::Config => self.config?.id.value(),
            FactKey::Prompt => Value::Text(self.prompt?),
            FactKey::Model => {
                let target = target?;
                let provider = target.virtual_key.map_or(target.provider, |named| named.slug);
                Value::ModelOf { provider, model: target.model? }
            }
            FactKey::EndpointType => Value::Text(self.endpoint_type?),
        })
    }
}

impl<'a> Id<'a> {
    fn value(self) -> Value<'a> {
        match self {
            Self::Record(id) => Value::Id(id),
            Self::Settings(name) => Value::Text(name),
        }
    }
}

impl Value<'_> {
    /// Whether a condition with this text names the value. A model may be named without its provider.
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Text(value) => value == text,
            Self::Id(id) => Uuid::try_parse(text).is_ok_and(|wanted| wanted == id),
            Self::ModelName { model, .. } => {
                text == model || self.after_provider(text).is_some_and(|rest| rest == model)
            }
            Self::ModelOf { .. } => false,
        }
    }

    /// Whether it begins as a condition's prefix does.
    pub(crate) fn starts_with(self, prefix: &str) -> bool {
        match self {
            Self::Text(value) => value.starts_with(prefix),
            Self::ModelName { model, .. } => {
                model.starts_with(prefix)
                    || self.after_provider(prefix).is_some_and(|rest| model.starts_with(rest))
            }
            Self::Id(_) | Self::ModelOf { .. } => false,
        }
    }

    /// What follows `@provider/` in a condition, if that provider is meant.
    fn after_provider(self, text: &str) -> Option<&str> {
        let Self::ModelName { slug, vendor, .. } = self else { return None };
        let after = |name: &str| text.strip_prefix('@')?.strip_prefix(name)?.strip_prefix('/');
        slug.and_then(after).or_else(|| after(vendor))
    }

    /// Its parts, each with its length before it: what is joined differently hashes differently.
    pub(crate) fn hash(self, add: &mut dyn FnMut(&[u8])) {
        let mut part = |text: &str| {
            add(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            add(text.as_bytes());
        };
        match self {
            Self::Text(value) => part(value),
            Self::Id(id) => part(id.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            Self::ModelOf { provider, model } | Self::ModelName { vendor: provider, model, .. } => {
                part(provider);
                part(model);
            }
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(value) => f.write_str(value),
            Self::Id(id) => id.hyphenated().fmt(f),
            Self::ModelOf { provider, model } => write!(f, "{provider}.{model}"),
            Self::ModelName { slug, vendor, model } => write!(f, "@{}/{model}", slug.unwrap_or(vendor)),
        }
    }
}
