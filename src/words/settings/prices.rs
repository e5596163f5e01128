//! `prices`: the operator's own prices, and where a newer catalogue is from.
//!
//! Not here: what stands in the overlay (`price::Overlay`), and fetching a catalogue (`state::price_feed`).

use super::values::{base_url, count, file, non_empty};
use crate::config::read::{Cursor, ObjectReader};
use std::path::PathBuf;
use std::time::Duration;

/// How often a catalogue is read again where the settings do not say.
const REFRESH_HOURS: u64 = 24;

/// `prices`; all of it may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceSettings {
    pub overlay: Option<PathBuf>,
    /// `None`: the catalogue in the binary.
    pub catalogue: Option<CatalogueSource>,
    /// What the catalogue's SHA-256 must be, as lower-case hex digits; `None`: any.
    pub sha256: Option<String>,
    pub refresh_interval: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogueSource {
    File(PathBuf),
    Url(String),
}

impl Default for PriceSettings {
    fn default() -> Self {
        Self {
            overlay: None,
            catalogue: None,
            sha256: None,
            refresh_interval: Duration::from_secs(REFRESH_HOURS * 3_600),
        }
    }
}

impl PriceSettings {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let overlay = file(&mut fields, "overlay");
        let url = fields.get(&["url"]);
        let catalogue = match (url, file(&mut fields, "file")) {
            (Some(at), Some(_)) => {
                at.problem("give file or url, not both");
                None
            }
            (Some(at), None) => non_empty(&at).map(|url| {
                if let Err(why) = base_url(url) {
                    at.problem(why);
                }
                CatalogueSource::Url(url.to_owned())
            }),
            (None, path) => path.map(CatalogueSource::File),
        };
        let hours = count(&mut fields, "refresh_hours", 1, 8_760).and_then(|hours| u64::try_from(hours).ok());
        let sha256_at = fields.get(&["sha256"]);
        if let (Some(at), None) = (&sha256_at, &catalogue) {
            at.problem("needs the file or url whose digest it is");
        }
        let sha256 = sha256_at.and_then(|at| sha256(&at));
        fields.reject_unknown(&["overlay", "file", "url", "sha256", "refresh_hours"]);
        let refresh_interval = Duration::from_secs(hours.unwrap_or(REFRESH_HOURS) * 3_600);
        Self { overlay, catalogue, sha256, refresh_interval }
    }
}

fn sha256(at: &Cursor<'_>) -> Option<String> {
    let text = at.text()?;
    let is_digest = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_digest {
        at.problem("must be a SHA-256, 64 hex digits, as `turnpike prices check FILE` prints it");
    }
    is_digest.then(|| text.to_ascii_lowercase())
}
