//! The texts of a request that have no place of their own: thoughts and refusals of the model that the client sends back, and those of members
//! that the gateway does not know. A provider may have the model read any of them.
//!
//! Not read: the members listed here. They are settings, ids, keys and media, which reach a model as no text.

use super::super::judged::Part;
use super::calls::OF_ITEM;
use super::{Reader, items, object};
use words::json::Json;
use words::json::splice::Object;

/// The members of a message that have what the model thought.
const THOUGHTS: [&str; 4] = ["reasoning_content", "reasoning", "reasoning_details", "thinking"];

/// The members with the text of one of the details of a thought (<https://openrouter.ai/docs/use-cases/reasoning-tokens>), or of a part of a
/// summary.
const OF_THOUGHT: [&str; 4] = ["text", "summary", "content", "thinking"];

/// The members that prove a thought: a provider refuses one that was changed.
const PROOFS: [&str; 4] = ["signature", "thoughtSignature", "thought_signature", "encrypted_content"];

/// Whether a member of a request is read elsewhere in this room, or by no model.
#[rustfmt::skip]
fn is_placed(name: &str) -> bool {
    matches!(
        name,
        // Read, or declared.
        "system" | "instructions" | "systemInstruction" | "system_instruction" | "messages" | "contents" | "content" | "requests"
            | "prompt" | "suffix" | "prediction" | "input" | "documents" | "generateContentRequest" | "tools" | "functions"
            | "response_format" | "text" | "output_format" | "output_config" | "generationConfig" | "generation_config" | "container"
            | "context_management"
        // Whom the request is for, and how it is kept.
            | "model" | "models" | "provider" | "route" | "user" | "metadata" | "labels" | "store" | "safety_identifier" | "service_tier"
            | "serviceTier" | "prompt_cache_key" | "prompt_cache_retention" | "prompt_cache_options" | "cache_control"
            | "cachedContent" | "cached_content" | "previous_response_id" | "conversation" | "background" | "anthropic_version"
            | "anthropic_beta" | "betas" | "inference_geo" | "mcp_servers" | "session_id"
        // How the model samples.
            | "seed" | "n" | "best_of" | "temperature" | "top_p" | "top_k" | "stop" | "stop_sequences" | "logit_bias" | "logprobs"
            | "top_logprobs" | "frequency_penalty" | "presence_penalty" | "truncation" | "truncate" | "moderation"
        // How it reasons, and what it may do.
            | "tool_choice" | "function_call" | "toolConfig" | "tool_config" | "parallel_tool_calls" | "reasoning" | "reasoning_effort"
            | "reasoning_format" | "thinking" | "verbosity" | "safetySettings" | "safety_settings" | "web_search_options"
        // The form of what comes.
            | "stream" | "stream_options" | "stream_format" | "include" | "modalities" | "audio" | "voice" | "speed" | "size" | "quality"
            | "style" | "encoding_format" | "embedding_types" | "input_type" | "task_type" | "taskType" | "output_dtype"
        // Media.
            | "image" | "images" | "mask" | "input_fidelity" | "file" | "file_id"
    )
}

/// Whether a member of a message, or of an item, is read elsewhere in this room, or by no model.
#[rustfmt::skip]
fn is_placed_in_message(name: &str) -> bool {
    matches!(
        name,
        "role" | "name" | "content" | "output" | "text" | "parts" | "tool_calls" | "function_call" | "tools" | "type" | "id" | "object"
            | "status" | "phase" | "tool_call_id" | "tool_use_id" | "call_id" | "namespace" | "server_label" | "approval_request_id"
            | "container_id" | "created_by" | "caller" | "execution" | "environment" | "fingerprint" | "cache_control" | "annotations"
            | "citations" | "logprobs" | "finish_reason" | "pending_safety_checks" | "acknowledged_safety_checks"
            | "image" | "images" | "image_url" | "video" | "video_url" | "input_image" | "result"
            | "signature" | "thoughtSignature" | "thought_signature" | "encrypted_content" | "thought_signatures"
    )
}

/// Whether the provider takes this thought only as it is.
fn has_proof(thought: &Object<'_>) -> bool {
    PROOFS.iter().any(|name| thought.string(name).is_some_and(|proof| !proof.is_empty()))
}

impl<'t> Reader<'t> {
    /// The members of a request that no room reads.
    pub(super) fn others(&mut self, body: &Object<'t>) {
        self.in_part(Part::Other, |reader| {
            for (_, value) in body.members().filter(|(name, _)| !is_placed(name)) {
                reader.all_texts(value, true);
            }
        });
    }

    /// The members of a message, or of an item, that no room reads.
    pub(super) fn others_of_message(&mut self, message: &Object<'t>, is_new: bool) {
        let is_item = !message.has("role");
        let kind = message.string("type").unwrap_or_default();
        for (name, value) in message.members() {
            let is_of_call =
                || is_item && (OF_ITEM.contains(&name) || name == "results" || name == "outputs");
            match name {
                _ if is_placed_in_message(name) => {}
                _ if kind.ends_with("_call") && is_of_call() => {}
                "summary" if kind == "reasoning" => self.thought(value, has_proof(message), is_new),
                "refusal" => self.text(value, is_new),
                "audio" => {
                    object(value).iter().for_each(|audio| self.member(audio, "transcript", is_new));
                }
                _ if THOUGHTS.contains(&name) => self.thought(value, has_proof(message), is_new),
                _ => self.in_part(Part::Other, |reader| reader.all_texts(value, is_new)),
            }
        }
    }

    /// A block of a content, or one of Google's parts, where it is a thought of the model.
    pub(super) fn thought_of_block(&mut self, block: &Object<'t>, name: &str, is_new: bool) {
        block.every(name).for_each(|value| self.thought(value, has_proof(block), is_new));
    }

    /// What the model thought: a text, or details with texts. `is_proved`: it stays as it is.
    fn thought(&mut self, value: &Json<'t>, is_proved: bool, is_new: bool) {
        let is_list = value.source().is_some_and(|list| list.starts_with('['));
        let details = if is_list { items(value) } else { vec![value.clone()] };
        self.in_part(Part::Reasoning, |reader| {
            for detail in &details {
                let object = object(detail);
                let is_proved = is_proved || object.as_ref().is_some_and(has_proof);
                let before = std::mem::replace(&mut reader.is_fixed, is_proved);
                reader.text(detail, is_new);
                if let Some(detail) = &object {
                    OF_THOUGHT.iter().for_each(|name| reader.member(detail, name, is_new));
                }
                reader.is_fixed = before;
            }
        });
    }
}
