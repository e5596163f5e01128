//! `prices`: the operator's own prices, and where a newer catalogue is from.
//!
//! Not here: what stands in the overlay (`price::Overlay`), and fetching a catalogue (`state::price_feed`).

use super::values::{base_url, count, file, non_empty};
use crate::config::read::ObjectReader;
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
    pub refresh_interval: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogueSource {
    File(PathBuf),
    Url(String),
}

impl Default for PriceSettings {
    fn default() -> Self {
        Self { overlay: None, catalogue: None, refresh_interval: Duration::from_secs(REFRESH_HOURS * 3_600) }
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
        fields.reject_unknown(&["overlay", "file", "url", "refresh_hours"]);
        let refresh_interval = Duration::from_secs(hours.unwrap_or(REFRESH_HOURS) * 3_600);
        Self { overlay, catalogue, refresh_interval }
    }
}
