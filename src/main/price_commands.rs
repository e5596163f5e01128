//! `turnpike prices`: shows prices, checks files of prices, compares catalogues.
//!
//! Uses the overlay and the catalogue file of the settings, if there are any; fetches nothing. What prices mean is
//! `knowledge::price`'s.

use super::command_line::PriceCommand;
use super::{logging, output, read};
use jiff::Timestamp;
use knowledge::price::{
    Catalog, Change, LICENCE, MAX_CATALOGUE_BYTES, Overlay, PriceBook, Rate, Rating, changes,
    check_replacement, money,
};
use memory::state::price_feed::{check_digest, digest, edition};
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use words::settings::CatalogueSource;

/// Runs a command on prices and prints the outcome.
pub fn run(file: &Path, command: PriceCommand) -> ExitCode {
    if let PriceCommand::Licence = command {
        return output::print(LICENCE.as_bytes());
    }
    let outcome = book(file).and_then(|book| match command {
        PriceCommand::Show { model: Some(model) } => show(&book, &model),
        PriceCommand::Show { model: None } => Ok(summary(&book)),
        PriceCommand::Check { file } => check(&book, &file),
        PriceCommand::Diff { file } => diff(&book, &file),
        PriceCommand::Licence => Ok(String::new()),
    });
    match outcome {
        Ok(text) => output::print(text.as_bytes()),
        Err(why) => logging::fatal(&why),
    }
}

/// The prices that a start with these settings has, except that a URL is not fetched.
fn book(file: &Path) -> Result<PriceBook, String> {
    let settings = read::sections(file, &["prices"]).map_err(|error| read::unusable(file, &error))?;
    let overlay = match &settings.prices.overlay {
        Some(path) => overlay(path)?,
        None => Overlay::default(),
    };
    let book = PriceBook::shipped(overlay);
    match &settings.prices.catalogue {
        Some(CatalogueSource::File(path)) => {
            let shown = |why: String| format!("{}: {why}", path.display());
            let text = bytes(path)?;
            check_digest(&text, settings.prices.sha256.as_deref()).map_err(shown)?;
            let catalog = Catalog::read(&text).map_err(shown)?;
            Ok(book.with_catalog(Arc::new(catalog), &edition(&text)))
        }
        Some(CatalogueSource::Url(_)) | None => Ok(book),
    }
}

/// A file of prices, which must not be larger than a catalogue may be.
fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.display();
    let file = std::fs::File::open(path).map_err(|why| format!("{name}: {why}"))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_CATALOGUE_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|why| format!("{name}: {why}"))?;
    if bytes.len() > MAX_CATALOGUE_BYTES {
        return Err(format!("{name}: it is over {MAX_CATALOGUE_BYTES} bytes"));
    }
    Ok(bytes)
}

fn overlay(path: &Path) -> Result<Overlay, String> {
    let text = String::from_utf8(bytes(path)?);
    let text = text.map_err(|_| format!("{}: it is no text in UTF-8", path.display()))?;
    let read = Overlay::read(&text);
    read.map_err(|problems| words::settings::report(&path.display().to_string(), &problems))
}

fn summary(book: &PriceBook) -> String {
    let catalog = book.catalog();
    let mut lines: Vec<String> =
        catalog.providers().map(|provider| format!("{} {}", provider.id, provider.models.len())).collect();
    lines.sort();
    format!(
        "version {}\nmodels {}\noverlay entries {}\n{}\n",
        book.version(),
        catalog.models(),
        book.overlay().len(),
        lines.join("\n")
    )
}

fn show(book: &PriceBook, name: &str) -> Result<String, String> {
    let (vendor, model) = split(name)?;
    let version = book.version();
    let card = match book.rating(vendor, model, None) {
        Rating::Priced(card) => card,
        Rating::Free => return Ok(format!("{name}: free (version {version})\n")),
        Rating::Unknown => {
            return Err(format!(
                "{name} has no price (version {version}). Give it one in the overlay (prices.overlay, docs/prices.md)"
            ));
        }
    };
    let mut text = format!(
        "{name}: priced as {} of the {} (version {version}, rates {:016x})\n",
        card.model,
        card.source.as_str(),
        card.hash()
    );
    let now = Timestamp::now();
    for (unit, rate) in card.rates(now).into_iter().flat_map(|rates| rates.iter()) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {} {}", unit.price_key(), rate_text(rate));
    }
    for (condition, rates) in card.special_rates(now) {
        let _ = writeln!(text, "  {condition}:");
        for (unit, rate) in rates.iter() {
            let _ = writeln!(text, "    {} {}", unit.price_key(), rate_text(rate));
        }
    }
    Ok(text)
}

fn split(name: &str) -> Result<(&str, &str), String> {
    let parts = name.split_once('/').filter(|(vendor, model)| !vendor.is_empty() && !model.is_empty());
    parts.ok_or_else(|| format!("{name} is no provider/model, such as openai/gpt-5"))
}

fn rate_text(rate: &Rate) -> String {
    let mut text = money::price_in_dollars(rate.base).to_string();
    for tier in &rate.tiers {
        let _ = write!(text, ", {} above {} input tokens", money::price_in_dollars(tier.price), tier.start);
    }
    text
}

/// A catalogue (JSON) or an overlay (YAML), by what it begins with.
fn check(book: &PriceBook, file: &Path) -> Result<String, String> {
    let name = file.display();
    let text = bytes(file)?;
    if !text.trim_ascii_start().starts_with(b"[") {
        let overlay = overlay(file)?;
        let warnings: String =
            read::overlay_warnings(&overlay).map(|warning| format!("{name}: warning: {warning}\n")).collect();
        return Ok(format!("{warnings}{name}: ok, an overlay with {} entries\n", overlay.len()));
    }
    let catalog = Catalog::read(&text).map_err(|why| format!("{name}: {why}"))?;
    check_replacement(book, &catalog, Timestamp::now()).map_err(|why| format!("{name}: {why}"))?;
    Ok(format!("{name}: ok, a catalogue with {} models, SHA-256 {}\n", catalog.models(), digest(&text)))
}

fn diff(book: &PriceBook, file: &Path) -> Result<String, String> {
    let name = file.display();
    let text = bytes(file)?;
    let catalog = Catalog::read(&text).map_err(|why| format!("{name}: {why}"))?;
    let mut lines = String::new();
    for (model, list) in changes(book.catalog(), &catalog, Timestamp::now()) {
        for change in list {
            let shown = |price: Option<u64>| {
                price.map_or("none".to_owned(), |price| money::price_in_dollars(price).to_string())
            };
            let line = match change {
                Change::Added => format!("+ {model}"),
                Change::Removed => format!("- {model}"),
                Change::Price { unit, before, after } => {
                    format!("~ {model} {} {} -> {}", unit.price_key(), shown(before), shown(after))
                }
                Change::Other => format!("~ {model} tiers, dates or variants"),
            };
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    Ok(lines)
}
