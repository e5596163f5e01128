//! `anthropic_beta` among the additional fields: Converse takes betas there and nowhere else.
//!
//! The betas of the client's header and body, those that the content demands and those of the account are joined, as in
//! the header at Anthropic (`route::vendor_headers`): a later list adds no other date of a feature that an earlier one has.

use super::fields::Fields;
use crate::provider::adapter::CallTarget;
use crate::provider::anthropic::betas::{feature, for_member, for_tool};
use crate::provider::anthropic::request::{MAX_BETAS, requested_betas};
use crate::provider::bedrock::model::Family;
use crate::provider::translation_notes::TranslationNotes;
use words::api::chat::{Params, Tool};
use words::error::Error;
use words::json::Json;

/// The member of the additional fields.
const MEMBER: &str = "anthropic_beta";

/// The features whose betas Bedrock takes: it refuses a request with any other ("invalid beta flag"), and clients such as
/// Claude Code name those of Anthropic's own API in every request. Source:
/// <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html>.
const FEATURES: [&str; 11] = [
    "compact",
    "computer-use",
    "context-1m",
    "context-management",
    "dev-full-thinking",
    "effort",
    "interleaved-thinking",
    "output-128k",
    "token-efficient-tools",
    "tool-examples",
    "tool-search-tool",
];

/// The betas that the body names itself.
///
/// # Errors
/// 400 for betas that are no list of strings.
pub fn requested(params: &mut Params<'_>, family: Family) -> Result<Vec<String>, Error> {
    match family {
        Family::Anthropic | Family::Unknown => requested_betas(params),
        // No parameter of these models: dropped with a warning like any other.
        _ => Ok(Vec::new()),
    }
}

/// Joins all betas, once the other fields are complete.
pub fn join(
    requested: Vec<String>,
    tools: &[Tool<'_>],
    target: &CallTarget<'_>,
    family: Family,
    fields: &mut Fields<'_>,
    notes: &mut TranslationNotes,
) {
    if !matches!(family, Family::Anthropic | Family::Unknown) {
        return;
    }
    let mut betas = Vec::new();
    add_list(from_header(target.client_betas.unwrap_or_default(), family, notes), &mut betas);
    let own = fields.additional().find(|(name, _)| *name == MEMBER);
    let mut own = own.and_then(|(_, json)| json.read::<Vec<String>>()).unwrap_or_default();
    if own.len() > MAX_BETAS {
        own.truncate(MAX_BETAS);
        notes.warn(MEMBER, format!("only the first {MAX_BETAS} were sent"));
    }
    add_list(own.into_iter().chain(requested), &mut betas);
    if family == Family::Anthropic {
        demanded(tools, fields, &mut betas);
    }
    let account = target.account.anthropic_beta.as_deref().unwrap_or_default();
    add_list(items(account).map(str::to_owned), &mut betas);
    if !betas.is_empty() {
        fields.set(MEMBER, Json::from_value(&betas));
    }
}

/// The betas of the client's header that Bedrock has.
fn from_header(header: &str, family: Family, notes: &mut TranslationNotes) -> Vec<String> {
    let is_kept = |beta: &&str| family == Family::Anthropic && FEATURES.contains(&feature(beta));
    let (kept, dropped): (Vec<&str>, Vec<&str>) = items(header).partition(is_kept);
    if !dropped.is_empty() {
        let why = match family {
            Family::Anthropic => "dropped, bedrock has no such betas",
            _ => "dropped, the model behind this ARN is not known, cloud_a_model_name names it",
        };
        notes.warn("anthropic-beta", format!("{} {why}", dropped.join(" ")));
    }
    kept.into_iter().map(str::to_owned).collect()
}

/// What the content demands.
fn demanded(tools: &[Tool<'_>], fields: &Fields<'_>, betas: &mut Vec<String>) {
    for (name, value) in fields.additional() {
        for_member(name, value, betas);
        if name == "output_config" {
            let members = Json::members(value.get()).unwrap_or_default();
            members.iter().for_each(|(name, value)| for_member(name, value, betas));
        }
    }
    for tool in tools {
        if let Tool::Other { kind, .. } = tool {
            for_tool(kind, betas);
        }
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|beta| !beta.is_empty())
}

/// Adds a list to those before it.
fn add_list(list: impl IntoIterator<Item = String>, betas: &mut Vec<String>) {
    let before = betas.len();
    for beta in list {
        let is_chosen = betas.iter().take(before).any(|earlier| feature(earlier) == feature(&beta));
        if !is_chosen && !betas.contains(&beta) {
            betas.push(beta);
        }
    }
}
