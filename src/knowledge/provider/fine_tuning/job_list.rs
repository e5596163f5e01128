//! Lists of jobs, events and checkpoints, cut to the page that the client requests.
//!
//! Vendors page by tokens or numbers, OpenAI by the last item of the page before. As nothing is kept between requests, each
//! list is read from its beginning, as many items as the vendor sends at once, and cut here.

use super::job::{Checkpoint, JobEvent, TuningJob};
use super::job_call::TuningCall;
use serde::Serialize;
use words::api::chat::ProviderError;

/// What a vendor sent.
#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// There are more items, which were not sent.
    pub is_partial: bool,
}

/// An item of a list.
pub trait Listed: Serialize {
    fn id(&self) -> &str;
    /// What the list is sorted by, the greatest first.
    fn rank(&self) -> u64;
}

impl Listed for TuningJob {
    fn id(&self) -> &str {
        &self.id
    }

    fn rank(&self) -> u64 {
        self.created_at
    }
}

impl Listed for JobEvent {
    fn id(&self) -> &str {
        &self.id
    }

    fn rank(&self) -> u64 {
        self.created_at
    }
}

impl Listed for Checkpoint {
    fn id(&self) -> &str {
        &self.id
    }

    fn rank(&self) -> u64 {
        self.step_number
    }
}

#[derive(Serialize)]
struct ListOut<'a, T> {
    object: &'static str,
    data: &'a [T],
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
    has_more: bool,
}

/// Writes the page that the client requests. `limit`: how many items it gets without a limit of its own.
///
/// # Errors
/// 400 where `after` names no item that the vendor sent.
pub fn write<T: Listed>(
    page: Page<T>,
    call: &TuningCall<'_>,
    limit: usize,
    provider: &str,
) -> Result<Vec<u8>, ProviderError> {
    let Page { mut items, is_partial } = page;
    // Stable: items of the same second stay as the vendor has them.
    items.sort_by_key(|item| std::cmp::Reverse(item.rank()));
    let start = match &call.after {
        None => 0,
        Some(after) => match items.iter().position(|item| item.id() == after) {
            Some(at) => at + 1,
            None => return Err(no_such_item(after, items.len(), provider)),
        },
    };
    let rest = items.get(start..).unwrap_or_default();
    if rest.is_empty() && is_partial {
        return Err(end_of_page(items.len(), provider));
    }
    let data = rest.get(..call.limit.unwrap_or(limit)).unwrap_or(rest);
    let list = ListOut {
        object: "list",
        data,
        first_id: data.first().map(Listed::id),
        last_id: data.last().map(Listed::id),
        has_more: is_partial || data.len() < rest.len(),
    };
    super::write(&list)
}

fn no_such_item(after: &str, count: usize, provider: &str) -> ProviderError {
    let message = format!("after names none of the {count} newest items that {provider} lists: {after}.");
    invalid(message)
}

fn end_of_page(count: usize, provider: &str) -> ProviderError {
    let message = format!(
        "{provider} sends {count} items at once, and the gateway lists no further. Older jobs can be retrieved by their ids."
    );
    invalid(message)
}

fn invalid(message: String) -> ProviderError {
    let mut error = ProviderError::new(400, message).with_kind("invalid_request_error");
    error.param = Some("after".to_owned());
    error
}
