//! The texts of a request that have no place of their own: thoughts and refusals of the model that the client sends back, and those of members
//! that the gateway does not know. A provider may have the model read any of them.
//!
//! Not read: the members that are listed here, or in the lists of the vendors (`provider::vendor_members`). They are settings, ids, keys and
//! media, which reach a model as no text. A list is of the exact names: some servers read `Text` as `text`.

use super::super::judged::Part;
use super::calls::OF_ITEM;
use super::request::{DECLARATIONS, OF_PART};
use super::{Reader, items, object};
use knowledge::provider::is_listed_member;
use words::api::unlisted::{is_medium, is_seal, is_telling_number, names_something};
use words::json::Json;
use words::json::splice::Object;

/// The members of a message that have what the model thought; two are of LiteLLM's client.
const THOUGHTS: [&str; 6] = [
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking",
    "thinking_blocks",
    "provider_specific_fields",
];

/// The members of a thought that are no text of it, besides its proofs.
const OF_NO_THOUGHT: [&str; 5] = ["type", "id", "format", "data", "index"];

/// The members that prove a thought: a provider refuses one that was changed.
const PROOFS: [&str; 4] = ["signature", "thoughtSignature", "thought_signature", "encrypted_content"];

/// What the voice of a message has that is no text.
const OF_VOICE: [&str; 4] = ["id", "data", "format", "expires_at"];

/// Members that vendors list and whose texts a model reads. Of some only what stands in the member of this name.
const READ: [(&str, Option<&str>); 9] = [
    ("plugins", Some("search_prompt")),
    ("data_sources", Some("role_information")),
    ("promptVariables", None),
    ("prompt_variables", None),
    ("additionalModelRequestFields", None),
    ("additional_model_request_fields", None),
    ("user_original_query", None),
    ("compaction", None),
    ("model_parameters", None),
];

/// Whether a member of a request is read elsewhere in this folder, or by no model.
#[rustfmt::skip]
fn is_placed(name: &str) -> bool {
    let is_own = matches!(
        name,
        // Read, as far as their form is known.
        "system" | "instructions" | "systemInstruction" | "system_instruction" | "messages" | "contents" | "content" | "requests"
            | "prompt" | "suffix" | "prediction" | "input" | "documents" | "generateContentRequest"
        // Whom the request is for, and how it is kept and routed.
            | "model" | "models" | "provider" | "preset" | "trace" | "session_id" | "user_id" | "request_id" | "rid" | "tags" | "api_key"
            | "api_base" | "litellm_session_id" | "litellm_trace_id" | "user_security_context" | "prompt_cache_isolation_key" | "cache_salt"
            | "kv_transfer_params" | "bootstrap_host" | "lora_path" | "session_params" | "keep_alive"
        // How the model samples.
            | "best_of" | "truncate" | "samplers" | "options" | "logits_processors" | "guided_decoding_backend"
            | "context_length_exceeded_behavior" | "safety_model" | "translation_options" | "asr_options"
        // The form of what comes.
            | "stream_format" | "voice" | "size" | "quality" | "style" | "seconds" | "aspect_ratio" | "resolution" | "encoding_format"
            | "embedding_types" | "embedding_type" | "input_type" | "task" | "task_type" | "taskType" | "prompt_name" | "output_dtype"
        // Media.
            | "images" | "mask" | "input_fidelity" | "input_reference" | "file" | "file_id"
    );
    is_own || DECLARATIONS.contains(&name) || is_listed_member(name)
}

/// Whether a member of a message, or of an item, is read elsewhere in this folder, or by no model.
#[rustfmt::skip]
fn is_placed_in_message(name: &str) -> bool {
    matches!(
        name,
        "role" | "name" | "content" | "output" | "text" | "tool_calls" | "function_call" | "tools" | "type" | "id" | "object" | "status"
            | "phase" | "index" | "model" | "usage" | "metadata" | "created" | "created_at" | "createdAt" | "timestamp" | "stop_reason"
            | "stop_sequence" | "finish_reason" | "tool_call_id" | "tool_use_id" | "call_id" | "namespace" | "server_label" | "channel"
            | "recipient" | "approval_request_id" | "container_id" | "created_by" | "caller" | "execution" | "environment" | "fingerprint"
            | "cache_control" | "cache_ref" | "logprobs" | "pending_safety_checks" | "acknowledged_safety_checks" | "provider_options"
            | "providerOptions" | "provider_metadata" | "providerMetadata" | "extra_content" | "background" | "output_format" | "quality"
            | "size" | "moderation" | "input_fidelity" | "format" | "image" | "images" | "image_url" | "video" | "video_url"
            | "input_image" | "result" | "signature" | "thoughtSignature" | "thought_signature" | "thought_signatures"
            | "encrypted_content" | "reasoning_opaque" | "reasoning_signature"
    )
}

/// The members of a part that are pictures, voices, films and files.
const MEDIA: [&str; 14] = [
    "document",
    "source",
    "image",
    "image_url",
    "imageUrl",
    "input_image",
    "file",
    "input_file",
    "document_url",
    "input_audio",
    "audio",
    "audio_url",
    "video",
    "video_url",
];

/// The same of Google's parts.
const MEDIA_OF_GOOGLE: [&str; 6] =
    ["inlineData", "inline_data", "fileData", "file_data", "videoMetadata", "video_metadata"];

/// Whether a member of a part of a content is read elsewhere in this folder, or by no model.
#[rustfmt::skip]
fn is_placed_in_part(name: &str) -> bool {
    let is_own = matches!(
        name,
        "type" | "id" | "index" | "role" | "name" | "input" | "status" | "is_error" | "error_code" | "return_code" | "retrieved_at"
            | "tool_use_id" | "tool_call_id" | "call_id" | "tool_name" | "server_name" | "caller" | "namespace" | "page_age"
            | "cache_control" | "cacheControl" | "cache_ref" | "cache_reference" | "citations" | "annotations" | "logprobs" | "metadata"
            | "encrypted_content" | "encrypted_index" | "encrypted_stdout" | "outcome" | "tool_references" | "tool_changes" | "extra_content" | "provider_options" | "providerOptions"
            | "provider_metadata" | "providerMetadata" | "uuid"
            | "thinking" | "reasoning" | "summary" | "signature" | "thought" | "thoughtSignature" | "thought_signature"
    );
    is_own || OF_PART.contains(&name) || (is_placed_in_media(name) && name != "content")
}

/// Whether a member of a picture, a voice, a film or a file is read elsewhere in this folder, or by no model.
#[rustfmt::skip]
fn is_placed_in_media(name: &str) -> bool {
    matches!(
        name,
        "type" | "id" | "url" | "uri" | "data" | "bytes" | "content" | "s3Location" | "detail" | "format" | "media_type" | "mime_type"
            | "mimeType" | "file_id" | "fileId" | "file_data" | "file_url" | "file_uri" | "fileUri" | "expires_at"
            | "filename" | "file_name" | "displayName" | "display_name" | "document_name" | "fps" | "min_pixels" | "max_pixels"
            | "total_pixels" | "max_frames" | "min_frames" | "sample_rate" | "startOffset" | "start_offset" | "endOffset" | "end_offset"
            | "mediaResolution" | "media_resolution"
    )
}

/// Whether a member of one of Google's parts is read elsewhere in this folder, or by no model.
#[rustfmt::skip]
fn is_placed_in_google(name: &str) -> bool {
    matches!(
        name,
        "text" | "thought" | "thoughtSignature" | "thought_signature" | "functionCall" | "function_call" | "functionResponse"
            | "function_response" | "executableCode" | "executable_code" | "codeExecutionResult" | "code_execution_result"
            | "mediaResolution" | "media_resolution" | "partMetadata" | "part_metadata"
    )
}

/// Whether a member of a call, or of the function in it, is read elsewhere in this folder, or by no model.
#[rustfmt::skip]
fn is_placed_in_call(name: &str) -> bool {
    matches!(
        name,
        "id" | "type" | "index" | "name" | "arguments" | "args" | "input" | "function" | "custom" | "status" | "caller" | "namespace"
            | "extra_content" | "signature" | "thoughtSignature" | "thought_signature" | "provider_specific_fields"
    )
}

/// Whether a member of one of Google's results is read elsewhere in this folder, or by no model.
fn is_placed_in_result(name: &str) -> bool {
    matches!(
        name,
        "id" | "name"
            | "response"
            | "parts"
            | "willContinue"
            | "scheduling"
            | "output"
            | "outcome"
            | "language"
            | "code"
    )
}

/// Whether a member of a message of a response has what a tool or a search has found, or is read elsewhere in this folder.
#[rustfmt::skip]
fn is_found(name: &str) -> bool {
    matches!(
        name,
        "refusal" | "audio" | "annotations" | "citations" | "content_blocks" | "context" | "grounding_metadata" | "search_results"
            | "executed_tools" | "videos" | "audio_content"
    )
}

/// Those of them that items have alone.
const OF_ITEMS: [&str; 3] = ["environment", "fingerprint", "result"];

/// Whether the provider takes this thought only as it is.
fn has_proof(thought: &Object<'_>) -> bool {
    PROOFS.iter().any(|name| thought.string(name).is_some_and(|proof| !proof.is_empty()))
}

/// Whether a part is the summary of a conversation that its provider takes only as it is.
pub(super) fn is_sealed_summary(part: &Object<'_>) -> bool {
    part.string("type").as_deref() == Some("compaction") && has_proof(part)
}

impl<'t> Reader<'t> {
    /// What `read` takes stays as it is, where that is so.
    pub(super) fn fixed<T>(&mut self, is_fixed: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.is_fixed, is_fixed);
        let taken = read(self);
        self.is_fixed = before;
        taken
    }

    /// Whether an item is reasoning that its provider has sealed.
    pub(super) fn is_proved_thought(&self, item: &Object<'t>) -> bool {
        item.string("type").as_deref() == Some("reasoning") && has_proof(item)
    }

    /// The members of a request that are read nowhere else.
    pub(super) fn others(&mut self, body: &Object<'t>) {
        self.in_part(Part::Other, |reader| {
            for (name, value) in body.members() {
                match READ.iter().find(|(listed, _)| *listed == name) {
                    Some((_, Some(inner))) => reader.texts_in(value, inner),
                    Some((_, None)) => reader.arguments(value, true),
                    None if !is_placed(name) => reader.unlisted(name, value, true),
                    None if name == "requests" => {
                        let requests = items(value);
                        requests.iter().filter_map(object).for_each(|one| reader.others_of_embedding(&one));
                    }
                    // In another form than the one that is read by its shape.
                    None if name == "text" => reader.text(value, true),
                    None if name == "content" && is_list(value) => {
                        items(value).iter().for_each(|part| reader.unlisted("", part, true));
                    }
                    None => {}
                }
            }
        });
    }

    /// The texts in the members of this name, at any depth.
    fn texts_in(&mut self, value: &Json<'t>, wanted: &str) {
        if !self.enter(true) {
            return;
        }
        match object(value) {
            Some(object) => {
                for (name, value) in object.members() {
                    if name == wanted { self.arguments(value, true) } else { self.texts_in(value, wanted) }
                }
            }
            None => items(value).iter().for_each(|item| self.texts_in(item, wanted)),
        }
        self.depth -= 1;
    }

    /// The members of a message, or of an item, that are read nowhere else.
    pub(super) fn others_of_message(&mut self, message: &Object<'t>, is_new: bool) {
        let is_item = !message.has("role");
        let kind = message.string("type").unwrap_or_default();
        let is_call = is_item && kind.ends_with("_call");
        let is_proved = is_item && self.is_proved_thought(message);
        for (name, value) in message.members() {
            match name {
                _ if is_placed_in_message(name) && (is_item || !OF_ITEMS.contains(&name)) => {}
                _ if is_call && (OF_ITEM.contains(&name) || name == "results" || name == "outputs") => {}
                "summary" if kind == "reasoning" => self.thought(value, is_proved, is_new),
                "refusal" => self.text(value, is_new),
                "audio" => self.texts_but(value, &OF_VOICE, is_new),
                _ if THOUGHTS.contains(&name) => self.thought(value, false, is_new),
                "content_blocks" => self.content_of(value, is_new),
                _ => self.in_part(Part::Other, |reader| reader.unlisted(name, value, is_new)),
            }
        }
    }

    /// The members of a part of a content that are read nowhere else, and those of the media in it.
    pub(super) fn others_of_part(&mut self, part: &Object<'t>, is_new: bool) {
        for (name, value) in part.members() {
            match name {
                _ if MEDIA.contains(&name) => self.others_of_media(value, is_new),
                _ if is_placed_in_part(name) => {}
                _ if THOUGHTS.contains(&name) => self.thought(value, false, is_new),
                _ => self.in_part(Part::Other, |reader| reader.unlisted(name, value, is_new)),
            }
        }
    }

    /// The same of one of Google's parts.
    pub(super) fn others_of_google(&mut self, part: &Object<'t>, is_new: bool) {
        for (name, value) in part.members() {
            if MEDIA_OF_GOOGLE.contains(&name) {
                self.others_of_media(value, is_new);
            }
        }
        let is_placed = |name: &str| is_placed_in_google(name) || MEDIA_OF_GOOGLE.contains(&name);
        self.others_in(part, is_placed, Part::Other, is_new);
    }

    /// The same of one of Google's contents.
    pub(super) fn others_of_content(&mut self, content: &Object<'t>, is_new: bool) {
        self.others_in(content, |name| matches!(name, "role" | "parts"), Part::Other, is_new);
    }

    /// The members of a request of an embedding that are read nowhere else.
    fn others_of_embedding(&mut self, request: &Object<'t>) {
        let is_placed = |name: &str| {
            matches!(
                name,
                "content"
                    | "title"
                    | "model"
                    | "taskType"
                    | "task_type"
                    | "outputDimensionality"
                    | "output_dimensionality"
            )
        };
        self.others_in(request, is_placed, Part::Other, true);
    }

    /// The members of a stored prompt that are read nowhere else.
    pub(super) fn others_of_prompt(&mut self, prompt: &Object<'t>) {
        self.others_in(prompt, |name| matches!(name, "id" | "version" | "variables"), Part::Other, true);
    }

    /// The members of a message of a response that are read nowhere else, without what the model thought, what it has found and media.
    pub(super) fn others_of_answer(&mut self, message: &Object<'t>) {
        self.in_part(Part::Other, |reader| {
            for (name, value) in message.members() {
                if !(is_found(name) || is_placed_in_message(name) || THOUGHTS.contains(&name)) {
                    reader.unlisted_of_answer(name, value);
                }
            }
        });
    }

    /// The same of a part or block with a text.
    pub(super) fn others_of_text(&mut self, part: &Object<'t>) {
        self.in_part(Part::Other, |reader| {
            for (name, value) in part.members().filter(|(name, _)| !is_placed_in_part(name)) {
                reader.unlisted_of_answer(name, value);
            }
        });
    }

    /// What of a response is of a type that is in no list. `with_text`: its text is read nowhere else either.
    pub(super) fn others_of_output(&mut self, body: &Object<'t>, with_text: bool) {
        let is_placed = |name: &str| matches!(name, "format" | "annotations" | "logprobs");
        // Read by its shape.
        let is_read = |part: &Json<'t>| {
            object(part).is_some_and(|part| part.string("type").as_deref() == Some("output_text"))
        };
        self.in_part(Part::Other, |reader| {
            for (name, value) in body.members().filter(|(name, _)| !is_placed(name)) {
                match name {
                    "text" | "data" | "refusal" if !with_text => {}
                    "content" if is_list(value) => {
                        let parts = items(value);
                        let unread = parts.iter().filter(|part| !is_read(part));
                        unread.for_each(|part| reader.unlisted_of_answer("", part));
                    }
                    _ => reader.unlisted_of_answer(name, value),
                }
            }
        });
    }

    fn others_of_media(&mut self, media: &Json<'t>, is_new: bool) {
        let Some(media) = object(media).filter(|_| self.enter(is_new)) else { return };
        for (_, inner) in media.members().filter(|(name, _)| MEDIA.contains(name)) {
            self.others_of_media(inner, is_new);
        }
        let is_placed = |name: &str| is_placed_in_media(name) || MEDIA.contains(&name);
        self.others_in(&media, is_placed, Part::Other, is_new);
        self.depth -= 1;
    }

    /// The members of a call, or of the function in it, that are read nowhere else.
    pub(super) fn others_of_call(&mut self, call: &Object<'t>, is_new: bool) {
        self.others_in(call, is_placed_in_call, Part::Arguments, is_new);
    }

    /// The members of one of Google's results of a tool that are read nowhere else.
    pub(super) fn others_of_result(&mut self, result: &Object<'t>, is_new: bool) {
        self.others_in(result, is_placed_in_result, Part::Tool, is_new);
    }

    /// The members that are in no list, with their names and numbers.
    fn others_in(&mut self, object: &Object<'t>, is_placed: fn(&str) -> bool, part: Part, is_new: bool) {
        self.in_part(part, |reader| {
            for (name, value) in object.members().filter(|(name, _)| !is_placed(name)) {
                reader.unlisted(name, value, is_new);
            }
        });
    }

    /// Every text in a member that is in no list, with the names and the telling numbers in it. Neither what seals something nor media.
    pub(super) fn unlisted(&mut self, name: &str, value: &Json<'t>, is_new: bool) {
        if is_seal(name) {
            return;
        }
        if value.source().is_some_and(is_telling_number) {
            return self.number(value, is_new);
        }
        if let Some(text) = value.text() {
            if !is_medium(name, &text) {
                self.arguments(value, is_new);
            }
            return;
        }
        if !self.enter(is_new) {
            return;
        }
        self.names(value, is_new);
        self.within(name, value, |reader, name, value| reader.unlisted(name, value, is_new));
        self.depth -= 1;
    }

    /// Has what is in an object or a list read, each by the name of its member.
    fn within(&mut self, name: &str, value: &Json<'t>, mut read: impl FnMut(&mut Self, &str, &Json<'t>)) {
        match object(value) {
            Some(object) => object.members().for_each(|(name, value)| read(self, name, value)),
            None => items(value).iter().for_each(|item| read(self, name, item)),
        }
    }

    /// The same of a response, without what names something: no member of an answer is called as a text is.
    fn unlisted_of_answer(&mut self, name: &str, value: &Json<'t>) {
        if is_seal(name) || names_something(name) || MEDIA.contains(&name) {
            return;
        }
        if value.source().is_some_and(is_telling_number) {
            return self.number(value, true);
        }
        if let Some(text) = value.text() {
            if !is_medium(name, &text) {
                self.text(value, true);
            }
            return;
        }
        if self.enter(true) {
            self.within(name, value, |reader, name, value| reader.unlisted_of_answer(name, value));
            self.depth -= 1;
        }
    }

    /// The members of these names of a block of a content, or of one of Google's parts, that have what the model thought.
    pub(super) fn thought_of_block(&mut self, block: &Object<'t>, names: &[&str], is_new: bool) {
        if !names.iter().any(|name| block.has(name)) {
            return;
        }
        let is_proved = has_proof(block);
        for (_, value) in block.members().filter(|(name, _)| names.contains(name)) {
            self.thought(value, is_proved, is_new);
        }
    }

    /// What the model thought: every text in it. `is_proved`: it stays as it is.
    fn thought(&mut self, value: &Json<'t>, is_proved: bool, is_new: bool) {
        self.in_part(Part::Reasoning, |reader| reader.thoughts_in(value, is_proved, is_new));
    }

    fn thoughts_in(&mut self, value: &Json<'t>, is_proved: bool, is_new: bool) {
        let object = object(value);
        let is_proved = is_proved || object.as_ref().is_some_and(has_proof);
        self.fixed(is_proved, |reader| reader.text(value, is_new));
        if !self.enter(is_new) {
            return;
        }
        match &object {
            Some(object) => {
                for (_, value) in object.members().filter(|(name, _)| !is_no_thought(name)) {
                    self.thoughts_in(value, is_proved, is_new);
                }
            }
            None => items(value).iter().for_each(|item| self.thoughts_in(item, is_proved, is_new)),
        }
        self.depth -= 1;
    }
}

fn is_no_thought(name: &str) -> bool {
    OF_NO_THOUGHT.contains(&name) || PROOFS.contains(&name)
}

fn is_list(value: &Json<'_>) -> bool {
    value.source().is_some_and(|source| source.starts_with('['))
}

#[cfg(test)]
mod tests;
