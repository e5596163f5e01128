//! The model behind a Bedrock model id or ARN, and the capabilities of its family.
//!
//! Converse has one shape for all models, but they differ in thinking, caching and structured output. The
//! differences are decided here by name, because Bedrock has no API that lists them.

use crate::provider::anthropic::generation::Generation;
use words::config::account::Account;

/// A model's vendor: the part of its id before the first dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Anthropic,
    Amazon,
    Cohere,
    Ai21,
    OpenAi,
    Qwen,
    Other,
    /// An ARN that does not name the model: an application inference profile, a provisioned or imported
    /// model.
    Unknown,
}

/// A model as the client named it.
#[derive(Debug, Clone, Copy)]
pub struct Model<'a> {
    pub family: Family,
    /// The foundation model's id without ARN and geography (`anthropic.claude-sonnet-4-5-20250929-v1:0`). For
    /// an ARN that does not name the model, the ARN.
    pub id: &'a str,
}

/// Prefixes of an id that make it a cross-region inference profile.
const GEOGRAPHIES: [&str; 11] = ["us", "us-gov", "eu", "apac", "ap", "au", "ca", "jp", "sa", "me", "global"];

impl<'a> Model<'a> {
    pub fn from_name(model: &'a str) -> Self {
        let id = match model.strip_prefix("arn:") {
            Some(arn) => match foundation_model(arn) {
                Some(id) => id,
                None => return Self { family: Family::Unknown, id: model },
            },
            None => model,
        };
        let id = match id.split_once('.') {
            Some((geography, rest)) if GEOGRAPHIES.contains(&geography) => rest,
            _ => id,
        };
        let family = match id.split_once('.').map(|(family, _)| family) {
            Some("anthropic") => Family::Anthropic,
            Some("amazon") => Family::Amazon,
            Some("cohere") => Family::Cohere,
            Some("ai21") => Family::Ai21,
            Some("openai") => Family::OpenAi,
            Some("qwen") => Family::Qwen,
            Some(_) => Family::Other,
            None => Family::Unknown,
        };
        Self { family, id }
    }

    /// As [`Model::from_name`]; for an ARN that does not name the model, the account's `model_name` decides.
    pub fn resolve(model: &'a str, account: &'a Account) -> Self {
        let named = Self::from_name(model);
        match (named.family, account.cloud_a.model_name.as_deref()) {
            (Family::Unknown, Some(configured)) => Self::from_name(configured),
            _ => named,
        }
    }

    /// Whether the model has prompt caching: other families refuse a cache point.
    pub fn caches(&self) -> bool {
        matches!(self.family, Family::Anthropic | Family::Amazon | Family::Unknown)
    }

    /// Whether the model accepts its earlier thinking. Other families refuse `reasoningContent` in the
    /// history.
    pub(crate) fn takes_thinking_back(&self) -> bool {
        matches!(self.family, Family::Anthropic | Family::Amazon | Family::Unknown)
    }

    /// Whether the model has `outputConfig.textFormat` and strict tools.
    /// Source: <https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html>.
    pub(crate) fn has_structured_output(&self) -> bool {
        match self.family {
            // Opus 4.1 has it at Anthropic, but not on Bedrock.
            Family::Anthropic => {
                Generation::from_model(self.id).has_schemas() && !self.id.contains("opus-4-1")
            }
            Family::Amazon | Family::Cohere | Family::Ai21 => false,
            Family::OpenAi | Family::Qwen | Family::Unknown => true,
            Family::Other => {
                const WITHOUT: [&str; 4] = ["meta.", "writer.", "stability.", "deepseek.r1"];
                !WITHOUT.iter().any(|start| self.id.starts_with(start))
            }
        }
    }

    /// Whether the model is a Nova that can think (Nova 2).
    pub(crate) fn is_thinking_nova(&self) -> bool {
        self.id.starts_with("amazon.nova-2") || self.id.starts_with("amazon.nova-3")
    }
}

/// The model named by an ARN (without `arn:`), if the resource is a foundation model or one of Bedrock's own
/// inference profiles: `aws:bedrock:us-east-1:1234:inference-profile/us.amazon.nova-lite-v1:0`.
fn foundation_model(arn: &str) -> Option<&str> {
    let resource = arn.splitn(5, ':').nth(4)?;
    let (kind, id) = resource.split_once('/')?;
    matches!(kind, "foundation-model" | "inference-profile").then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_found_in_profiles_and_arns() {
        let cases = [
            ("anthropic.claude-v2", Family::Anthropic, "anthropic.claude-v2"),
            ("us.amazon.nova-lite-v1:0", Family::Amazon, "amazon.nova-lite-v1:0"),
            ("global.anthropic.claude-sonnet-4-6", Family::Anthropic, "anthropic.claude-sonnet-4-6"),
            (
                "us.meta.llama4-maverick-17b-instruct-v1:0",
                Family::Other,
                "meta.llama4-maverick-17b-instruct-v1:0",
            ),
            (
                "arn:aws:bedrock:us-east-1::foundation-model/openai.gpt-oss-20b-1:0",
                Family::OpenAi,
                "openai.gpt-oss-20b-1:0",
            ),
            (
                "arn:aws-us-gov:bedrock:us-gov-west-1:12:inference-profile/us-gov.anthropic.claude-3-haiku-v1:0",
                Family::Anthropic,
                "anthropic.claude-3-haiku-v1:0",
            ),
            (
                "arn:aws:bedrock:us-east-1:12:application-inference-profile/abc",
                Family::Unknown,
                "arn:aws:bedrock:us-east-1:12:application-inference-profile/abc",
            ),
            ("arn:", Family::Unknown, "arn:"),
            ("", Family::Unknown, ""),
        ];
        for (name, family, id) in cases {
            let model = Model::from_name(name);
            assert_eq!((model.family, model.id), (family, id), "{name}");
        }
    }

    #[test]
    fn structured_output_goes_by_the_models_age() {
        for (id, has) in [
            ("anthropic.claude-3-5-sonnet-20241022-v2:0", false),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", false),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", false),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", true),
            ("us.anthropic.claude-sonnet-4-6", true),
            ("us.amazon.nova-pro-v1:0", false),
            ("us.meta.llama4-maverick-17b-instruct-v1:0", false),
            ("us.deepseek.r1-v1:0", false),
            ("minimax.minimax-m2", true),
            ("qwen.qwen3-32b-v1:0", true),
        ] {
            assert_eq!(Model::from_name(id).has_structured_output(), has, "{id}");
        }
    }
}
