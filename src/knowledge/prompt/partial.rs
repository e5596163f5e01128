//! Partials: texts that templates include by name. Not where they are stored: [`Partials`] finds them.

use super::inclusion;
use super::node::Node;
use super::tags;
use std::fmt;
use std::sync::{Arc, OnceLock};

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
        inclusion::included(&self.nodes)
    }
}

/// A version of a partial as it is stored: compiled when a template first includes it. A start would take as long as all of them do.
#[derive(Debug)]
pub struct LazyPartial {
    source: Arc<str>,
    /// Takes the text out of `source`.
    text: fn(&str) -> String,
    /// What is wrong with it, where a version of the gateway with other rules stored it.
    compiled: OnceLock<Result<Partial, Vec<String>>>,
}

impl LazyPartial {
    pub const fn new(source: Arc<str>, text: fn(&str) -> String) -> Self {
        Self { source, text, compiled: OnceLock::new() }
    }

    /// # Errors
    /// Everything that is wrong with it.
    pub fn partial(&self) -> Result<&Partial, &[String]> {
        let compiled = self.compiled.get_or_init(|| Partial::compile(&(self.text)(&self.source)));
        compiled.as_ref().map_err(Vec::as_slice)
    }

    /// Whether its text may have this in it: without compiling it.
    pub(super) fn mentions(&self, slug: &str) -> bool {
        self.source.contains(slug)
    }

    /// How much there is to read.
    pub fn size(&self) -> usize {
        self.source.len()
    }

    /// Whether it was compiled.
    pub fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }
}

impl From<Partial> for LazyPartial {
    fn from(partial: Partial) -> Self {
        let compiled = OnceLock::from(Ok(partial));
        Self { source: Arc::default(), text: str::to_owned, compiled }
    }
}

/// Where the partials of a template are found.
pub trait Partials {
    fn find(&self, partial: &PartialRef) -> Option<&Partial>;
}
