//! Exa: results of a web search are added to the prompt. It judges nothing.

use super::call::{MAX_BYTES, Options, base_url, exchange, failure, undecided};
use crate::guard::check::{CheckKind, Prepared, RemoteCheck};
use crate::guard::checks::outgoing;
use crate::guard::finding::{Change, CheckError, Finding};
use crate::guard::outside::{Outside, OutsideCall};
use crate::guard::parameters::{Parameters, Type, Unusable, optional};
use crate::guard::subject::Subject;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use words::api::operation::Operation;
use words::config::hooks::HookPhase;

pub(crate) const ONLINE: CheckKind = CheckKind {
    id: "exa.online",
    aliases: &[],
    phases: &[HookPhase::Before],
    about: "Always passes. Searches the web with Exa for the prompt and adds the results to the system message, or in front of a \
            completion's prompt. `credentials`: `apiKey`.",
    source: "https://docs.exa.ai/reference/search",
    parameters: &[
        optional("prefix", Type::Text, r#""\n<web_search_context>""#, "What stands in front of the results."),
        optional("suffix", Type::Text, r#""\n</web_search_context>""#, "What stands behind them."),
        optional("numResults", Type::Number, "5", "How many results are added: at most 100."),
        optional("includeDomains", Type::List, "[]", "Only results of these domains."),
        optional("excludeDomains", Type::List, "[]", "No results of these domains."),
    ],
    prepare,
};

struct Search {
    options: Options,
    url: String,
    key: HeaderValue,
    timeout: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").finish_non_exhaustive()
    }
}

fn prepare(parameters: &Parameters<'_>) -> Result<Prepared, Unusable> {
    let options = Options::new(parameters);
    let url = base_url(&options, |_| Ok("https://api.exa.ai".to_owned()))? + "/search";
    let mut key = HeaderValue::from_str(options.required_credential(&["apiKey"])?).map_err(|_| {
        Unusable::new("credentials", "the API key has characters that are invalid in a header")
    })?;
    key.set_sensitive(true);
    let timeout = outgoing::timeout(parameters, TIMEOUT);
    Ok(Prepared::Remote(Box::new(Search { options, url, key, timeout })))
}

impl Search {
    async fn search(&self, subject: &Subject, outside: &dyn Outside) -> Result<Finding, CheckError> {
        let Some(query) = subject.question().map(str::trim).filter(|query| !query.is_empty()) else {
            return Err(failure("Error", "request text is empty"));
        };
        let number = self.options.number("numResults").unwrap_or(5.0).clamp(1.0, 100.0) as u64;
        let mut body =
            json!({"query": query, "numResults": number, "contents": {"text": {"includeHtmlTags": false}}});
        for name in ["includeDomains", "excludeDomains"] {
            let domains = self.options.texts(name);
            if let (Some(members), false) = (body.as_object_mut(), domains.is_empty()) {
                members.insert(name.to_owned(), json!(domains));
            }
        }
        let mut headers = outgoing::json_headers();
        headers.insert("x-api-key", self.key.clone());
        let call = OutsideCall {
            method: Method::POST,
            url: &self.url,
            headers,
            body: Bytes::from(body.to_string()),
            max_bytes: MAX_BYTES,
            timeout: self.timeout,
        };
        let response = exchange("Exa", call, outside).await?;
        let lack = || failure("Error", "the response of Exa has no `results`");
        let results = response.get("results").and_then(Value::as_array).ok_or_else(lack)?;
        let source = |result: &Value| json!({"title": result.get("title"), "url": result.get("url")});
        let sources: Vec<Value> = results.iter().map(source).collect();
        let finding = Finding::of(true, json!({"sources": sources}));
        if results.is_empty() {
            Ok(finding)
        } else {
            Ok(finding.with_change(added(subject, &self.context(results))))
        }
    }

    fn context(&self, results: &[Value]) -> String {
        let mut context = self.options.text("prefix").unwrap_or("\n<web_search_context>").to_owned() + "\n";
        for (index, result) in results.iter().enumerate() {
            let part = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default();
            context.push_str(&format!("[{}] \"{}\"\nURL: {}\n", index + 1, part("title"), part("url")));
            if let Some(date) = result.get("publishedDate").and_then(Value::as_str) {
                context.push_str(&format!("Date: {date}\n"));
            }
            context.push_str(part("text"));
            context.push('\n');
        }
        context + self.options.text("suffix").unwrap_or("\n</web_search_context>")
    }
}

/// The request with a context in its system message, or in front of its prompt. A request without either stays as it is.
fn added(subject: &Subject, context: &str) -> Change {
    let mut body = subject.request.get().clone();
    // Anthropic's dialect has the system message outside of the others.
    if let (Operation::Messages, Some(members)) = (subject.operation, body.as_object_mut()) {
        let system = members.entry("system").or_insert_with(|| json!(""));
        return if append(system, context) { Change::Body(body) } else { Change::None };
    }
    if let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut) {
        let system =
            messages.iter_mut().find(|message| message.get("role").and_then(Value::as_str) == Some("system"));
        let is_added = match system.and_then(|message| message.get_mut("content")) {
            Some(content) => append(content, context),
            None => {
                messages.insert(0, json!({"role": "system", "content": context}));
                true
            }
        };
        return if is_added { Change::Body(body) } else { Change::None };
    }
    match body.get_mut("prompt") {
        Some(Value::String(prompt)) => {
            prompt.insert_str(0, context);
            Change::Body(body)
        }
        _ => Change::None,
    }
}

fn append(content: &mut Value, context: &str) -> bool {
    match content {
        Value::String(text) => text.push_str(context),
        Value::Array(parts) => parts.push(json!({"type": "text", "text": context})),
        _ => return false,
    }
    true
}

impl RemoteCheck for Search {
    fn run<'a>(&'a self, subject: &'a Subject, outside: &'a dyn Outside) -> BoxFuture<'a, Finding> {
        async move { undecided(self.search(subject, outside).await) }.boxed()
    }

    fn may_change(&self) -> bool {
        true
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}
