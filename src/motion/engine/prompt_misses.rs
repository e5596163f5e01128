//! Why a provider's cache of prompts has read nothing of a request, where a config wants it to (`prompt_cache: auto`).
//!
//! Decided when the request is over, from what was sent and from the beginnings that were sent before. Not here: the memory of these
//! (`memory::state::sent_prompts`), and a comparison of two requests text by text (`GET /v1/logs/{id}/prompt-cache`).

use super::record::{RequestRecord, UsageSource};
use judgment::route::prompt_prefix::{PromptPrefix, SentPrompt, target_hash};
use knowledge::provider::prompt_cache::PromptCache;
use memory::state::sent_prompts::{SentBefore, SentPrompts};
use std::time::{Duration, Instant};

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
    target.policies.auto_marks().filter(|_| attempt.sent_operation.is_chat())?;
    let used = record.used().filter(|used| used.source == UsageSource::Reported)?;
    let prompt = SentPrompt::of(attempt.body.as_deref()?)?;
    let model = attempt.model.as_deref().unwrap_or_default();
    let provider = target.provider.id();
    let identity = target_hash(attempt);
    let started = now.checked_sub(record.times.total).unwrap_or(now);
    let conversation = [prompt.conversation];
    let beginning = [prompt.prefix.first_part()];
    // A key of its own beside that of the conversation.
    let kept_longer = [!prompt.conversation];
    let history = History {
        prompt: sent.find(prompt.prefix.blocks(), identity, started),
        conversation: sent.find(&conversation, identity, started),
        beginning: sent.find(&beginning, identity, started),
        kept_longer: sent.find(&kept_longer, identity, started),
        min_tokens: PromptCache::find(provider, target.account.custom_host.is_some(), model).min_tokens,
        is_kept_longer: prompt.prefix.is_kept_longer,
    };
    sent.insert(prompt.prefix.blocks(), identity, now);
    sent.insert(&conversation, identity, now);
    sent.insert(&beginning, identity, now);
    if prompt.prefix.is_kept_longer {
        sent.insert(&kept_longer, identity, now);
    }
    let cause = history.cause(used.usage.input);
    (used.usage.cached == 0).then_some(PromptMiss { cause, tokens: used.usage.input })
}

/// What is known of a request when its response is there.
struct History {
    prompt: SentBefore,
    conversation: SentBefore,
    /// What stands before the first message of the user, whose end has a mark.
    beginning: SentBefore,
    /// The last turn of the conversation whose marks were for an hour.
    kept_longer: SentBefore,
    min_tokens: u32,
    /// The marks of this request are for an hour.
    is_kept_longer: bool,
}

impl History {
    /// How long the provider has kept what it got of the conversation: by the marks of its last turn, and by those of this request where
    /// another conversation has brought the prompt there.
    fn kept(&self) -> Duration {
        let was_last = self.kept_longer.blocks > 0 && self.kept_longer.age <= self.conversation.age;
        let is_longer = if self.conversation.blocks > 0 { was_last } else { self.is_kept_longer };
        Duration::from_secs(if is_longer { 3600 } else { 300 })
    }

    fn cause(&self, input: u64) -> &'static str {
        let is_long = |blocks: usize| {
            blocks > 0 && PromptPrefix::bytes_of(blocks) >= self.min_tokens as usize * BYTES_PER_TOKEN
        };
        if input < self.min_tokens.into() {
            return "below_minimum";
        }
        let is_sent = |sent: &SentBefore| sent.blocks.max(sent.blocks_elsewhere) > 0;
        match &self.prompt {
            // There is no mark before what has changed.
            sent if !is_sent(&self.beginning) && is_long(sent.blocks.max(sent.blocks_elsewhere)) => "changed",
            sent if is_long(sent.blocks) && sent.age > self.kept() => "time",
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
        let hour = |seconds| Some(sent(1, seconds, 0));
        for (prompt, conversation, input, kept_longer, cause) in [
            (none, none, 5000, None, "first"),
            (none, none, 1000, None, "below_minimum"),
            (none, sent(1, 9, 0), 5000, None, "changed"),
            (none, sent(0, 0, 1), 5000, None, "changed"),
            // Three blocks are 3 KiB, which 1,024 tokens have more than.
            (sent(3, 9, 3), sent(1, 9, 1), 5000, None, "changed"),
            (sent(3, 9, 4), sent(1, 9, 0), 5000, None, "other_target"),
            (sent(4, 9, 9), sent(1, 9, 0), 5000, None, "unknown"),
            (sent(4, 301, 0), sent(1, 301, 0), 5000, None, "time"),
            (sent(4, 301, 0), sent(1, 301, 0), 5000, hour(301), "unknown"),
            (sent(4, 3601, 9), sent(1, 3601, 0), 5000, hour(3601), "time"),
            // A turn for an hour, and later one for five minutes.
            (sent(4, 400, 0), sent(1, 400, 0), 5000, hour(900), "time"),
        ] {
            let history = History {
                prompt,
                conversation,
                beginning: sent(1, 0, 0),
                kept_longer: kept_longer.unwrap_or_default(),
                min_tokens: 1024,
                is_kept_longer: true,
            };
            assert_eq!(history.cause(input), cause, "{prompt:?} {conversation:?} {input} {kept_longer:?}");
            // The end of the system prompt is another: nothing of it can be read.
            let changed = History { beginning: none, ..history };
            let wanted = if matches!(cause, "first" | "below_minimum") { cause } else { "changed" };
            assert_eq!(changed.cause(input), wanted, "{prompt:?} {conversation:?} {input} {kept_longer:?}");
        }
        // Another conversation has brought the prompt: its marks are taken to be as those of this one.
        let of_other = |is_kept_longer| History {
            prompt: sent(4, 400, 0),
            conversation: none,
            beginning: sent(1, 400, 0),
            kept_longer: none,
            min_tokens: 1024,
            is_kept_longer,
        };
        assert_eq!([false, true].map(|longer| of_other(longer).cause(5000)), ["time", "unknown"]);
    }
}
