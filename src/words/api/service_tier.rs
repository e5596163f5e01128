//! The service tier that a response was billed at, as the response reports it.
//!
//! Not the tier that a request wants: a provider may serve another one, and the price is that of the tier served.

use super::body::Body;
use crate::json::walk;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::ops::Deref;

/// The tiers of a request that no provider serves at a dearer one than the standard.
const ORDINARY: [&str; 4] = ["default", "standard", "standard_only", "flex"];

/// Tiers that cost more than the standard one.
const DEAR: [&str; 3] = ["priority", "fast", "performance"];

/// The tier that a request names, where no response to it is served at a dearer one than that or the standard. Of a member that is there
/// several times nobody knows which one the provider takes; Anthropic's fast mode has a price of its own, whatever the tier is.
pub fn bound_of(body: &Body) -> Option<&'static str> {
    let ordinary = |json: &[u8]| {
        let tier = ServiceTier::read(json)?;
        ORDINARY.iter().find(|name| **name == &*tier).copied()
    };
    let mut bound = None;
    for json in body.every("service_tier") {
        bound = Some(ordinary(json)?);
    }
    bound.filter(|_| !body.every("speed").any(|speed| speed == b"\"fast\""))
}

/// The longest name that is kept, bytes: all names in use are shorter.
const MAX_NAME: usize = 23;

/// The name of a tier in lower case: `default`, `standard`, `flex`, `priority`, `on_demand`, `provisioned_throughput`.
/// Kept in place, because nearly every response has one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServiceTier {
    len: u8,
    bytes: [u8; MAX_NAME],
}

impl ServiceTier {
    /// A tier by its name. Vertex's `trafficType` (`ON_DEMAND_FLEX`) becomes the name that Gemini and OpenAI use for the same.
    /// `None` for a name that is empty, too long, or not of ASCII letters.
    pub fn new(name: &str) -> Option<Self> {
        let name = match name.strip_prefix("ON_DEMAND_") {
            Some(tier) => tier,
            None => name,
        };
        if name.is_empty() || !name.is_ascii() {
            return None;
        }
        let mut bytes = [0; MAX_NAME];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        bytes.make_ascii_lowercase();
        Some(Self { len: u8::try_from(name.len()).ok()?, bytes })
    }

    /// Whether the standard tier, or a cheaper one, has this name in requests.
    pub fn is_ordinary(&self) -> bool {
        ORDINARY.contains(&&**self)
    }

    /// Whether it costs more than the standard one.
    pub fn is_dear(&self) -> bool {
        DEAR.contains(&&**self)
    }

    /// Reads the JSON text of a string, or of Bedrock's object with a `type`. `None` for anything else.
    pub fn read(json: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(json).ok()?.trim();
        match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(name) if !name.contains('\\') => Self::new(name),
            Some(_) => None,
            None => Self::of_type(json),
        }
    }

    fn of_type(json: &[u8]) -> Option<Self> {
        let mut members = walk::members(json)?;
        members.find(|(name, _)| *name == b"type").and_then(|(_, value)| Self::read(value.trim_ascii()))
    }
}

impl Deref for ServiceTier {
    type Target = str;

    fn deref(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }
}

impl std::fmt::Debug for ServiceTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}

/// Reads a tier among members that serde reads; what is no name does not lose the members next to it.
///
/// # Errors
/// The text is no JSON.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ServiceTier>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(ServiceTier::read(raw.get().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_vendors_are_one_set() {
        let cases = [
            (r#""default""#, Some("default")),
            (r#""PRIORITY""#, Some("priority")),
            (r#""ON_DEMAND""#, Some("on_demand")),
            (r#""ON_DEMAND_FLEX""#, Some("flex")),
            (r#""ON_DEMAND_PRIORITY""#, Some("priority")),
            (r#""PROVISIONED_THROUGHPUT""#, Some("provisioned_throughput")),
            (r#"{"type":"flex"}"#, Some("flex")),
            ("null", None),
            ("7", None),
            (r#""""#, None),
            (r#""a\"b""#, None),
            (r#""a name that is much too long to be that of a tier""#, None),
        ];
        for (json, wanted) in cases {
            assert_eq!(ServiceTier::read(json.as_bytes()).as_deref(), wanted, "{json}");
        }
    }
}
