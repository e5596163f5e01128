//! Partials: texts that templates include by name. Not where they are stored: [`Partials`] finds them.

use super::inclusion::add_included;
use super::node::Node;
use super::tags;
use std::fmt;

/// The longest name of a partial, characters.
pub const MAX_NAME: usize = 50;

/// How a template names a partial.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartialRef {
    pub slug: Box<str>,
    pub version: PartialVersion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartialVersion {
    Published,
    /// The newest one, published or not.
    Latest,
    Number(u32),
}

impl PartialRef {
    /// Reads `slug`, `slug@5` or `slug@latest`.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let (slug, version) = match name.split_once('@') {
            None => (name, PartialVersion::Published),
            Some((slug, "latest")) => (slug, PartialVersion::Latest),
            Some((slug, number)) => match number.parse() {
                Ok(number) if number > 0 => (slug, PartialVersion::Number(number)),
                _ => {
                    return Err(format!(
                        "{name:?} names no version of a partial: write slug, slug@5 or slug@latest (labels are for prompts)"
                    ));
                }
            },
        };
        let is_slug = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        if slug.is_empty() || !slug.chars().all(is_slug) {
            return Err(format!("{name:?} is no name of a partial"));
        }
        if slug.chars().count() > MAX_NAME {
            return Err(format!("the name of a partial has at most {MAX_NAME} characters: {slug:?}"));
        }
        Ok(Self { slug: slug.into(), version })
    }
}

impl fmt::Display for PartialRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            PartialVersion::Published => f.write_str(&self.slug),
            PartialVersion::Latest => write!(f, "{}@latest", self.slug),
            PartialVersion::Number(number) => write!(f, "{}@{number}", self.slug),
        }
    }
}

/// The compiled text of one version of a partial.
#[derive(Debug, Clone)]
pub struct Partial {
    pub(super) nodes: Vec<Node>,
}

impl Partial {
    /// Compiles the text of a partial.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn compile(text: &str) -> Result<Self, Vec<String>> {
        tags::parse_lines(text).map(|nodes| Self { nodes })
    }

    /// The partials that it includes by their names, each once.
    pub fn included(&self) -> Vec<&PartialRef> {
        let mut included = Vec::new();
        add_included(&self.nodes, &mut included);
        included
    }
}

/// Where the partials of a template are found.
pub trait Partials {
    fn find(&self, partial: &PartialRef) -> Option<&Partial>;
}
