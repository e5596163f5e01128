//! Renders nodes with variables into a [`Sink`]: sections, loops, partials and their limits.
//!
//! A value is written to the sink and never read again, so that no value can be a template.

use super::components::Names;
use super::node::{Node, Path};
use super::partial::{Partial, PartialRef, Partials};
use super::scope::{Scopes, is_true, text};
use serde_json::Value;
use std::collections::HashSet;
use words::error::Error;

/// The longest rendered text, bytes.
pub(crate) const MAX_RENDERED: usize = 1 << 20;
/// The most items of lists that sections are rendered for, all loops together.
const MAX_TURNS: usize = 10_000;
/// The most nodes that are looked at; each [`NODE_BYTES`] of its text or name count as another one. Without it, loops in partials could
/// take minutes and write nothing.
const MAX_NODES: usize = 1_000_000;
const NODE_BYTES: usize = 64;
/// The most partials inside each other.
pub(super) const MAX_PARTIALS: usize = 5;

/// What a template is rendered into.
pub trait Sink {
    /// A part of the template's own text.
    fn literal(&mut self, text: &str);

    /// # Errors
    /// 400 where no value may stand.
    fn value(&mut self, value: Option<&Value>) -> Result<(), Error>;

    /// Renders a partial at this place.
    ///
    /// # Errors
    /// As [`Renderer::render`].
    fn partial<'a>(&mut self, renderer: &mut Renderer<'a>, partial: &'a Partial) -> Result<(), Error>;

    /// The bytes written so far.
    fn written(&self) -> usize;
}

/// Plain text.
impl Sink for String {
    fn literal(&mut self, text: &str) {
        self.push_str(text);
    }

    fn value(&mut self, value: Option<&Value>) -> Result<(), Error> {
        self.push_str(&text(value));
        Ok(())
    }

    fn partial<'a>(&mut self, renderer: &mut Renderer<'a>, partial: &'a Partial) -> Result<(), Error> {
        renderer.render(&partial.nodes, self)
    }

    fn written(&self) -> usize {
        self.len()
    }
}

/// One rendering.
pub(crate) struct Renderer<'a> {
    scopes: Scopes<'a>,
    partials: &'a dyn Partials,
    /// The partials that are being rendered, the innermost last.
    open: Vec<PartialRef>,
    /// The bytes written to earlier sinks.
    pub written: usize,
    turns: usize,
    nodes: usize,
    /// What stands before each line of the partials that are open.
    indent: String,
    is_line_start: bool,
    /// The variables whose value was wanted and is absent, where that is an error.
    absent: Option<Names>,
}

impl<'a> Renderer<'a> {
    pub fn new(variables: &'a Value, partials: &'a dyn Partials) -> Self {
        Self {
            scopes: Scopes::new(variables),
            partials,
            open: Vec::new(),
            written: 0,
            turns: 0,
            nodes: 0,
            indent: String::new(),
            is_line_start: false,
            absent: None,
        }
    }

    /// Makes an absent variable an error ([`Self::check_variables`]) instead of an empty text.
    pub fn strict(mut self) -> Self {
        self.absent = Some(Names::default());
        self
    }

    /// # Errors
    /// 400 with the names of all variables that were absent where a [`Self::strict`] rendering wanted their values.
    pub fn check_variables(&self) -> Result<(), Error> {
        match self.absent.as_deref() {
            None | Some([]) => Ok(()),
            Some(names) => Err(Error::invalid_request(
                "variables",
                format!(
                    "Missing variables: {}. The prompt is rendered with strict_variables.",
                    names.join(", ")
                ),
            )),
        }
    }

    /// # Errors
    /// 400 for what the variables or the partials lack, and over a limit.
    pub fn render(&mut self, nodes: &'a [Node], sink: &mut dyn Sink) -> Result<(), Error> {
        for node in nodes {
            self.nodes += weight(node);
            if self.nodes > MAX_NODES {
                return Err(too_many_nodes());
            }
            match node {
                Node::Text(text) if self.indent.is_empty() => sink.literal(text),
                Node::Text(text) => self.lines(text, sink)?,
                Node::Value(path) => {
                    if std::mem::take(&mut self.is_line_start) {
                        sink.literal(&self.indent);
                    }
                    let value = self.scopes.find(path);
                    if let (None, Some(absent)) = (value, &mut self.absent)
                        && !self.scopes.has(path)
                    {
                        absent.add(&path.name());
                    }
                    sink.value(value)?;
                }
                Node::Section { path, inverted, nodes } => self.section(path, *inverted, nodes, sink)?,
                Node::Partial { partial, indent } => self.indented(partial.clone(), indent, sink)?,
                Node::VariablePartial { path, indent } => {
                    let partial = self.partial_of(path)?;
                    self.indented(partial, indent, sink)?;
                }
            }
            self.check_size(sink)?;
        }
        Ok(())
    }

    fn check_size(&self, sink: &dyn Sink) -> Result<(), Error> {
        if self.written + sink.written() > MAX_RENDERED {
            return Err(too_large(&format!("more than {MAX_RENDERED} bytes")));
        }
        Ok(())
    }

    /// Writes a part of a partial's own text, each line behind the indentation. Lines of values are none of them.
    fn lines(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Error> {
        for line in text.split_inclusive('\n') {
            if self.is_line_start && !line.trim_end_matches(['\r', '\n']).is_empty() {
                sink.literal(&self.indent);
            }
            sink.literal(line);
            self.is_line_start = line.ends_with('\n');
            self.check_size(sink)?;
        }
        Ok(())
    }

    fn indented(&mut self, partial: PartialRef, indent: &str, sink: &mut dyn Sink) -> Result<(), Error> {
        let outer = self.indent.len();
        if !indent.is_empty() {
            self.indent.push_str(indent);
            self.is_line_start = true;
        }
        let rendered = self.partial(partial, sink);
        self.indent.truncate(outer);
        self.is_line_start &= outer > 0;
        rendered
    }

    fn section(
        &mut self,
        path: &Path,
        inverted: bool,
        nodes: &'a [Node],
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let value = self.scopes.find(path);
        match value {
            value if is_true(value) == inverted => Ok(()),
            Some(Value::Array(items)) if !inverted => items.iter().try_for_each(|item| {
                self.turns += 1;
                if self.turns > MAX_TURNS {
                    return Err(too_large(&format!("more than {MAX_TURNS} items of lists")));
                }
                self.inside(item, nodes, sink)
            }),
            Some(value) if !inverted && !value.is_boolean() => self.inside(value, nodes, sink),
            _ => self.render(nodes, sink),
        }
    }

    fn inside(&mut self, value: &'a Value, nodes: &'a [Node], sink: &mut dyn Sink) -> Result<(), Error> {
        self.scopes.push(value);
        let rendered = self.render(nodes, sink);
        self.scopes.pop();
        rendered
    }

    fn partial(&mut self, partial: PartialRef, sink: &mut dyn Sink) -> Result<(), Error> {
        let found = self.partials.find(&partial).ok_or_else(|| missing_partials(&[partial.to_string()]))?;
        let names = || {
            let names = self.open.iter().chain([&partial]).map(PartialRef::to_string);
            names.collect::<Vec<_>>().join(" > ")
        };
        if self.open.contains(&partial) {
            return Err(template_error(&format!("the partials include each other ({})", names())));
        }
        if self.open.len() == MAX_PARTIALS {
            return Err(template_error(&format!(
                "more than {MAX_PARTIALS} partials inside each other ({})",
                names()
            )));
        }
        self.open.push(partial);
        let rendered = sink.partial(self, found);
        self.open.pop();
        rendered
    }

    /// The partial that a variable names.
    fn partial_of(&self, path: &Path) -> Result<PartialRef, Error> {
        match self.scopes.find(path) {
            Some(Value::String(slug)) => {
                PartialRef::parse(slug.trim()).map_err(|_| missing_partials(std::slice::from_ref(slug)))
            }
            _ => Err(missing_variables(&[path.name()])),
        }
    }

    /// Checks that all partials exist that `nodes` and their partials name, rendered or not, and the variables with names of
    /// partials that are outside of sections.
    ///
    /// # Errors
    /// 400 with the names of all that are missing.
    pub(crate) fn check_partials(&self, nodes: &'a [Node]) -> Result<(), Error> {
        let mut missing = Missing::default();
        missing.collect(self, nodes, true, 0);
        let listed = |names: &Names| names.iter().map(|name| String::from(&**name)).collect::<Vec<_>>();
        match missing {
            Missing { nodes, .. } if nodes > MAX_NODES => Err(too_many_nodes()),
            Missing { variables, .. } if !variables.is_empty() => Err(missing_variables(&listed(&variables))),
            Missing { partials, .. } if !partials.is_empty() => Err(missing_partials(&listed(&partials))),
            _ => Ok(()),
        }
    }
}

/// What a template names and a request has not.
#[derive(Default)]
struct Missing<'a> {
    variables: Names,
    partials: Names,
    visited: HashSet<&'a PartialRef>,
    /// That were looked at.
    nodes: usize,
}

impl<'a> Missing<'a> {
    /// `depth`: how many partials it is inside of. What is deeper than the limit is refused when it is rendered.
    fn collect(&mut self, renderer: &Renderer<'a>, nodes: &'a [Node], is_outside: bool, depth: usize) {
        for node in nodes {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                return;
            }
            match node {
                Node::Text(_) | Node::Value(_) => {}
                Node::Section { nodes, .. } => self.collect(renderer, nodes, false, depth),
                // In a section it may be a member of an item.
                Node::VariablePartial { .. } if !is_outside => {}
                Node::VariablePartial { path, .. } => match renderer.partial_of(path) {
                    Ok(partial) if renderer.partials.find(&partial).is_some() => {}
                    Ok(partial) => self.partials.add(&partial.to_string()),
                    Err(_) => match renderer.scopes.find(path) {
                        Some(Value::String(slug)) => self.partials.add(slug),
                        _ => self.variables.add(&path.name()),
                    },
                },
                Node::Partial { partial, .. } if depth <= MAX_PARTIALS && self.visited.insert(partial) => {
                    match renderer.partials.find(partial) {
                        Some(found) => self.collect(renderer, &found.nodes, is_outside, depth + 1),
                        None => self.partials.add(&partial.to_string()),
                    }
                }
                Node::Partial { .. } => {}
            }
        }
    }
}

/// How much a node counts.
fn weight(node: &Node) -> usize {
    let bytes = match node {
        Node::Text(text) => text.len(),
        Node::Value(path) | Node::VariablePartial { path, .. } | Node::Section { path, .. } => path.size(),
        Node::Partial { indent, .. } => indent.len(),
    };
    1 + bytes / NODE_BYTES
}

fn too_many_nodes() -> Error {
    too_large(&format!("more than {MAX_NODES} parts"))
}

fn missing_partials(names: &[String]) -> Error {
    Error::bad_request(format!("Missing prompt partials: {}", names.join(", ")))
}

fn missing_variables(names: &[String]) -> Error {
    Error::invalid_request("variables", format!("Missing variable partials: {}", names.join(", ")))
}

/// 400: the template cannot be rendered as it is.
pub(crate) fn template_error(why: &str) -> Error {
    Error::bad_request(format!("Error in parsing prompt template: {why}"))
}

fn too_large(what: &str) -> Error {
    Error::invalid_request("variables", format!("The rendered prompt has {what}, the most there may be."))
}
