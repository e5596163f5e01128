//! `prices`: the operator's own prices, and where a newer catalogue is from.
//!
//! Not here: what stands in the overlay (`price::Overlay`), and fetching a catalogue (`state::price_feed`).

use super::values::http_url;
use crate::config::members::{FILE, Form, MemberTable, Time, form};
use crate::json::schema::pattern;
use std::path::PathBuf;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

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
        Self { overlay: None, catalogue: None, sha256: None, refresh_interval: HOUR * 24 }
    }
}

const URL: Form<String> =
    form(http_url, |doc| pattern(doc, "^https?://.", &["https://prices.internal/data.json"]));

/// As lower-case hex digits.
const SHA256: Form<String> = form(
    |at| {
        let text = at.text()?;
        let is_digest = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_digest {
            at.problem("must be a SHA-256, 64 hex digits, as `turnpike prices check FILE` prints it");
        }
        is_digest.then(|| text.to_ascii_lowercase())
    },
    |doc| {
        pattern(
            doc,
            "^[0-9A-Fa-f]{64}$",
            &["abababababababababababababababababababababababababababababababab"],
        )
    },
);

impl PriceSettings {
    pub(super) const DOC: &str =
        "What models cost (docs/prices.md). Prices of many models come with the binary.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let overlay = table.get(
            "overlay",
            FILE,
            "A YAML file with prices of your own, which go before the catalogue's.",
        );
        let file = table.get(
            "file",
            FILE,
            "A catalogue in place of the one in the binary, read again every refresh_hours.",
        );
        let url = table.get("url", URL, "Where such a catalogue is fetched from.");
        let sha256 = table.get(
            "sha256",
            SHA256,
            "The SHA-256 of the only catalogue to take from there, as `turnpike prices check FILE` prints it.",
        );
        let refresh_interval = table.get(
            "refresh_hours",
            Time::new(3_600_000, 1, 8_760),
            "How often it is read again. Default: 24.",
        );
        let catalogue = match (url, file) {
            (_, Some(_)) if table.at("url").is_some() => {
                table.problem("url", "give file or url, not both");
                None
            }
            (url, file) => url.map(CatalogueSource::Url).or(file.map(CatalogueSource::File)),
        };
        if catalogue.is_none() {
            table.problem("sha256", "needs the file or url whose digest it is");
        }
        let refresh_interval = refresh_interval.unwrap_or(Self::default().refresh_interval);
        Some(Self { overlay, catalogue, sha256, refresh_interval })
    }
}
