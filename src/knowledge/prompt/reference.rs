//! How a request names a prompt: `slug`, `slug@12`, `slug@latest`, `slug@label`; an id may stand for the slug.

/// A prompt's slug or id, and which of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptReference<'a> {
    pub prompt: &'a str,
    pub version: VersionReference<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionReference<'a> {
    Published,
    /// The newest one, published or not.
    Latest,
    Number(u32),
    Label(&'a str),
}

impl<'a> PromptReference<'a> {
    pub fn parse(text: &'a str) -> Self {
        let Some((prompt, version)) = text.split_once('@') else {
            return Self { prompt: text, version: VersionReference::Published };
        };
        let version = match version {
            "latest" => VersionReference::Latest,
            // A label is never all digits.
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => match number.parse() {
                Ok(number) => VersionReference::Number(number),
                Err(_) => VersionReference::Label(version),
            },
            label => VersionReference::Label(label),
        };
        Self { prompt, version }
    }
}
