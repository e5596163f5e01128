//! Which prompt a target renders, and the provider that the prompt brings along.
//!
//! The nearest `prompt_id` counts: the target's own, a group's above it, or the prompt that the client named. Not the
//! rendering (`prompt_call`).

use super::prompt_call::PromptCall;
use super::provider_ref::split_slug;
use knowledge::prompt::FoundPrompt;
use words::config::Config;
use words::error::Error;

/// Checks every `prompt_id` of a config. `call`: the prompt that the client named; without one no prompt is rendered, and the config is
/// good for other requests as well.
///
/// # Errors
/// 400 for an unknown prompt, and for one of another kind than the client's.
pub fn check(config: &Config, call: Option<&PromptCall>) -> Result<(), Error> {
    let Some(call) = call else { return Ok(()) };
    let mut named = Vec::new();
    collect(config, &mut named);
    let is_unknown = |id: &&str| call.set.find(id).is_err();
    let unknown: Vec<&str> = named.iter().copied().filter(is_unknown).collect();
    if !unknown.is_empty() {
        let message = format!("Following prompt_id are not valid: {}", unknown.join(", "));
        return Err(Error::bad_request(message).with_param("prompt_id"));
    }
    let kind = call.found.version.kind();
    let is_other = |id: &&str| call.set.find(id).is_ok_and(|found| found.version.kind() != kind);
    match named.into_iter().find(is_other) {
        None => Ok(()),
        Some(other) => {
            let message = format!(
                "The prompt {other:?} and the prompt {:?} of the path are of two kinds, a chat and a text: the response of one \
                 cannot stand for that of the other.",
                call.found.prompt.slug
            );
            Err(Error::bad_request(message).with_param("prompt_id"))
        }
    }
}

fn collect<'a>(config: &'a Config, named: &mut Vec<&'a str>) {
    if let Some(id) = config.prompt_id.as_deref().filter(|id| !named.contains(id)) {
        named.push(id);
    }
    config.targets.iter().for_each(|target| collect(target, named));
}

/// The prompt of one level of a config that was checked. `inherited`: the one of the level above.
pub fn resolve(
    config: &Config,
    call: Option<&PromptCall>,
    inherited: Option<&FoundPrompt>,
) -> Option<FoundPrompt> {
    let call = call?;
    let own = config.prompt_id.as_deref().and_then(|id| call.set.find(id).ok());
    own.or_else(|| Some(inherited.unwrap_or(&call.found).clone()))
}

/// The slug of the stored provider that a prompt is sent to, where the config names none. `model_slug`: the `@slug` of the
/// rendered model of the prompt that the client named.
pub fn provider_slug<'a>(
    prompt: &'a FoundPrompt,
    call: &PromptCall,
    model_slug: Option<&'a str>,
) -> Option<&'a str> {
    let version = &prompt.version;
    let by_model = if version.id == call.found.version.id {
        model_slug
    } else {
        version.model().and_then(split_slug).map(|(slug, _)| slug)
    };
    by_model.or(version.virtual_key())
}
