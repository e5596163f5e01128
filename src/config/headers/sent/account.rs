//! The account headers of a request: a config's keys, written with dashes.
//!
//! Clients of the reference send what they were given for every vendor at once; what belongs to one vendor
//! counts only when that vendor is asked.

use super::Header;
use crate::config::account::Said;
use crate::config::account::names::{CUSTOM_HOST, Names, SAID};
use crate::config::secret::Secret;
use crate::error::Error;

/// Words of one vendor for what others call otherwise: the provider they belong to.
const OWNED: &[(&str, &str)] = &[
    ("huggingface-base-url", "huggingface"),
    ("azure-foundry-url", "azure-ai"),
    ("cloud-c-foundry-url", "azure-ai"),
    ("workers-ai-account-id", "workers-ai"),
    ("databricks-workspace", "databricks"),
    ("snowflake-account", "snowflake"),
    ("fireworks-account-id", "fireworks-ai"),
];

/// The account headers that were sent, unread, and what is wrong with them.
#[derive(Default)]
pub(in crate::config::headers) struct SentAccount<'a> {
    found: Vec<(&'a str, Header<'a>)>,
    /// The provider the headers name.
    pub(in crate::config::headers) provider: String,
    /// The first thing found wrong.
    pub(in crate::config::headers) wrong: Option<Error>,
}

impl<'a> SentAccount<'a> {
    pub(in crate::config::headers) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Keeps the header called `word` after its prefix; `false` when no account has such a field.
    pub(super) fn take(&mut self, word: &'a str, header: Header<'a>) -> bool {
        let owned = OWNED.iter().any(|(own, _)| *own == word);
        let known = owned || SAID.iter().any(|names| is_one_of(word, names));
        if known {
            self.found.push((word, header));
        }
        known
    }

    /// The header that counts for a field: under the first prefix, and the provider's own word before a
    /// general one.
    fn find(&mut self, names: Names) -> Option<Header<'a>> {
        let mut best: Option<(usize, bool, Header<'a>)> = None;
        for (word, header) in self.found.iter().filter(|(word, _)| is_one_of(word, names)) {
            let owner = OWNED.iter().find(|(own, _)| own == word).map(|(_, provider)| *provider);
            // Headers have no `custom_host` but a vendor's own: the general one is read elsewhere.
            if owner.is_some_and(|owner| owner != self.provider) || (owner.is_none() && names == CUSTOM_HOST)
            {
                continue;
            }
            let (rank, general) = (header.rank, owner.is_none());
            match &best {
                Some((first, plain, _)) if (*first, *plain) < (rank, general) => {}
                Some((first, plain, _)) if (*first, *plain) == (rank, general) => {
                    // Which of two would count is a guess an attacker could use.
                    self.wrong.get_or_insert_with(|| {
                        header.error("is sent more than once, or under two of its names")
                    });
                }
                _ => best = Some((rank, general, *header)),
            }
        }
        best.map(|(_, _, header)| header)
    }

    fn read<T>(&mut self, names: Names, read: impl FnOnce(Header<'a>) -> Result<T, Error>) -> Option<T> {
        match read(self.find(names)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong.get_or_insert(error);
                None
            }
        }
    }
}

impl Said for SentAccount<'_> {
    fn text(&mut self, names: Names) -> Option<String> {
        self.read(names, Header::text).map(str::to_owned)
    }

    fn secret(&mut self, names: Names) -> Option<Secret> {
        self.read(names, Header::text).map(Secret::new)
    }

    fn object(&mut self, names: Names) -> Option<Secret> {
        self.read(names, Header::json_object).map(Secret::new)
    }

    fn one_of<T: Copy>(&mut self, names: Names, words: &[(&str, T)]) -> Option<T> {
        self.read(names, |header| {
            let given = header.text()?;
            let found = words.iter().find(|(word, _)| *word == given);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                header.error(&format!("must be one of: {}", list.join(", ")))
            })
        })
    }
}

/// Whether a header's word is one of these config keys, written with dashes.
fn is_one_of(word: &str, names: Names) -> bool {
    let same = |name: &str| {
        name.len() == word.len()
            && name
                .bytes()
                .zip(word.bytes())
                .all(|(key, header)| header == if key == b'_' { b'-' } else { key })
    };
    names.iter().any(|name| same(name))
}
