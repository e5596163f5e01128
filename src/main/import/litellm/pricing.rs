//! Prices of a deployment, in LiteLLM dollars per token: entries of the overlay, in dollars per million.
//!
//! Decimal places are moved in the text, so that no price is rounded.

use super::super::cursor::InputAt;
use super::super::import::Import;
use super::super::tree::Tree;
use super::account::Params;
use words::config::node::NodeKind;

/// LiteLLM's names and the overlay's.
const PRICES: [(&str, &str); 6] = [
    ("input_cost_per_token", "input_mtok"),
    ("output_cost_per_token", "output_mtok"),
    ("output_cost_per_reasoning_token", "output_reasoning_mtok"),
    ("cache_read_input_token_cost", "cache_read_mtok"),
    ("cache_creation_input_token_cost", "cache_write_mtok"),
    ("input_cost_per_audio_token", "input_audio_mtok"),
];

/// Adds the prices of a deployment to the overlay. What a group by price needs of them, where there are both.
pub fn read(
    import: &mut Import,
    provider: &str,
    model: &str,
    entry: &InputAt<'_>,
    params: &Params<'_>,
) -> Option<Tree> {
    let info = entry.member("model_info");
    let find = |name: &str| params.own.member(name).or_else(|| info.as_ref()?.member(name));
    let model_name = format!("{provider}/{model}");
    let mut price = Tree::map();
    let mut places = Vec::new();
    let mut is_free = true;
    for (name, member) in PRICES {
        let Some(at) = find(name) else { continue };
        let Some(number) = number_text(&at).and_then(|text| times_million(&text)) else {
            import.findings.not_taken(&at, "is no price");
            continue;
        };
        is_free &= number == "0";
        price.set(member, Tree::Number(number));
        places.push(at);
    }
    if let Some(at) = info.as_ref().and_then(|info| info.member("base_model")) {
        let base = at.text().unwrap_or_default();
        let like = base.split_once('/').map_or(base.as_str(), |(_, model)| model);
        let of = Tree::of([("provider", Tree::text("openai")), ("model", Tree::text(like))]);
        if price.is_empty() && provider == "azure-openai" {
            price.set("like", of);
            is_free = false;
            places.push(at);
        } else {
            import
                .findings
                .not_taken(&at, "prices are those of the model that is requested (docs/prices.md)");
        }
    }
    if price.is_empty() {
        return None;
    }
    let of_group = match (price.member("input_mtok"), price.member("output_mtok")) {
        (Some(input), Some(output)) => Some(Tree::of([("input", input.clone()), ("output", output.clone())])),
        _ => None,
    };
    // What has no price here is not free: an input of 0 says nothing of the output.
    let is_free = is_free && of_group.is_some();
    let price = if is_free { Tree::of([("free", Tree::Flag(true))]) } else { price };
    let is_new = model.contains("${") || import.moved.price(&model_name, &price);
    for at in places {
        match is_new {
            true if model.contains("${") => import.findings.not_taken(&at, "the model is in a variable; write its price into prices.overlay by hand (docs/prices.md)"),
            true => import.findings.exact(&at, format!("prices.overlay, {model_name}")),
            false => import.findings.not_taken(&at, "another deployment of this model at this provider has another price; here a model has one at a provider (docs/prices.md)"),
        }
    }
    of_group
}

/// A number as it is written.
fn number_text(at: &InputAt<'_>) -> Option<String> {
    match &at.node.kind {
        NodeKind::Number(number) => Some(number.to_string()),
        NodeKind::Text(text) => Some(text.trim().to_owned()),
        _ => None,
    }
}

/// A decimal number times a million; `None`: it is none, or is negative.
fn times_million(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty()
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
        || !(-60..=20).contains(&exponent)
    {
        return None;
    }
    // Where the point stands among the digits.
    let point = i32::try_from(whole.len()).ok()? + exponent + 6;
    let missing = usize::try_from(-point).unwrap_or(0);
    let padded = format!("{}{digits}", "0".repeat(missing));
    let point = usize::try_from(point).unwrap_or(0);
    let padded = format!("{padded}{}", "0".repeat(point.saturating_sub(padded.len())));
    let (whole, fraction) = padded.split_at_checked(point)?;
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_price_is_rounded() {
        for (given, wanted) in [
            ("0.00000015", Some("0.15")),
            ("1.5e-7", Some("0.15")),
            ("0.000002", Some("2")),
            ("3e-06", Some("3")),
            ("0", Some("0")),
            ("0.0", Some("0")),
            ("1", Some("1000000")),
            ("0.0000000001", Some("0.0001")),
            ("-1", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(times_million(given).as_deref(), wanted, "{given}");
        }
    }
}
