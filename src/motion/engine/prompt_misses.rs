//! Why a provider's cache of prompts has read nothing of a request, where a config wants it to (`prompt_cache: auto`).
//!
//! Decided when the request is over, from what was sent and from the beginnings that were sent before. Not here: the memory of these
//! (`memory::state::sent_prompts`), and a comparison of two requests text by text (`GET /v1/logs/{id}/prompt-cache`).

use super::record::{RequestRecord, UsageSource};
use judgment::route::prompt_prefix::{PromptPrefix, SentPrompt, target_hash};
use knowledge::provider::prompt_cache::PromptCache;
use memory::state::sent_prompts::{SentBefore, SentPrompts};
use std::time::{Duration, Instant};
use words::config::policies::MarkTtl;

/// Bytes of text for each token of a provider's minimum, as for `strategy.by: prefix`.
const BYTES_PER_TOKEN: usize = 4;

/// A request of which nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptMiss {
    /// As a label of metrics.
    pub cause: &'static str,
    /// Its input.
    pub tokens: u64,
}

/// Remembers what a request has sent. Returns why nothing of it was read; `None`: some was, or it is not known.
pub(super) fn take(record: &RequestRecord, sent: &SentPrompts, now: Instant) -> Option<PromptMiss> {
    // The time of a vendor's batch job is not known.
    let attempt = record.routed.attempt.as_ref().filter(|_| !record.routed.is_batch)?;
    let target = &attempt.target;
    let ttl = target.policies.auto_marks().filter(|_| attempt.sent_operation.is_chat())?;
    let used = record.used().filter(|used| used.source == UsageSource::Reported)?;
    let prompt = SentPrompt::of(attempt.body.as_deref()?)?;
    let model = attempt.model.as_deref().unwrap_or_default();
    let provider = target.provider.id();
    let identity = target_hash(attempt);
    let started = now.checked_sub(record.times.total).unwrap_or(now);
    let conversation = [prompt.conversation];
    let beginning = [prompt.prefix.first_part()];
    let history = History {
        prompt: sent.find(prompt.prefix.blocks(), identity, started),
        conversation: sent.find(&conversation, identity, started),
        beginning: sent.find(&beginning, identity, started),
        min_tokens: PromptCache::find(provider, target.account.custom_host.is_some(), model).min_tokens,
    };
    sent.insert(prompt.prefix.blocks(), identity, now);
    sent.insert(&conversation, identity, now);
    sent.insert(&beginning, identity, now);
    let cause = history.cause(used.usage.input, ttl);
    (used.usage.cached == 0).then_some(PromptMiss { cause, tokens: used.usage.input })
}

/// What is known of a request when its response is there.
struct History {
    prompt: SentBefore,
    conversation: SentBefore,
    /// What stands before the first message of the user, whose end has a mark.
    beginning: SentBefore,
    min_tokens: u32,
}

impl History {
    fn cause(&self, input: u64, ttl: MarkTtl) -> &'static str {
        let is_long = |blocks: usize| {
            blocks > 0 && PromptPrefix::bytes_of(blocks) >= self.min_tokens as usize * BYTES_PER_TOKEN
        };
        let time = match ttl {
            MarkTtl::FiveMinutes => Duration::from_secs(300),
            MarkTtl::Hour => Duration::from_secs(3600),
        };
        if input < self.min_tokens.into() {
            return "below_minimum";
        }
        let is_sent = |sent: &SentBefore| sent.blocks.max(sent.blocks_elsewhere) > 0;
        match &self.prompt {
            // There is no mark before what has changed.
            sent if !is_sent(&self.beginning) && is_long(sent.blocks.max(sent.blocks_elsewhere)) => "changed",
            sent if is_long(sent.blocks) && sent.age > time => "time",
            sent if is_long(sent.blocks) => "unknown",
            sent if is_long(sent.blocks_elsewhere) => "other_target",
            _ if is_sent(&self.conversation) => "changed",
            _ => "first",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_case() {
        let sent = |blocks, seconds, blocks_elsewhere| SentBefore {
            blocks,
            age: Duration::from_secs(seconds),
            blocks_elsewhere,
        };
        let none = SentBefore::default();
        for (prompt, conversation, input, ttl, cause) in [
            (none, none, 5000, MarkTtl::FiveMinutes, "first"),
            (none, none, 1000, MarkTtl::FiveMinutes, "below_minimum"),
            (none, sent(1, 9, 0), 5000, MarkTtl::FiveMinutes, "changed"),
            (none, sent(0, 0, 1), 5000, MarkTtl::FiveMinutes, "changed"),
            // Three blocks are 3 KiB, which 1,024 tokens have more than.
            (sent(3, 9, 3), sent(1, 9, 1), 5000, MarkTtl::FiveMinutes, "changed"),
            (sent(3, 9, 4), sent(1, 9, 0), 5000, MarkTtl::FiveMinutes, "other_target"),
            (sent(4, 9, 9), sent(1, 9, 0), 5000, MarkTtl::FiveMinutes, "unknown"),
            (sent(4, 301, 0), sent(1, 301, 0), 5000, MarkTtl::FiveMinutes, "time"),
            (sent(4, 301, 0), sent(1, 301, 0), 5000, MarkTtl::Hour, "unknown"),
            (sent(4, 3601, 9), sent(1, 301, 0), 5000, MarkTtl::Hour, "time"),
        ] {
            let history = History { prompt, conversation, beginning: sent(1, 0, 0), min_tokens: 1024 };
            assert_eq!(history.cause(input, ttl), cause, "{prompt:?} {conversation:?} {input} {ttl:?}");
            // The end of the system prompt is another: nothing of it can be read.
            let changed = History { beginning: none, ..history };
            let wanted = if matches!(cause, "first" | "below_minimum") { cause } else { "changed" };
            assert_eq!(changed.cause(input, ttl), wanted, "{prompt:?} {conversation:?} {input} {ttl:?}");
        }
    }
}
