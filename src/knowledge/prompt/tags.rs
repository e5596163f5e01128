//! Reads a template's text into nodes, and finds everything that is wrong with its tags.
//!
//! What is no tag stays text: `{{x` without an end, braces of JSON, `{{` before something that is no name.

use super::node::{Node, Path};
use super::partial::PartialRef;

/// The most sections inside each other.
const MAX_DEPTH: usize = 20;

/// The longest text of a template, bytes.
const MAX_TEXT: usize = 1 << 20;

/// # Errors
/// Everything that is wrong with the tags.
pub fn parse(text: &str) -> Result<Vec<Node>, Vec<String>> {
    if text.len() > MAX_TEXT {
        return Err(vec![format!("it is longer than {MAX_TEXT} bytes")]);
    }
    let mut parser = Parser::default();
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest.as_bytes(), b"{{") {
        let (before, here) = rest.split_at_checked(at).unwrap_or((rest, ""));
        parser.text(before);
        rest = match tag_at(here) {
            Some((tag, rest)) => {
                parser.tag(tag);
                rest
            }
            None => {
                // The next brace may begin a tag.
                let (brace, rest) = here.split_at_checked(1).unwrap_or((here, ""));
                parser.text(brace);
                rest
            }
        };
    }
    parser.text(rest);
    parser.finish()
}

/// A tag, without its braces.
enum Tag<'a> {
    Value(&'a str),
    Section { name: &'a str, inverted: bool },
    End(&'a str),
    Partial(&'a str),
    VariablePartial(&'a str),
    Comment,
    Delimiters,
}

/// The tag at the beginning of `text`, which begins with `{{`, and what follows it.
fn tag_at(text: &str) -> Option<(Tag<'_>, &str)> {
    if let Some((inside, rest)) = text.strip_prefix("{{{").and_then(|inside| inside.split_once("}}}"))
        && is_name(inside.trim())
    {
        return Some((Tag::Value(inside.trim()), rest));
    }
    let (inside, rest) = text.strip_prefix("{{")?.split_once("}}")?;
    Some((tag(inside)?, rest))
}

fn tag(inside: &str) -> Option<Tag<'_>> {
    let inside = inside.trim();
    let named = |name: &'_ str| is_name(name.trim());
    if inside.starts_with('!') {
        return Some(Tag::Comment);
    }
    if inside.len() > 1 && inside.starts_with('=') && inside.ends_with('=') {
        return Some(Tag::Delimiters);
    }
    if let Some(name) = inside.strip_prefix(">>") {
        return named(name).then(|| Tag::VariablePartial(name.trim()));
    }
    let mut chars = inside.chars();
    let sigil = chars.next()?;
    let name = chars.as_str().trim();
    match sigil {
        '#' => named(name).then_some(Tag::Section { name, inverted: false }),
        '^' => named(name).then_some(Tag::Section { name, inverted: true }),
        '/' => named(name).then_some(Tag::End(name)),
        '>' => named(name).then_some(Tag::Partial(name)),
        '&' => named(name).then_some(Tag::Value(name)),
        _ => named(inside).then_some(Tag::Value(inside)),
    }
}

/// Blanks and dashes are legal in names.
fn is_name(name: &str) -> bool {
    let is_legal =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '@' | '$' | ':' | '/');
    !name.is_empty() && name.chars().all(is_legal)
}

/// A section that has not ended yet.
struct Open<'a> {
    name: &'a str,
    inverted: bool,
    /// What stands before it.
    outer: Vec<Node>,
}

#[derive(Default)]
struct Parser<'a> {
    nodes: Vec<Node>,
    open: Vec<Open<'a>>,
    problems: Vec<String>,
}

impl<'a> Parser<'a> {
    fn text(&mut self, text: &str) {
        match self.nodes.last_mut() {
            _ if text.is_empty() => {}
            Some(Node::Text(before)) => *before = [before, text].concat().into(),
            _ => self.nodes.push(Node::Text(text.into())),
        }
    }

    fn tag(&mut self, tag: Tag<'a>) {
        match tag {
            Tag::Comment => {}
            Tag::Value(name) => self.nodes.push(Node::Value(Path::new(name))),
            Tag::VariablePartial(name) => self.nodes.push(Node::VariablePartial(Path::new(name))),
            Tag::Partial(name) => match PartialRef::parse(name) {
                Ok(partial) => self.nodes.push(Node::Partial(partial)),
                Err(problem) => self.problems.push(problem),
            },
            Tag::Section { name, inverted } => {
                if self.open.len() == MAX_DEPTH {
                    let problem = format!(
                        "{{{{#{name}}}}} is inside {MAX_DEPTH} other sections, the most there may be"
                    );
                    self.problems.push(problem);
                }
                self.open.push(Open { name, inverted, outer: std::mem::take(&mut self.nodes) });
            }
            Tag::End(name) => self.end(name),
            Tag::Delimiters => {
                self.problems.push("other delimiters ({{=<% %>=}}) are not supported".to_owned());
            }
        }
    }

    fn end(&mut self, name: &str) {
        let Some(Open { name: opened, inverted, outer }) = self.open.pop() else {
            self.problems.push(format!("{{{{/{name}}}}} ends a section that was not begun"));
            return;
        };
        if opened != name {
            let sigil = sigil(inverted);
            self.problems
                .push(format!("{{{{/{name}}}}} stands where {{{{{sigil}{opened}}}}} must end first"));
        }
        let nodes = std::mem::replace(&mut self.nodes, outer);
        self.nodes.push(Node::Section { path: Path::new(opened), inverted, nodes });
    }

    fn finish(mut self) -> Result<Vec<Node>, Vec<String>> {
        for Open { name, inverted, .. } in &self.open {
            self.problems.push(format!("{{{{{}{name}}}}} is never closed", sigil(*inverted)));
        }
        if self.problems.is_empty() { Ok(self.nodes) } else { Err(self.problems) }
    }
}

const fn sigil(inverted: bool) -> char {
    if inverted { '^' } else { '#' }
}
