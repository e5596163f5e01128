//! The shipped catalogue, held against the crate it is from: 10,000 random usages of all models, the same to the nanodollar.

use super::vendors::catalogue_provider;
use super::*;
use genai_prices::{Calculator, PriceRequest, Usage as OracleUsage};
use jiff::Timestamp;
use serde_json::Value;
use std::io::Read;
use std::time::SystemTime;
use words::api::model_facts::ModelFacts;
use words::api::usage::Usage;

/// The moments at which prices are compared: before, between and after the dates of the data, at several times of day.
const MOMENTS: [i64; 5] = [1_735_700_000, 1_757_000_000, 1_767_250_000, 1_792_000_000, 1_800_012_345];

fn shipped_json() -> Value {
    let mut text = Vec::new();
    let data: &[u8] = include_bytes!("data/genai-prices.json.gz");
    flate2::read::GzDecoder::new(data).read_to_end(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Provider and model of every entry.
fn entries() -> Vec<(String, String)> {
    let json = shipped_json();
    let text = |value: &Value| value["id"].as_str().unwrap().to_owned();
    let models = |provider: &Value| -> Vec<(String, String)> {
        let id = text(provider);
        provider["models"].as_array().unwrap().iter().map(|model| (id.clone(), text(model))).collect()
    };
    json.as_array().unwrap().iter().flat_map(models).collect()
}

/// A usage as a provider could report it, with all parts within what contains them.
fn random_usage(random: &mut fastrand::Rng) -> Usage {
    let sizes = [0, 1, 17, 900, 130_000, 250_000, 1_100_000];
    let mut part = |whole: u64| if random.u8(0..3) == 0 { random.u64(0..=whole) } else { 0 };
    let size = usize::try_from(part(6) % 7).unwrap();
    let input = part(sizes[size]) + part(300_000);
    let cached = part(input);
    let cache_write = part(input - cached);
    let input_audio = part(input - cached - cache_write);
    let input_image = part(input - cached - cache_write - input_audio);
    let output = part(sizes[4]);
    let output_audio = part(output);
    let output_image = part(output - output_audio);
    let reasoning = part(output - output_audio - output_image);
    Usage {
        input,
        output,
        total: input + output,
        cached,
        cache_write,
        cache_write_1h: part(cache_write),
        reasoning,
        input_audio,
        output_audio,
        input_image,
        output_image,
        input_video: part(input - cached - cache_write - input_audio - input_image),
        cached_audio: 0,
        cached_image: 0,
        web_searches: part(9),
        rerank_searches: part(3),
        characters: 0,
    }
}

fn oracle_usage(usage: &Usage) -> OracleUsage {
    let mut counts = OracleUsage::new();
    for (key, count) in [
        ("input_tokens", usage.input),
        ("output_tokens", usage.output),
        ("cache_read_tokens", usage.cached),
        ("cache_write_tokens", usage.cache_write),
        ("cache_write_1h_tokens", usage.cache_write_1h),
        ("output_reasoning_tokens", usage.reasoning),
        ("input_audio_tokens", usage.input_audio),
        ("output_audio_tokens", usage.output_audio),
        ("input_image_tokens", usage.input_image),
        ("output_image_tokens", usage.output_image),
        ("input_video_tokens", usage.input_video),
        ("cache_audio_read_tokens", usage.cached_audio),
        ("cache_image_read_tokens", usage.cached_image),
        ("web_searches", usage.web_searches),
        ("rerank_searches", usage.rerank_searches),
    ] {
        counts.insert(key, count as f64);
    }
    counts
}

/// Whether tokens were used for whose kind the model has no general price: the crate counts them as nothing.
fn lacks_a_price(card: &RateCard, usage: &Usage) -> bool {
    let lacks = |unit| {
        MOMENTS.iter().any(|second| {
            let rates = card.rates(Timestamp::from_second(*second).unwrap());
            rates.is_none_or(|rates| rates.get(unit).is_none())
        })
    };
    (usage.input > 0 && lacks(Unit::Input)) || (usage.output > 0 && lacks(Unit::Output))
}

#[test]
fn ten_thousand_random_usages_cost_what_the_crate_calculates() {
    let book = PriceBook::default();
    let oracle = Calculator::bundled();
    let entries = entries();
    let mut random = fastrand::Rng::with_seed(15);
    let mut compared = 0;
    let mut unknown = 0;
    for number in 0.. {
        if compared == 10_000 {
            break;
        }
        // Every model at least four times.
        let (provider, model) = &entries[number % entries.len()];
        let usage = random_usage(&mut random);
        let at = Timestamp::from_second(MOMENTS[random.usize(..MOMENTS.len())]).unwrap();
        let tier =
            [None, None, Some("flex"), Some("priority"), Some("default"), Some("bogus")][random.usize(..6)];
        let is_batch = random.u8(0..4) == 0;
        let counts = oracle_usage(&usage);
        let mut request =
            PriceRequest::new(model, &counts).with_provider_id(provider).with_timestamp(SystemTime::from(at));
        if let Some(tier) = tier {
            request = request.with_price_context("service_tier", tier);
        }
        if is_batch {
            request = request.with_price_context("processing", "batch");
        }
        // A few entries have rules that do not match their own id.
        let Ok(expected) = oracle.calculate(&request) else { continue };
        let found = book.catalog().find(provider, model).unwrap();
        let what = || format!("{provider}/{model} {usage:?} at {at} {tier:?} batch {is_batch}: {expected:?}");
        match found.card.cost(&usage, tier, is_batch, at) {
            Some(nanodollars) => {
                compared += 1;
                // The crate sums floats, and does not round prices to millionths of a dollar a million tokens.
                let tokens = (usage.input + usage.output) as f64;
                let tolerance = 0.51e-9 + expected.total_price * 1e-12 + tokens * 0.5e-12;
                let difference = (money::dollars(nanodollars) - expected.total_price).abs();
                assert!(difference <= tolerance, "{nanodollars} is not right for {}", what());
            }
            None => {
                unknown += 1;
                let is_partly_priced = lacks_a_price(&found.card, &usage);
                assert!(expected.total_price == 0.0 || is_partly_priced, "is not unknown: {}", what());
            }
        }
    }
    assert!(unknown > 1_000, "{unknown} usages had nothing with a price");
}

#[test]
fn names_mean_what_they_mean_to_the_crate() {
    let book = PriceBook::default();
    let oracle = Calculator::bundled();
    let usage = OracleUsage::new();
    let changes: [fn(&str) -> String; 7] = [
        |model| model.to_owned(),
        |model| model.to_uppercase(),
        |model| format!(" {model} "),
        |model| format!("{model}-20250807"),
        |model| format!("{model}-2025-08-07"),
        |model| format!("eu.{model}"),
        |model| format!("{model}-tts"),
    ];
    let mut found = 0;
    let mut missing = 0;
    for (provider, model) in entries() {
        for change in changes {
            let name = change(&model);
            let ours = book.catalog().find(&provider, &name).map(|found| found.card.model.to_string());
            let request = PriceRequest::new(name.trim(), &usage).with_provider_id(&provider);
            let theirs = oracle.calculate(&request).ok().map(|price| price.model_id);
            found += u32::from(theirs.is_some());
            missing += u32::from(theirs.is_none());
            assert_eq!(ours, theirs, "{provider} {name}");
        }
    }
    assert!(found > 4_000 && missing > 2_000, "{found} {missing}");
}

#[test]
fn every_vendor_of_the_map_is_in_the_catalogue() {
    let book = PriceBook::default();
    let ids: Vec<Box<str>> = book.catalog().providers().map(|provider| provider.id.clone()).collect();
    for vendor in [
        "openai",
        "anthropic",
        "azure-openai",
        "azure-ai",
        "bedrock",
        "vertex-ai",
        "google",
        "mistral-ai",
        "together-ai",
        "fireworks-ai",
        "perplexity-ai",
        "novita-ai",
        "workers-ai",
        "moonshot",
        "z-ai",
        "zhipu",
        "voyage",
        "cohere",
        "deepseek",
        "groq",
        "x-ai",
        "openrouter",
        "cerebras",
        "minimax",
        "ovhcloud",
        "databricks",
    ] {
        let (provider, _) = catalogue_provider(vendor, "m");
        assert!(ids.iter().any(|id| **id == *provider), "{vendor}");
    }
    assert_eq!((book.catalog().models(), ids.len()), (2_267, 47));
    assert!(LICENCE.contains("MIT License"));
}

fn charge<'a>(vendor: &'static str, model: &'a str, usage: &'a Usage) -> Charge<'a> {
    let at = Timestamp::from_second(MOMENTS[3]).unwrap();
    Charge { vendor, model, response_model: None, own: None, usage, service_tier: None, is_batch: false, at }
}

#[test]
fn a_cost_is_priced_free_or_unknown() {
    let book = PriceBook::default();
    let usage = Usage { input: 1_000, output: 100, ..Usage::default() };
    let cost = |charge: Charge<'_>| book.cost(&charge);
    let priced = cost(charge("openai", "gpt-4o", &usage));
    assert_eq!((priced.nanodollars, priced.status), (Some(3_500_000), CostStatus::Priced));
    assert_eq!(&*priced.price_version, SHIPPED_VERSION);
    assert_ne!(priced.rates_hash, 0);
    for (vendor, model) in [
        ("openai", "no-such-model"),
        ("ollama", "llama3"),
        ("openai", "whisper-1"),
        ("openai", "ft:gpt-4o-mini:org::id"),
        ("azure-openai", "my-deployment"),
    ] {
        let unknown = cost(charge(vendor, model, &usage));
        assert_eq!((unknown.nanodollars, unknown.status), (None, CostStatus::Unknown), "{vendor}/{model}");
    }
    let free = cost(charge("openrouter", "deepseek-chat-v3-0324:free", &usage));
    assert_eq!((free.nanodollars, free.status), (Some(0), CostStatus::Free));
    let by_response = Charge {
        response_model: Some("gpt-4o-2024-08-06"),
        ..charge("azure-openai", "my-deployment", &usage)
    };
    assert_eq!(cost(by_response).nanodollars, Some(3_500_000));
}

#[test]
fn the_overlay_is_before_the_catalogue() {
    let text = "ollama/*: {free: true}\nopenai/gpt-4o: {input_mtok: 1, output_mtok: 1}\n\
        openai/ft:gpt-4o*: {like: gpt-4o-mini, multiplier: 2}\nazure-openai/deploy: {like: {provider: openai, model: gpt-4o}}\n\
        anthropic/*: {multiplier: 0.5}\nopenai/loop: {like: loop}\nopenai/nowhere: {like: no-such-model}\n";
    let book = PriceBook::shipped(Overlay::read(text).unwrap());
    let usage = Usage { input: 1_000_000, ..Usage::default() };
    let dollars = |vendor, model| book.cost(&charge(vendor, model, &usage)).nanodollars.map(money::dollars);
    assert_eq!(book.cost(&charge("ollama", "llama3", &usage)).status, CostStatus::Free);
    assert_eq!(dollars("openai", "gpt-4o"), Some(1.0));
    assert_eq!(dollars("openai", "gpt-4o-mini"), Some(0.15));
    assert_eq!(dollars("openai", "ft:gpt-4o-mini:org::x"), Some(0.3));
    assert_eq!(dollars("azure-openai", "deploy"), Some(1.0));
    let standard = PriceBook::default();
    let claude = charge("anthropic", "claude-sonnet-4-5", &usage);
    let whole = standard.cost(&claude);
    let half = book.cost(&claude);
    assert_eq!(whole.nanodollars.map(|cost| cost / 2), half.nanodollars);
    assert_ne!(whole.rates_hash, half.rates_hash);
    assert_eq!(dollars("openai", "loop"), None);
    assert_eq!(dollars("openai", "nowhere"), None);
    assert!(book.version().starts_with("genai-prices-0.2.1+"));
    assert_eq!(book.rating("openai", "gpt-4o", None).card().unwrap().source, PriceSource::Overlay);
}

#[test]
fn a_model_is_described_by_its_provider_then_by_the_catalogue() {
    let book = PriceBook::default();
    let at = Timestamp::from_second(MOMENTS[3]).unwrap();
    let described = |vendor: &str, model: &str, mut facts: ModelFacts| {
        book.describe(vendor, model, None, at, &mut facts);
        facts
    };
    let found = described("openai", "gpt-4o-mini", ModelFacts::default());
    assert_eq!(found.context_window, Some(128_000));
    let prices = found.prices.unwrap();
    assert_eq!((&prices["input"], &prices["output"]), (&Value::from(0.15), &Value::from(0.6)));
    let own = ModelFacts { context_window: Some(7), ..ModelFacts::default() };
    assert_eq!(described("openai", "gpt-4o-mini", own.clone()).context_window, Some(7));
    assert_eq!(described("openai", "no-such-model", ModelFacts::default()), ModelFacts::default());
    assert!(book.models_in_use().is_empty(), "a list is no use");
}
