//! Reads a template's text into nodes, and finds everything that is wrong with its tags.
//!
//! Takes time in proportion to the text, whatever it is. What is no tag stays text: `{{x` without an end, braces of JSON, `{{` before something that is no name.

use super::node::{Node, Path};
use super::partial::PartialRef;

/// The most sections inside each other.
const MAX_DEPTH: usize = 20;

/// The most problems that are reported.
const MAX_PROBLEMS: usize = 200;

/// The longest text of a template, bytes.
const MAX_TEXT: usize = 1 << 20;

/// Reads a text in which every line stays.
///
/// # Errors
/// Everything that is wrong with the tags.
pub fn parse(text: &str) -> Result<Vec<Node>, Vec<String>> {
    check_length(text)?;
    let mut parser = Parser::default();
    Tokens::new(text).for_each(|token| parser.token(token));
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
    for token in Tokens::new(text) {
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
    let texts = Tokens::new(text).filter_map(|token| match token {
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
    text: &'a str,
    /// Up to where it is read.
    at: usize,
    /// The tag behind the text that was returned last, and where it ends.
    tag: Option<(Tag<'a>, usize)>,
    double: Closing,
    triple: Closing,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, tag: None, double: Closing::new("}}"), triple: Closing::new("}}}") }
    }

    /// The tag at this place, where `{{` stands, and where it ends.
    fn tag_at(&mut self, at: usize) -> Option<(Tag<'a>, usize)> {
        if self.text.get(at..)?.starts_with("{{{")
            && let Some(place) = self.triple.next(self.text, at + 3)
            && let Some(name) = place.inside(self.text, at + 3)
            && is_name(name)
        {
            return Some((Tag::Value(name), place.at + 3));
        }
        let place = self.double.next(self.text, at + 2)?;
        Some((tag(place.inside(self.text, at + 2)?)?, place.at + 2))
    }

    /// The next place where `{{` stands.
    fn braces(&self, from: usize) -> Option<usize> {
        let rest = self.text.as_bytes().get(from..)?;
        let found = if rest.starts_with(b"{{") { 0 } else { memchr::memmem::find(rest, b"{{")? };
        Some(from + found)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some((tag, end)) = self.tag.take() {
            self.at = end;
            return Some(Token::Tag(tag));
        }
        let from = self.at;
        let mut at = from;
        while let Some(begin) = self.braces(at) {
            if let Some((tag, end)) = self.tag_at(begin) {
                if begin == from {
                    self.at = end;
                    return Some(Token::Tag(tag));
                }
                self.at = begin;
                self.tag = Some((tag, end));
                return self.text.get(from..begin).map(Token::Text);
            }
            // Of braces that begin no tag, the next one may begin one.
            at = begin + 1;
        }
        self.at = self.text.len();
        self.text.get(from..).filter(|text| !text.is_empty()).map(Token::Text)
    }
}

/// Where the next closing braces are: looked for once for all tags that may begin before them. Each tag by itself would read a text of
/// `{{` to its end, which takes minutes for a megabyte.
struct Closing {
    braces: &'static str,
    /// `None` before the first search; then where they are, or that none follow.
    found: Option<Option<Place>>,
    /// How many bytes were looked at.
    #[cfg(test)]
    looked_at: usize,
}

#[derive(Clone, Copy)]
struct Place {
    at: usize,
    /// The end of what stands before them, without blanks.
    visible: usize,
}

impl Closing {
    const fn new(braces: &'static str) -> Self {
        Self {
            braces,
            found: None,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    fn next(&mut self, text: &str, from: usize) -> Option<Place> {
        match self.found {
            Some(Some(place)) if place.at >= from => return Some(place),
            Some(None) => return None,
            Some(Some(_)) | None => {}
        }
        let rest = text.get(from..)?;
        let found = rest
            .split_once(self.braces)
            .map(|(before, _)| Place { at: from + before.len(), visible: from + before.trim_end().len() });
        #[cfg(test)]
        {
            self.looked_at += found.map_or(rest.len(), |place| place.at - from);
        }
        self.found = Some(found);
        found
    }
}

impl Place {
    /// What stands between `from` and the braces, without blanks around it.
    fn inside<'a>(&self, text: &'a str, from: usize) -> Option<&'a str> {
        text.get(from..self.visible.max(from)).map(str::trim_start)
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
#[derive(Debug, Clone, Copy)]
enum Tag<'a> {
    Value(&'a str),
    Section { name: &'a str, inverted: bool },
    End(&'a str),
    Partial(&'a str),
    VariablePartial(&'a str),
    Comment,
    Delimiters,
}

/// The tag with this between its braces, which has no blanks around it.
fn tag(inside: &str) -> Option<Tag<'_>> {
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
    /// Text behind the last node. Comments and lines come in pieces, which are one node.
    text: String,
    open: Vec<Open<'a>>,
    problems: Vec<String>,
}

impl<'a> Parser<'a> {
    fn add(&mut self, node: Node) {
        self.end_text();
        self.nodes.push(node);
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.nodes.push(Node::Text(std::mem::take(&mut self.text).into()));
        }
    }

    fn problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
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
            Token::Text(text) => self.text.push_str(text),
            Token::Tag(tag) => self.tag(tag, ""),
        }
    }

    /// `indent`: what stands before each line of a partial.
    fn tag(&mut self, tag: Tag<'a>, indent: &str) {
        match tag {
            Tag::Comment => {}
            Tag::Value(name) => self.add(Node::Value(Path::new(name))),
            Tag::VariablePartial(name) => {
                self.add(Node::VariablePartial { path: Path::new(name), indent: indent.into() });
            }
            Tag::Partial(name) => match PartialRef::parse(name) {
                Ok(partial) => self.add(Node::Partial { partial, indent: indent.into() }),
                Err(problem) => self.problem(problem),
            },
            Tag::Section { name, inverted } => {
                if self.open.len() == MAX_DEPTH {
                    let problem = format!(
                        "{{{{#{name}}}}} is inside {MAX_DEPTH} other sections, the most there may be"
                    );
                    self.problem(problem);
                }
                self.end_text();
                self.open.push(Open { name, inverted, outer: std::mem::take(&mut self.nodes) });
            }
            Tag::End(name) => self.end(name),
            Tag::Delimiters => {
                self.problem("other delimiters ({{=<% %>=}}) are not supported".to_owned());
            }
        }
    }

    fn end(&mut self, name: &str) {
        let Some(Open { name: opened, inverted, outer }) = self.open.pop() else {
            self.problem(format!("{{{{/{name}}}}} ends a section that was not begun"));
            return;
        };
        if opened != name {
            let sigil = sigil(inverted);
            self.problem(format!("{{{{/{name}}}}} stands where {{{{{sigil}{opened}}}}} must end first"));
        }
        self.end_text();
        let nodes = std::mem::replace(&mut self.nodes, outer);
        // Without a problem it is at most `MAX_DEPTH` deep: what is deeper could not be dropped without a deep stack.
        if self.problems.is_empty() {
            self.nodes.push(Node::Section { path: Path::new(opened), inverted, nodes });
        }
    }

    fn finish(mut self) -> Result<Vec<Node>, Vec<String>> {
        self.end_text();
        for Open { name, inverted, .. } in std::mem::take(&mut self.open) {
            self.problem(format!("{{{{{}{name}}}}} is never closed", sigil(inverted)));
        }
        if self.problems.is_empty() { Ok(self.nodes) } else { Err(self.problems) }
    }
}

const fn sigil(inverted: bool) -> char {
    if inverted { '^' } else { '#' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The tokens of a text, and how many bytes were looked at for closing braces.
    fn looked_at(text: &str) -> (Vec<Token<'_>>, usize) {
        let mut tokens = Tokens::new(text);
        let read = tokens.by_ref().collect();
        (read, tokens.double.looked_at + tokens.triple.looked_at)
    }

    #[test]
    fn a_text_is_searched_for_closing_braces_once_however_many_tags_may_begin() {
        for part in ["{{", "{{{", "{{a ", "{{ {{ ", "{", "{{ \n", "{{{a}} ", "{{a}}}{{{"] {
            for end in ["", "}}", "}}}", "        }}"] {
                let text = format!("{}{end}", part.repeat(20_000));
                let (_, looked_at) = looked_at(&text);
                assert!(looked_at <= 2 * text.len(), "{part:?} {end:?}: {looked_at} of {}", text.len());
                assert!(parse(&text).is_ok() && parse_lines(&text).is_ok(), "{part:?}");
            }
        }
    }

    #[test]
    fn texts_around_comments_are_one_node() {
        let text = "x{{!}}".repeat(50_000);
        assert_eq!(parse(&text), Ok(vec![Node::Text("x".repeat(50_000).into())]));
        let lines = "{{{{\n".repeat(50_000);
        assert_eq!(parse_lines(&lines), Ok(vec![Node::Text(lines.into())]));
    }

    #[test]
    fn sections_beyond_the_depth_are_refused_and_not_built() {
        let deep = ["{{#a}}".repeat(80_000), "{{/a}}".repeat(80_000)].concat();
        assert_eq!(parse(&deep).unwrap_err().len(), 1);
        assert_eq!(parse(&"{{#a}}".repeat(80_000)).unwrap_err().len(), MAX_PROBLEMS);
        let legal = ["{{#a}}".repeat(MAX_DEPTH), "{{/a}}".repeat(MAX_DEPTH)].concat();
        assert!(parse(&legal).is_ok());
    }

    /// As the tags were found before closing braces were remembered: each by itself.
    fn tag_by_itself(text: &str) -> Option<(Tag<'_>, &str)> {
        if let Some((inside, rest)) = text.strip_prefix("{{{").and_then(|inside| inside.split_once("}}}"))
            && is_name(inside.trim())
        {
            return Some((Tag::Value(inside.trim()), rest));
        }
        let (inside, rest) = text.strip_prefix("{{")?.split_once("}}")?;
        Some((tag(inside.trim())?, rest))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn each_tag_is_the_one_that_is_found_by_itself(text in r"[{}{} !#a=\n>]{0,60}") {
            let mut rest = text.as_str();
            let mut wanted: Vec<(String, bool)> = Vec::new();
            while let Some(char) = rest.chars().next() {
                if let Some((tag, after)) = tag_by_itself(rest) {
                    wanted.push((format!("{tag:?}"), true));
                    rest = after;
                    continue;
                }
                match wanted.last_mut() {
                    Some((before, false)) => before.push(char),
                    _ => wanted.push((char.to_string(), false)),
                }
                rest = rest.split_at(char.len_utf8()).1;
            }
            let (tokens, looked_at) = looked_at(&text);
            let found: Vec<(String, bool)> = tokens
                .into_iter()
                .map(|token| match token {
                    Token::Text(text) => (text.to_owned(), false),
                    Token::Tag(tag) => (format!("{tag:?}"), true),
                })
                .collect();
            prop_assert_eq!(found, wanted);
            prop_assert!(looked_at <= 2 * text.len());
        }
    }
}
