//! The texts of one of Google's contents.

use super::super::judged::Part;
use super::request::is_name;
use super::turns::{first_new, part_of};
use super::{Reader, items, object};
use words::json::Json;
use words::json::splice::Object;

/// The members of Google's parts that are documented as not read.
const NOT_READ: [&str; 6] = [
    "functionCall",
    "function_call",
    "executableCode",
    "executable_code",
    "thoughtSignature",
    "thought_signature",
];
const RESPONSES: [&str; 2] = ["functionResponse", "function_response"];
const FILES: [&str; 4] = ["inlineData", "inline_data", "fileData", "file_data"];

impl<'t> Reader<'t> {
    /// The contents of a chat. Whether the model has a turn in it.
    pub(super) fn google_contents(&mut self, list: &Json<'t>) -> bool {
        self.text(list, true);
        let list = items(list);
        let contents: Vec<Option<Object<'t>>> = list.iter().map(object).collect();
        let first = first_new(&contents);
        for (index, (item, content)) in list.iter().zip(&contents).enumerate() {
            let part = content.as_ref().map_or(Part::User, part_of);
            self.in_part(part, |reader| reader.google_content(item, index >= first));
        }
        first > 0
    }

    /// One of Google's contents.
    pub(super) fn google_content(&mut self, content: &Json<'t>, is_new: bool) {
        self.text(content, is_new);
        let Some(content) = object(content) else {
            // Several, where one is expected: some readers take the list.
            if self.enter(is_new) {
                items(content).iter().for_each(|content| self.google_content(content, is_new));
                self.depth -= 1;
            }
            return;
        };
        let is_of_model = content.string("role").as_deref() == Some("model");
        for parts in content.every("parts") {
            self.text(parts, is_new);
            for item in items(parts) {
                self.text(&item, is_new);
                let Some(part) = object(&item) else { continue };
                let is_thought = part.get("thought").is_some_and(Json::is_true);
                self.google_part(&part, is_thought && is_of_model, is_new);
            }
        }
        self.others_of_content(&content, is_new);
    }

    fn google_part(&mut self, part: &Object<'t>, is_thought: bool, is_new: bool) {
        let before = self.found.texts.len();
        if is_thought {
            self.thought_of_block(part, &["text"], is_new);
        } else {
            self.member(part, "text", is_new);
        }
        self.in_part(Part::Tool, |reader| {
            for name in RESPONSES {
                for response in part.every(name).filter_map(object) {
                    // With names and numbers: the model reads the JSON.
                    response.every("response").for_each(|value| reader.arguments(value, is_new));
                    reader.parts_of_result(&response, is_new);
                    reader.others_of_result(&response, is_new);
                }
            }
            for name in ["codeExecutionResult", "code_execution_result"] {
                for result in part.every(name).filter_map(object) {
                    reader.member(&result, "output", is_new);
                    reader.others_of_result(&result, is_new);
                }
            }
        });
        self.call_of_google(part, is_new);
        self.in_part(Part::Arguments, |reader| {
            for name in ["executableCode", "executable_code"] {
                for code in part.every(name).filter_map(object) {
                    reader.member(&code, "code", is_new);
                    reader.others_of_result(&code, is_new);
                }
            }
        });
        for file in FILES.into_iter().filter_map(|name| part.inner(name)) {
            self.file_names(&file, is_new);
        }
        // A file beside a text is not read either.
        self.check_google_part(part, before == self.found.texts.len(), is_new);
        self.others_of_google(part, is_new);
    }

    /// What a tool has returned besides its JSON: texts, pictures, files.
    fn parts_of_result(&mut self, response: &Object<'t>, is_new: bool) {
        if !response.has("parts") || !self.enter(is_new) {
            return;
        }
        for part in response.list("parts") {
            self.google_part(&part, false, is_new);
        }
        self.depth -= 1;
    }

    /// Notes what is not read of a part: of its files, and where nothing of it was read, of all of it.
    fn check_google_part(&mut self, part: &Object<'t>, has_none: bool, is_new: bool) {
        for (name, value) in part.members().filter(|(name, _)| has_none || FILES.contains(name)) {
            let is_media = || {
                let Some(data) = object(value) else { return false };
                let kinds = || ["mimeType", "mime_type"].into_iter().flat_map(|name| data.every(name));
                let is_media = |kind: &str| kind.starts_with("image/") || kind.starts_with("audio/");
                kinds().next().is_some()
                    && kinds()
                        .all(|kind| kind.text().is_some_and(|kind| is_media(&kind.to_ascii_lowercase())))
            };
            let is_response = RESPONSES.contains(&name);
            if !(NOT_READ.contains(&name) || is_response || value.is_true() || is_media()) {
                let is_shown = FILES.contains(&name) || is_name(name);
                let what =
                    if is_shown { format!("a part with {name:?}") } else { "an unknown part".to_owned() };
                self.leave_unread(is_new, &what);
            }
        }
    }
}
