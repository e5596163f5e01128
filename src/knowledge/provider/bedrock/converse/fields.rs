//! The members of a Converse request besides the messages: Bedrock's own, and `additionalModelRequestFields`
//! for the parameters that differ by model.

use super::NAME;
use crate::provider::bedrock::model::{Family, Model};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::vendor_members::VendorMembers;
use std::borrow::Cow;
use std::collections::HashSet;
use words::api::chat::{ChatRequest, Params};
use words::error::Error;
use words::json::{Json, JsonStr};

/// Collected while a request is written.
#[derive(Default)]
pub struct Fields<'a> {
    additional: Params<'a>,
    pub guardrail_config: Option<Json<'a>>,
    pub performance_config: Option<Json<'a>>,
    pub service_tier: Option<Json<'a>>,
    pub request_metadata: Option<Json<'a>>,
    pub prompt_variables: Option<Json<'a>>,
    pub response_field_paths: Option<Json<'a>>,
    /// Converse's own `outputConfig`, if the client sent it.
    pub output_config: Option<Json<'a>>,
}

impl<'a> Fields<'a> {
    /// Starts with the additional fields that the client sent; they take precedence over all others.
    ///
    /// # Errors
    /// 400 for additional fields that are no object.
    pub fn from_client(request: &mut ChatRequest<'a>) -> Result<Self, Error> {
        let mut fields = Self::default();
        let params = &mut request.params;
        let additional = either(params, "additional_model_request_fields", "additionalModelRequestFields");
        if let Some(json) = additional {
            let members = json.own_members().ok_or_else(|| {
                let param = "additional_model_request_fields";
                Error::invalid_request(param, format!("{param} must be an object."))
            })?;
            members.into_iter().for_each(|(name, value)| fields.additional.set(name, value));
        }
        Ok(fields)
    }

    /// Takes Bedrock's own parameters out of the request. Clients may write them in snake case, as OpenAI's
    /// parameters, or in Bedrock's camel case.
    pub fn take(&mut self, request: &mut ChatRequest<'a>, model: &Model<'_>, notes: &mut TranslationNotes) {
        let params = &mut request.params;
        self.guardrail_config =
            either(params, "guardrail_config", "guardrailConfig").map(|json| in_camel_case(&json));
        self.performance_config = either(params, "performance_config", "performanceConfig");
        self.request_metadata = either(params, "request_metadata", "requestMetadata");
        self.prompt_variables = either(params, "prompt_variables", "promptVariables");
        self.response_field_paths =
            either(params, "additional_model_response_field_paths", "additionalModelResponseFieldPaths");
        self.output_config = params.take("outputConfig");
        let tier = either(params, "service_tier", "serviceTier");
        self.service_tier = tier.and_then(|tier| service_tier(tier, notes));
        self.take_family_params(params, model.family);
        if self.request_metadata.is_none()
            && let Some(metadata) = params.get("metadata").filter(|metadata| fits_request_metadata(metadata))
        {
            self.request_metadata = Some(metadata.clone());
            params.take("metadata");
        }
    }

    fn take_family_params(&mut self, params: &mut Params<'a>, family: Family) {
        if let Some(top_k) = params.take("top_k") {
            match family {
                Family::Amazon => self.add("inferenceConfig", Json::object_with("topK", &top_k)),
                Family::Cohere => self.add("k", top_k),
                _ => self.add("top_k", top_k),
            }
        }
        match family {
            Family::Anthropic => {
                if let Some(user) = params.take("user") {
                    self.add("metadata", Json::object_with("user_id", &user));
                }
            }
            Family::Cohere | Family::Ai21 => {
                for name in ["frequency_penalty", "presence_penalty", "seed", "logit_bias"] {
                    // Cohere has all four on Bedrock, AI21 only the penalties.
                    let is_supported = family == Family::Cohere || name.ends_with("penalty");
                    if is_supported && let Some(value) = params.take(name) {
                        self.add(name, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds to the additional fields, unless the client already set that member.
    pub fn add(&mut self, name: impl Into<Cow<'a, str>>, value: Json<'a>) {
        let name = name.into();
        if self.additional.get(&name).is_none() {
            self.additional.set(name, value);
        }
    }

    /// Adds members of an object to the additional fields, besides those that the client already set there.
    pub fn merge(&mut self, name: &'static str, members: Params<'a>) {
        if members.is_empty() {
            return;
        }
        let own = self.additional.get(name).map(|own| Json::members(own.get()));
        let mut all = match own {
            None => Vec::new(),
            Some(Some(own)) => own,
            // It is no object: the provider refuses it.
            Some(None) => return,
        };
        let others = members.iter().map(|(name, value)| (Cow::Owned(name.to_owned()), value.clone()));
        let own: HashSet<Cow<'_, str>> = all.iter().map(|(name, _)| name.clone()).collect();
        all.extend(others.filter(|(name, _)| !own.contains(name)));
        let merged = Json::object(&all);
        self.additional.set(name, merged);
    }

    /// The additional fields so far.
    pub fn additional(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.additional.iter()
    }

    /// Sets an additional field, whatever the client set there.
    pub fn set(&mut self, name: &'static str, value: Json<'a>) {
        self.additional.set(name, value);
    }

    /// Handles the remaining parameters: those that are not OpenAI's are passed to the model.
    ///
    /// # Errors
    /// 400 that names a parameter Bedrock does not support.
    pub fn settle(
        &mut self,
        request: &mut ChatRequest<'a>,
        family: Family,
        notes: &mut TranslationNotes,
    ) -> Result<(), Error> {
        let rest = notes.filter_params(std::mem::take(&mut request.params), NAME, members(family))?;
        rest.into_iter().for_each(|(name, value)| self.add(name, value));
        Ok(())
    }

    /// `additionalModelRequestFields`, when there are any.
    pub(crate) fn take_additional(&mut self) -> Option<Json<'static>> {
        let additional = std::mem::take(&mut self.additional);
        if additional.is_empty() {
            return None;
        }
        Some(Json::object_of(additional.iter().map(|(name, value)| (name, value.get()))))
    }
}

/// The parameters that the models of a family take as additional fields.
fn members(family: Family) -> &'static VendorMembers {
    match family {
        Family::Anthropic => &VendorMembers::ANTHROPIC_IN_CLOUD,
        Family::Cohere => &VendorMembers::COHERE,
        Family::OpenAi | Family::Qwen => &VendorMembers::OPEN_MODELS,
        Family::Amazon | Family::Ai21 | Family::Other => &VendorMembers::BEDROCK,
        Family::Unknown => &VendorMembers::UNKNOWN_ON_BEDROCK,
    }
}

fn either<'a>(params: &mut Params<'a>, snake: &str, camel: &str) -> Option<Json<'a>> {
    let camel = params.take(camel);
    params.take(snake).or(camel)
}

/// OpenAI's service tier as Bedrock's object; an object passes unchanged.
fn service_tier<'a>(tier: Json<'a>, notes: &mut TranslationNotes) -> Option<Json<'a>> {
    if tier.is_object() {
        return Some(tier);
    }
    match tier.text().as_deref() {
        Some("auto") => None,
        Some("standard_only") => Some(Json::object_with("type", "default")),
        Some(name @ ("default" | "priority" | "flex" | "reserved")) => Some(Json::object_with("type", name)),
        _ => {
            notes.warn("service_tier", "dropped, bedrock has default, priority, flex and reserved");
            None
        }
    }
}

/// The top-level names `like_this` as `likeThis`.
fn in_camel_case<'a>(json: &Json<'a>) -> Json<'a> {
    let camel = |name: &str| {
        let mut parts = name.split('_');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let mut chars = part.chars();
            out.extend(chars.next().map(|first| first.to_ascii_uppercase()));
            out.push_str(chars.as_str());
        }
        out
    };
    let Some(members) = json.own_members() else { return json.clone() };
    // Once, where the client has both spellings.
    let mut all = Params::default();
    members.into_iter().for_each(|(name, value)| all.set(camel(&name), value));
    Json::object_of(all.iter().map(|(name, value)| (name, value.get())))
}

/// Whether OpenAI's `metadata` fits Bedrock's `requestMetadata` (both label a request in the provider's
/// logs): at most 16 pairs of up to 256 characters from its alphabet.
fn fits_request_metadata(json: &Json<'_>) -> bool {
    let good = |text: &str, min_len: usize| {
        let allowed = |char: char| char.is_ascii_alphanumeric() || " \t:_@$#=/+,-.".contains(char);
        (min_len..=256).contains(&text.len()) && text.chars().all(allowed)
    };
    Json::members(json.get()).is_some_and(|members| {
        (1..=16).contains(&members.len())
            && members.iter().all(|(name, value)| {
                good(name, 1) && value.read::<JsonStr<'_>>().is_some_and(|text| good(&text, 0))
            })
    })
}
