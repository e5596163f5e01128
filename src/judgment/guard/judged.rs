//! Which texts of a request or response a hook judges, and what its result shows of that: places and counts, never a text.
//!
//! Not here: where texts are in a body (`body_texts`).

use super::subject::Text;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use words::config::hooks::JudgedScope;

/// Where a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The user's, and whoever else is not the model.
    User,
    /// The system's or the developer's.
    System,
    /// The model's, in a request.
    Assistant,
    /// The result of a tool.
    Tool,
    /// A prompt, or what is to be embedded.
    Input,
    /// The arguments of a call.
    Arguments,
    /// The name of a participant.
    Name,
    /// What the client declares of its tools and of the form of the response.
    Tools,
    /// The name of a file.
    File,
    /// What the model thought, in a request.
    Reasoning,
    /// A member of a request that the gateway does not know.
    Other,
    /// Of a response.
    Answer,
}

/// The names of the parts in results.
const PARTS: [(Part, &str); 12] = [
    (Part::User, "user"),
    (Part::System, "system"),
    (Part::Assistant, "assistant"),
    (Part::Tool, "tool"),
    (Part::Input, "input"),
    (Part::Arguments, "arguments"),
    (Part::Name, "names"),
    (Part::Tools, "tools"),
    (Part::File, "files"),
    (Part::Reasoning, "reasoning"),
    (Part::Other, "other"),
    (Part::Answer, "answer"),
];

/// What a hook wants to judge of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Selection {
    pub scope: JudgedScope,
    pub tools: bool,
    pub files: bool,
}

/// How many texts there are of each part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts([u32; PARTS.len()]);

/// What was judged, and what was read and not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Of a request.
    scope: Option<JudgedScope>,
    texts: Counts,
    left_out: Counts,
}

impl Part {
    /// Whether it is written for a reader: the checks of a text's form (its length, its letters) look at no other part.
    pub const fn is_prose(self) -> bool {
        !matches!(
            self,
            Self::Arguments | Self::Name | Self::Tools | Self::File | Self::Reasoning | Self::Other
        )
    }
}

impl Selection {
    /// Whether both need the same parts of a body to be read.
    pub(super) fn reads_as(self, other: Self) -> bool {
        (self.tools, self.files) == (other.tools, other.files)
    }
}

impl Counts {
    fn add(&mut self, part: Part) {
        // The parts are in the order of their list.
        if let Some(count) = self.0.get_mut(part as usize) {
            *count += 1;
        }
    }
}

impl Judged {
    /// `scope`: of a request. `is_judged`: whether a text is.
    pub(super) fn of(scope: Option<JudgedScope>, texts: &[Text], is_judged: impl Fn(&Text) -> bool) -> Self {
        let mut judged = Self { scope, ..Self::default() };
        for text in texts {
            if is_judged(text) { judged.texts.add(text.part) } else { judged.left_out.add(text.part) }
        }
        judged
    }

    /// Another text was judged.
    pub(super) fn add(&mut self, part: Part) {
        self.texts.add(part);
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for ((_, name), count) in PARTS.iter().zip(self.0).filter(|(_, count)| *count > 0) {
            map.serialize_entry(name, &count)?;
        }
        map.end()
    }
}

impl Serialize for Judged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(scope) = self.scope {
            map.serialize_entry("scope", scope.as_str())?;
        }
        map.serialize_entry("texts", &self.texts)?;
        if self.left_out != Counts::default() {
            map.serialize_entry("left_out", &self.left_out)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_in_the_order_of_their_names() {
        for (place, (part, _)) in PARTS.iter().enumerate() {
            assert_eq!(*part as usize, place);
        }
    }
}
