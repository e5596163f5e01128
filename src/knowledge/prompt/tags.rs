//! Reads a template's text into nodes, and finds everything that is wrong with its tags.
//!
//! What is no tag stays text: `{{x` without an end, braces of JSON, `{{` before something that is no name.

use super::node::{Node, Path};
use super::partial::PartialRef;

/// The most sections inside each other.
const MAX_DEPTH: usize = 20;

/// The longest text of a template, bytes.
const MAX_TEXT: usize = 1 << 20;

/// Reads a text in which every line stays.
///
/// # Errors
/// Everything that is wrong with the tags.
pub fn parse(text: &str) -> Result<Vec<Node>, Vec<String>> {
    check_length(text)?;
    let mut parser = Parser::default();
    Tokens { rest: text }.for_each(|token| parser.token(token));
    parser.finish()
}

/// Reads a text in which lines that hold nothing but sections, comments and partials are no lines of the result.
///
/// # Errors
/// Everything that is wrong with the tags.
pub fn parse_lines(text: &str) -> Result<Vec<Node>, Vec<String>> {
    check_length(text)?;
    let mut parser = Parser::default();
    let mut line = Vec::new();
    for token in (Tokens { rest: text }) {
        let Token::Text(text) = token else {
            line.push(token);
            continue;
        };
        for part in text.split_inclusive('\n') {
            line.push(Token::Text(part));
            if part.ends_with('\n') {
                parser.line(&mut line);
            }
        }
    }
    parser.line(&mut line);
    parser.finish()
}

/// The text that is outside of tags.
pub(super) fn literals(text: &str) -> String {
    let texts = Tokens { rest: text }.filter_map(|token| match token {
        Token::Text(text) => Some(text),
        Token::Tag(_) => None,
    });
    texts.collect()
}

fn check_length(text: &str) -> Result<(), Vec<String>> {
    if text.len() > MAX_TEXT { Err(vec![format!("it is longer than {MAX_TEXT} bytes")]) } else { Ok(()) }
}

/// What a text consists of, from left to right.
enum Token<'a> {
    Text(&'a str),
    Tag(Tag<'a>),
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let at = memchr::memmem::find(self.rest.as_bytes(), b"{{").unwrap_or(self.rest.len());
        let (before, here) = self.rest.split_at_checked(at)?;
        if before.is_empty()
            && let Some((tag, rest)) = tag_at(here)
        {
            self.rest = rest;
            return Some(Token::Tag(tag));
        }
        // Of braces that begin no tag, the next one may begin one.
        let (text, rest) = self.rest.split_at_checked(before.len().max(1))?;
        self.rest = rest;
        Some(Token::Text(text))
    }
}

impl Token<'_> {
    /// Whether it leaves a line empty.
    fn is_blank(&self) -> bool {
        match self {
            Token::Text(text) => text.trim().is_empty(),
            Token::Tag(tag) => !matches!(tag, Tag::Value(_)),
        }
    }
}

/// A tag, without its braces.
#[derive(Clone, Copy)]
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

    /// Adds a line. Nothing is left of one that has tags and nothing to show but what they include; the blanks before a partial
    /// then stand before each line of it (Mustache's standalone lines).
    fn line(&mut self, line: &mut Vec<Token<'a>>) {
        let is_alone =
            line.iter().any(|token| matches!(token, Token::Tag(_))) && line.iter().all(Token::is_blank);
        let mut indent = "";
        for token in line.drain(..) {
            match token {
                Token::Text(blanks) if is_alone => indent = blanks,
                Token::Tag(tag) if is_alone => self.tag(tag, std::mem::take(&mut indent)),
                token => self.token(token),
            }
        }
    }

    fn token(&mut self, token: Token<'a>) {
        match token {
            Token::Text(text) => self.text(text),
            Token::Tag(tag) => self.tag(tag, ""),
        }
    }

    /// `indent`: what stands before each line of a partial.
    fn tag(&mut self, tag: Tag<'a>, indent: &str) {
        match tag {
            Tag::Comment => {}
            Tag::Value(name) => self.nodes.push(Node::Value(Path::new(name))),
            Tag::VariablePartial(name) => {
                self.nodes.push(Node::VariablePartial { path: Path::new(name), indent: indent.into() });
            }
            Tag::Partial(name) => match PartialRef::parse(name) {
                Ok(partial) => self.nodes.push(Node::Partial { partial, indent: indent.into() }),
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
