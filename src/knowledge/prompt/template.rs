//! A compiled template: the messages of a chat, or the text of a completion.
//!
//! Three forms. Text that is JSON is rendered string by string (`json_tree`); a chat that becomes JSON only by its values is
//! rendered as text (`json_text`) and parsed; anything else is the text of a completion. Compiled when it is saved or
//! loaded, never by a request.

use super::components::Components;
use super::json_text::JsonText;
use super::json_tree::{self, Piece};
use super::node::Node;
use super::partial::{Partial, PartialRef, Partials};
use super::renderer::{Renderer, template_error};
use super::tags;
use serde_json::Value;
use serde_json::value::RawValue;
use words::error::{Error, Problem};

/// What a template renders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateKind {
    /// A JSON array of messages.
    Chat,
    /// The text of a completion.
    Text,
}

#[derive(Debug, Clone)]
enum Form {
    Tree(Vec<Piece>),
    Raw(Vec<Node>),
    Text(Vec<Node>),
}

#[derive(Debug, Clone)]
pub struct Template {
    form: Form,
    components: Components,
}

impl Template {
    /// Compiles the text of a prompt. `is_raw`: it is a chat although it begins with a tag (`is_raw_template`).
    ///
    /// # Errors
    /// Everything that is wrong with it, under the path `string`.
    pub fn compile(text: &str, is_raw: bool) -> Result<Self, Vec<Problem>> {
        let form = Form::compile(text, is_raw).map_err(|problems| {
            let problem = |message| Problem { path: "string".to_owned(), message, place: None };
            problems.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        let mut components = Components::default();
        match &form {
            Form::Raw(nodes) | Form::Text(nodes) => components.add(nodes, false),
            Form::Tree(pieces) => pieces.iter().for_each(|piece| {
                if let Piece::Text(nodes) = piece {
                    components.add(nodes, false);
                }
            }),
        }
        Ok(Self { form, components })
    }

    pub const fn kind(&self) -> TemplateKind {
        match self.form {
            Form::Text(_) => TemplateKind::Text,
            Form::Tree(_) | Form::Raw(_) => TemplateKind::Chat,
        }
    }

    pub const fn components(&self) -> &Components {
        &self.components
    }

    /// The messages as a JSON array, or the text of the completion as a JSON string. `is_strict`: whether a variable must be there where
    /// its value is shown; it may be `null`. Sections ask whether a variable is there, and are no such places.
    ///
    /// # Errors
    /// 400 for missing partials, for missing variables, for a template that these variables do not make JSON, and over a limit.
    pub fn render(
        &self,
        variables: &Value,
        partials: &dyn Partials,
        is_strict: bool,
    ) -> Result<String, Error> {
        let renderer = Renderer::new(variables, partials);
        let mut renderer = if is_strict { renderer.strict() } else { renderer };
        let rendered = self.form.render(&mut renderer);
        // First: what is wrong with the result may be wrong for that.
        renderer.check_variables()?;
        rendered
    }
}

impl Form {
    /// # Errors
    /// As [`Template::render`].
    fn render<'a>(&'a self, renderer: &mut Renderer<'a>) -> Result<String, Error> {
        match self {
            Self::Tree(pieces) => {
                for piece in pieces {
                    if let Piece::Text(nodes) = piece {
                        renderer.check_partials(nodes)?;
                    }
                }
                json_tree::render(pieces, renderer)
            }
            Self::Raw(nodes) => {
                renderer.check_partials(nodes)?;
                let mut json = JsonText::default();
                renderer.render(nodes, &mut json)?;
                check_messages(&json.out).map_err(|why| template_error(&why))?;
                Ok(json.out)
            }
            Self::Text(nodes) => {
                renderer.check_partials(nodes)?;
                let mut text = String::new();
                renderer.render(nodes, &mut text)?;
                Ok(Value::from(text).to_string())
            }
        }
    }

    fn compile(text: &str, is_raw: bool) -> Result<Self, Vec<String>> {
        if !is_chat(text, is_raw) {
            return tags::parse_lines(text).map(Self::Text);
        }
        if check_messages(text).is_ok() {
            return json_tree::compile(text).map(Self::Tree);
        }
        let nodes = tags::parse(text)?;
        let is_fixed = |node: &Node| matches!(node, Node::Text(_) | Node::Value(_));
        if text.trim_start().starts_with('[') && nodes.iter().all(is_fixed) {
            // Whether it becomes JSON does not depend on the values.
            let mut json = JsonText::default();
            let nothing = Value::Null;
            let rendered = Renderer::new(&nothing, &NoPartials).render(&nodes, &mut json);
            let checked = rendered.map_err(|error| error.message).and_then(|()| check_messages(&json.out));
            checked.map_err(|why| vec![why])?;
        }
        Ok(Self::Raw(nodes))
    }
}

/// Whether the text is a list of messages.
fn is_chat(text: &str, is_raw: bool) -> bool {
    let text = text.trim_start();
    match text.strip_prefix('[') {
        // Not the `[INST]` of a text, nor one that values make a list of messages of in no case: `[{{^x}}none{{/x}}]`.
        Some(inside) => {
            let shown = tags::literals(inside);
            let items = shown.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            items.starts_with('{') || (items.trim_end() == "]" && inside.trim_end().ends_with(']'))
        }
        None => is_raw && text.starts_with("{{"),
    }
}

/// Why the text is no list; serde_json's message, which quotes no content.
fn check_messages(text: &str) -> Result<(), String> {
    let parsed = serde_json::from_str::<Vec<&RawValue>>(text);
    parsed.map(|_| ()).map_err(|error| format!("the messages are no JSON array: {error}"))
}

struct NoPartials;

impl Partials for NoPartials {
    fn find(&self, _: &PartialRef) -> Option<&Partial> {
        None
    }
}
