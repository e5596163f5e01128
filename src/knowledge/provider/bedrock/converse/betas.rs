//! `anthropic_beta` among the additional fields: Converse takes betas there and nowhere else.
//!
//! The betas of the client's header and body, those that the content demands and those of the account are joined, as in
//! the header at Anthropic (`route::vendor_headers`): a later list adds no other date of a feature that an earlier one has.

use super::fields::Fields;
use crate::provider::adapter::CallTarget;
use crate::provider::anthropic::BetaHost;
use crate::provider::anthropic::beta_host::{self, items};
use crate::provider::anthropic::betas::{feature, for_member, for_tool};
use crate::provider::anthropic::request::{MAX_BETAS, requested_betas};
use crate::provider::bedrock::model::Family;
use crate::provider::translation_notes::TranslationNotes;
use words::api::chat::{Params, Tool};
use words::error::Error;
use words::json::Json;

/// The member of the additional fields.
const MEMBER: &str = "anthropic_beta";

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
    add_list(from_header(target.client_betas, family, notes), &mut betas);
    let own = fields.additional().find(|(name, _)| *name == MEMBER);
    let mut own = own.and_then(|(_, json)| json.read::<Vec<String>>()).unwrap_or_default();
    if own.len() > MAX_BETAS {
        own.truncate(MAX_BETAS);
        notes.warn(MEMBER, format!("only the first {MAX_BETAS} were sent"));
    }
    let requested = match family {
        Family::Anthropic => BetaHost::Bedrock.kept(requested, "bedrock", notes),
        _ => requested,
    };
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
fn from_header(header: Option<&str>, family: Family, notes: &mut TranslationNotes) -> Vec<String> {
    if family == Family::Anthropic {
        return beta_host::from_header(BetaHost::Bedrock, header, "bedrock", notes);
    }
    let dropped: Vec<&str> = items(header.unwrap_or_default()).collect();
    if !dropped.is_empty() {
        let why = "dropped, the model behind this ARN is not known, cloud_a_model_name names it";
        notes.warn("anthropic-beta", format!("{} {why}", dropped.join(" ")));
    }
    Vec::new()
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
