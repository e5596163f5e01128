//! How far a report of usage is believed: as far as the request could go.
//!
//! A provider that errs, or a host of the client's own, may report anything. What is more than the request could use is charged at that
//! bound, so that no report spends a budget by itself, and none takes more of a hard one than is held of it. Not here: what limits hold
//! (`usage_estimate`), and what a response reports (`attempt_usage`).

use super::record::{AttemptUsage, UsageSource};
use judgment::route::attempt::Attempt;
use knowledge::price::RequestPrices;
use knowledge::provider::translation::Translation;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::service_tier::ServiceTier;
use words::api::usage::Usage;
use words::api::{input_reach, responses, search_bounds};

/// The most tokens of input, and of output, that one call is believed to use where nothing else bounds it: the largest context that any
/// listed model has.
pub(super) const MOST_TOKENS: u64 = 10_000_000;
/// As many for a turn of a realtime session: several times the context of any listed model that has such sessions.
const MOST_OF_TURN: u64 = 131_072;
/// The most searches, and the most documents of a reranking, of such a call.
const MOST_SEARCHES: u64 = 1_000;
/// Output of a request without a bound that any model can have.
const SURE_OUTPUT: u64 = 4_096;
/// Tokens that vendors add to a request, of which its body shows nothing: instructions for tools, prompts of their own, what a model of
/// models reads. Of the recorded responses Groq's `compound-beta` has the most, 13,864.
const ADDED: u64 = 16_384;

/// The most that an attempt can have used, where its report says more than is sure.
#[derive(Debug, Clone)]
pub(super) struct UsageCeiling {
    input: Most,
    output: Most,
    searches: u64,
    reranked: u64,
}

/// The most tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Most {
    Of(u64),
    /// As many as the model has room for, or so many where that is not listed.
    Context(u64),
}

impl UsageCeiling {
    /// Of the attempt that reports this usage; `None`: it can have used that.
    pub fn of(attempt: &Attempt, usage: &Usage) -> Option<Box<Self>> {
        let translated = attempt.translation.as_ref().and_then(Translation::request);
        let own = translated.map(Body::bytes).or(attempt.body.as_ref());
        let bytes = own.map_or(0, |own| own.len() as u64);
        let output = attempt.most_output;
        if is_sure(usage, bytes, output) {
            return None;
        }
        let parsed = match (translated, own) {
            (Some(_), _) | (None, None) => None,
            (None, Some(bytes)) => {
                Some(Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes.clone())))
            }
        };
        Some(Box::new(Self::by_request(attempt, translated.or(parsed.as_ref()))))
    }

    fn by_request(attempt: &Attempt, body: Option<&Body>) -> Self {
        let operation = attempt.operation;
        let model = attempt.model.as_deref().unwrap_or_default();
        if operation == Operation::Realtime {
            // The whole conversation is the input of each of its turns.
            let context = Most::Context(MOST_OF_TURN);
            return Self { input: context, output: context, searches: MOST_SEARCHES, reranked: 0 };
        }
        let reach = body.map(|body| input_reach::of(operation, body));
        let input = match (reach, body) {
            (Some(input_reach::Reach::Visible), Some(body)) => {
                let bytes = body.bytes().len() + responses::added_bytes(operation, body);
                Most::Of((bytes as u64).saturating_add(ADDED))
            }
            (Some(input_reach::Reach::Referenced), _) => Most::Context(MOST_TOKENS),
            _ => Most::Of(MOST_TOKENS),
        };
        let searches = body.and_then(|body| search_bounds::bound(operation, body, model));
        Self {
            input,
            output: attempt.most_output.map_or(Most::Context(MOST_TOKENS), Most::Of),
            searches: searches.unwrap_or(MOST_SEARCHES).min(MOST_SEARCHES),
            reranked: MOST_SEARCHES,
        }
    }

    /// Lowers what was reported to it.
    pub fn apply(&self, used: &mut AttemptUsage, prices: &RequestPrices, vendor: &str, model: &str) {
        let tokens = |most: Most| match most {
            Most::Of(tokens) => tokens,
            Most::Context(unlisted) => prices.context_window(vendor, model).unwrap_or(unlisted),
        };
        let believed = self.believed(&used.usage, tokens(self.input), tokens(self.output));
        if believed != used.usage {
            used.usage = believed;
            used.source = UsageSource::Bounded;
        }
    }

    fn believed(&self, usage: &Usage, most_input: u64, most_output: u64) -> Usage {
        let input = usage.input.min(most_input);
        let output = usage.output.min(most_output);
        let cached = usage.cached.min(input);
        let cache_write = usage.cache_write.min(input.saturating_sub(cached));
        let total = if (input, output) == (usage.input, usage.output) {
            usage.total
        } else {
            input.saturating_add(output)
        };
        Usage {
            input,
            output,
            total,
            cached,
            cache_write,
            cache_write_1h: usage.cache_write_1h.min(cache_write),
            reasoning: usage.reasoning.min(output),
            input_audio: usage.input_audio.min(input),
            output_audio: usage.output_audio.min(output),
            input_image: usage.input_image.min(input),
            output_image: usage.output_image.min(output),
            input_video: usage.input_video.min(input),
            cached_audio: usage.cached_audio.min(cached),
            cached_image: usage.cached_image.min(cached),
            web_searches: usage.web_searches.min(self.searches),
            rerank_searches: usage.rerank_searches.min(self.reranked),
            characters: usage.characters.min(most_input),
        }
    }
}

/// The service tier that a response is charged at: none that is dearer than the one that the request names. Where it names none, or leaves
/// it to the provider, that of the report.
pub(super) fn served_tier(attempt: &Attempt, reported: Option<ServiceTier>) -> Option<ServiceTier> {
    reported.filter(|tier| attempt.tier_bound.is_none() || tier.is_ordinary())
}

/// Whether any request of so many bytes with this bound of its output may use that.
fn is_sure(usage: &Usage, bytes: u64, output: Option<u64>) -> bool {
    let read =
        [usage.input_audio, usage.input_image, usage.input_video, usage.cached_audio, usage.cached_image];
    let written = [usage.reasoning, usage.output_audio, usage.output_image];
    usage.input <= bytes
        && usage.characters <= bytes
        && usage.cached.saturating_add(usage.cache_write) <= usage.input
        && usage.cache_write_1h <= usage.cache_write
        && read.iter().all(|part| *part <= usage.input)
        && usage.output <= output.unwrap_or(SURE_OUTPUT)
        && written.iter().all(|part| *part <= usage.output)
        && usage.web_searches == 0
        && usage.rerank_searches <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{Method, Uri};
    use judgment::route::admission::Endpoint;
    use judgment::route::attempt::Request;
    use judgment::route::compile::{Sources, compile};
    use knowledge::price::PriceBook;
    use memory::state::snapshot::SettingsSnapshot;
    use std::sync::Arc;
    use words::config::Checks;
    use words::config::headers::GatewayHeaders;
    use words::settings::{SecretSources, Settings};

    fn attempt(body: &str) -> Attempt {
        attempt_at(&Method::POST, "/v1/chat/completions", Some(body))
    }

    fn attempt_at(method: &Method, path: &'static str, body: Option<&str>) -> Attempt {
        let checks = Checks::NONE;
        let secrets = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let snapshot = SettingsSnapshot::new(Settings::parse("{}", &secrets, &checks).unwrap(), 0);
        let uri = Uri::from_static(path);
        let endpoint = Endpoint::find(method, uri.path());
        let body = body.map(|body| Body::parse(Bytes::from(body.to_owned())).unwrap());
        let request = Request::new(endpoint, method.clone(), uri, body);
        let headers = GatewayHeaders { provider: Some("openai"), ..GatewayHeaders::default() };
        let config = compile(&Sources::new(&snapshot, &headers, Some("k"), &request, None)).unwrap();
        Attempt::new(Arc::clone(&config.targets()[0]), &request).unwrap()
    }

    /// Input, output and searches of what is charged for this report.
    fn charged(body: &str, usage: Usage) -> (Usage, UsageSource) {
        charged_by(&attempt(body), "gpt-4o", usage)
    }

    fn charged_by(attempt: &Attempt, model: &str, usage: Usage) -> (Usage, UsageSource) {
        let model = attempt.model.as_deref().unwrap_or(model);
        let mut used = AttemptUsage { usage, source: UsageSource::Reported, ..AttemptUsage::unmeasured() };
        let prices = RequestPrices::new(Arc::new(PriceBook::default()));
        if let Some(ceiling) = UsageCeiling::of(attempt, &usage) {
            ceiling.apply(&mut used, &prices, "openai", model);
        }
        (used.usage, used.source)
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, total: input + output, ..Usage::default() }
    }

    #[test]
    fn a_report_is_believed_as_far_as_the_request_could_go() {
        let most = 1_000_000_000_000;
        let plain =
            r#"{"model":"gpt-4o","max_tokens":10,"n":3,"messages":[{"role":"user","content":"Hello"}]}"#;
        let bytes = plain.len() as u64;
        let unbounded = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}"#;
        let image = r#"{"model":"gpt-4o","max_tokens":0,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]}]}"#;
        let unlisted = image.replace("gpt-4o", "of-nobody");
        let hosted = unbounded.replace("\"messages\"", "\"web_search_options\":{},\"messages\"");
        let window = 128_000;
        for (body, reported, input, output) in [
            (plain, usage(bytes, 30), bytes, 30),
            (plain, usage(bytes + 1, 31), bytes + 1, 30),
            (plain, usage(most, most), bytes + ADDED, 30),
            (unbounded, usage(5, 100_000), 5, 100_000),
            (unbounded, usage(5, most), 5, window),
            (image, usage(100_000, 5), 100_000, 5),
            (image, usage(most, most), window, window),
            (unlisted.as_str(), usage(most, most), MOST_TOKENS, MOST_TOKENS),
            (hosted.as_str(), usage(500_000, 5), 500_000, 5),
            (hosted.as_str(), usage(most, 5), MOST_TOKENS, 5),
        ] {
            let (found, source) = charged(body, reported);
            assert_eq!((found.input, found.output), (input, output), "{body} {reported:?}");
            assert_eq!(source == UsageSource::Bounded, found != reported, "{body} {reported:?}");
            assert_eq!(found.total, input + output, "{body} {reported:?}");
        }
    }

    #[test]
    fn a_turn_of_a_session_reads_and_writes_no_more_than_its_model_has_room_for() {
        let most = 1_000_000_000_000;
        let mut session = attempt_at(&Method::GET, "/v1/realtime?model=gpt-realtime", None);
        for (model, room) in [("gpt-4o", 128_000), ("of-nobody", MOST_OF_TURN)] {
            session.model = Some(model.into());
            let (found, source) = charged_by(&session, model, usage(most, most));
            assert_eq!((found.input, found.output, source), (room, room, UsageSource::Bounded), "{model}");
            assert_eq!(charged_by(&session, model, usage(5_000, 4_000)).1, UsageSource::Reported);
        }
    }

    #[test]
    fn a_generic_path_is_believed_as_far_as_the_model_has_room() {
        let most = 1_000_000_000_000;
        let body = r#"{"model":"gpt-4o","max_tokens":10,"messages":[{"role":"user","content":"Hello"}]}"#;
        let attempt = attempt_at(&Method::POST, "/v1/proxy/v1/chat/completions", Some(body));
        assert_eq!(charged_by(&attempt, "gpt-4o", usage(most, 5)).0.input, 128_000);
    }

    #[test]
    fn no_response_is_served_at_a_dearer_tier_than_was_requested() {
        let body = |more: &str| format!(r#"{{"model":"gpt-4o",{more}"messages":[]}}"#);
        for (requested, reported, charged) in [
            ("", "priority", Some("priority")),
            (r#""service_tier":"auto","#, "priority", Some("priority")),
            (r#""service_tier":"priority","#, "priority", Some("priority")),
            (r#""service_tier":"flex","#, "priority", None),
            (r#""service_tier":"default","#, "fast", None),
            (r#""service_tier":"default","#, "flex", Some("flex")),
            (r#""service_tier":"standard_only","speed":"fast","#, "fast", Some("fast")),
            (r#""service_tier":"flex","service_tier":"priority","#, "priority", Some("priority")),
            (r#""service_tier":"flex","service_tie\u0072":"priority","#, "priority", Some("priority")),
        ] {
            let tier = served_tier(&attempt(&body(requested)), ServiceTier::new(reported));
            assert_eq!(tier.as_deref(), charged, "{requested} {reported}");
        }
    }

    #[test]
    fn no_part_of_a_report_is_more_than_the_whole() {
        let body = r#"{"model":"gpt-4o","max_tokens":10,"messages":[{"role":"user","content":"Hello"}]}"#;
        let parts = Usage {
            cached: 7,
            cache_write: 8,
            cache_write_1h: 9,
            reasoning: 11,
            input_audio: 50,
            web_searches: 4,
            ..usage(10, 5)
        };
        let (found, source) = charged(body, parts);
        assert_eq!(source, UsageSource::Bounded);
        let wanted = Usage {
            cached: 7,
            cache_write: 3,
            cache_write_1h: 3,
            reasoning: 5,
            input_audio: 10,
            ..usage(10, 5)
        };
        assert_eq!(found, wanted, "no tool of the request searches");
        let most = Usage { web_searches: u64::MAX, ..usage(10, 5) };
        let hosted = body.replace("\"messages\"", "\"web_search_options\":{},\"messages\"");
        assert_eq!(charged(&hosted, most).0.web_searches, MOST_SEARCHES);
    }
}
