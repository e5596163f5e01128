//! The account headers of a request: a config's account keys, written with dashes.
//!
//! Clients of Portkey send the values they have for all vendors at once. A header of one vendor, such
//! as `snowflake-account`, counts only when the request's provider is that vendor. Under the same prefix it
//! then takes precedence over the general header of the same field.

use super::RawHeader;
use crate::config::account::names::{CUSTOM_HOST, HEADER_FIELDS, Names};
use crate::config::account::{AccountSource, Variants};
use crate::config::secret::Secret;
use crate::error::Error;

/// Names that only one vendor uses for a general field, each with that vendor's provider id.
const VENDOR_FIELDS: &[(&str, &str)] = &[
    ("huggingface-base-url", "huggingface"),
    ("azure-foundry-url", "azure-ai"),
    ("cloud-c-foundry-url", "azure-ai"),
    ("workers-ai-account-id", "workers-ai"),
    ("databricks-workspace", "databricks"),
    ("snowflake-account", "snowflake"),
    ("fireworks-account-id", "fireworks-ai"),
];

/// The account headers as sent, not parsed, and the first error found in them.
#[derive(Default)]
pub(in crate::config::headers) struct RawAccountHeaders<'a> {
    found: Vec<(&'a str, RawHeader<'a>)>,
    /// The provider named by the request's provider header.
    pub(in crate::config::headers) provider: String,
    pub(in crate::config::headers) first_error: Option<Error>,
}

impl<'a> RawAccountHeaders<'a> {
    pub(in crate::config::headers) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Stores the header whose name after the prefix is `suffix`. Returns `false` when an account has no such
    /// field.
    pub(super) fn take(&mut self, suffix: &'a str, header: RawHeader<'a>) -> bool {
        let is_vendor_field = VENDOR_FIELDS.iter().any(|(own, _)| *own == suffix);
        let is_account_field = is_vendor_field || HEADER_FIELDS.iter().any(|names| is_one_of(suffix, names));
        if is_account_field {
            self.found.push((suffix, header));
        }
        is_account_field
    }

    /// The header that counts for a field: the one with the earliest prefix, and under the same prefix the
    /// vendor's own name before a general one.
    fn find(&mut self, names: Names) -> Option<RawHeader<'a>> {
        let mut best: Option<(usize, bool, RawHeader<'a>)> = None;
        for (suffix, header) in self.found.iter().filter(|(suffix, _)| is_one_of(suffix, names)) {
            let owner = VENDOR_FIELDS.iter().find(|(own, _)| own == suffix).map(|(_, provider)| *provider);
            // Only a vendor's own name counts for `custom_host` here: the general header has its own slot.
            if owner.is_some_and(|owner| owner != self.provider) || (owner.is_none() && names == CUSTOM_HOST)
            {
                continue;
            }
            let rank = header.rank;
            let general = owner.is_none();
            match &best {
                Some((first, plain, _)) if (*first, *plain) < (rank, general) => {}
                Some((first, plain, _)) if (*first, *plain) == (rank, general) => {
                    // Refused because choosing one of the two would be a guess that an attacker could
                    // exploit.
                    self.first_error.get_or_insert_with(|| {
                        header.error("is sent more than once, or under two of its names")
                    });
                }
                _ => best = Some((rank, general, *header)),
            }
        }
        best.map(|(_, _, header)| header)
    }

    fn read<T>(&mut self, names: Names, read: impl FnOnce(RawHeader<'a>) -> Result<T, Error>) -> Option<T> {
        match read(self.find(names)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.first_error.get_or_insert(error);
                None
            }
        }
    }
}

impl AccountSource for RawAccountHeaders<'_> {
    fn text(&mut self, names: Names, _doc: &str) -> Option<String> {
        self.read(names, RawHeader::text).map(str::to_owned)
    }

    fn secret(&mut self, names: Names, _doc: &str) -> Option<Secret> {
        self.read(names, RawHeader::text).map(Secret::new)
    }

    fn object(&mut self, names: Names, _doc: &str) -> Option<Secret> {
        self.read(names, RawHeader::json_object).map(Secret::new)
    }

    fn one_of<T: Copy>(&mut self, names: Names, variants: Variants<T>, _doc: &str) -> Option<T> {
        self.read(names, |header| {
            let given = header.text()?;
            let found = variants.iter().find(|(name, _)| *name == given);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let list: Vec<&str> = variants.iter().map(|(name, _)| *name).collect();
                header.error(&format!("must be one of: {}", list.join(", ")))
            })
        })
    }
}

/// Whether `suffix` is one of these config keys, written with dashes.
fn is_one_of(suffix: &str, names: Names) -> bool {
    let same = |name: &str| {
        name.len() == suffix.len()
            && name
                .bytes()
                .zip(suffix.bytes())
                .all(|(key, header)| header == if key == b'_' { b'-' } else { key })
    };
    names.iter().any(|name| same(name))
}
