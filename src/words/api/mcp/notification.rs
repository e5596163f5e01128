//! Notifications of a server within the stream of a call, as the client of the call gets them.
//!
//! Only those that belong to the call: progress under the token that the gateway gave the server for it, and log messages.

use super::era::META_LOG_LEVEL;
use super::message::McpMessage;
use crate::json::Json;
use crate::json::write::ObjectWriter;

const PROGRESS: &str = "notifications/progress";
const MESSAGE: &str = "notifications/message";
const TOKEN: &str = "progressToken";
/// The longest number of progress that is passed on where checks decide about texts, bytes.
const MAX_DIGITS: usize = 24;

/// How severe a log message is (RFC 5424), the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The level that a request of the stateless era wants log messages of; without one it wants none.
    pub fn of_request(message: &McpMessage<'_>) -> Option<Self> {
        Self::of(&message.meta(META_LOG_LEVEL)?.text()?)
    }
}

/// The token under which a client wants to be notified of the progress of its request: JSON text.
pub fn progress_token(message: &McpMessage<'_>) -> Option<String> {
    let token = message.meta(TOKEN)?;
    let is_token = token.get().starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'));
    is_token.then(|| token.get().to_owned())
}

/// The tokens of one call: JSON text.
#[derive(Debug, Clone)]
pub struct ProgressTokens {
    /// The client's.
    pub client: String,
    /// What the server got in its place.
    pub server: String,
}

/// Which notifications the client of a call gets.
#[derive(Debug, Clone)]
pub struct NotificationRules {
    /// `None`: it wants no progress.
    pub progress: Option<ProgressTokens>,
    /// The least severe log messages; `None`: it wants none.
    pub level: Option<LogLevel>,
    /// Whether it gets their texts. Nothing judges them.
    pub has_texts: bool,
}

impl NotificationRules {
    /// A notification as the client gets it. `None`: it does not.
    pub fn relayed(&self, message: &McpMessage<'_>) -> Option<Vec<u8>> {
        match &*message.method {
            PROGRESS => self.progress(message),
            MESSAGE => self.message(message),
            _ => None,
        }
    }

    fn progress(&self, message: &McpMessage<'_>) -> Option<Vec<u8>> {
        let ProgressTokens { client, server } = self.progress.as_ref()?;
        if message.param(TOKEN)?.get() != server {
            return None;
        }
        let is_number = |name: &str, json: &Json<'_>| {
            matches!(name, "progress" | "total") && json.read::<f64>().is_some()
        };
        // A number of so many digits would be a text.
        let is_plain = |name: &str, json: &Json<'_>| is_number(name, json) && json.get().len() <= MAX_DIGITS;
        let is_judged = !self.has_texts;
        if is_judged && !message.param("progress").is_some_and(|json| is_plain("progress", json)) {
            return None;
        }
        Some(notification(PROGRESS, |params| {
            params.raw(TOKEN, client);
            for (name, json) in message.params.iter().filter(|(name, _)| name != TOKEN) {
                if self.has_texts || is_plain(name, json) {
                    params.raw(&**name, json.get());
                }
            }
        }))
    }

    fn message(&self, message: &McpMessage<'_>) -> Option<Vec<u8>> {
        let least = self.level.filter(|_| self.has_texts)?;
        let level = LogLevel::of(&message.param("level")?.text()?)?;
        (level >= least).then(|| {
            notification(MESSAGE, |params| {
                for (name, json) in &message.params {
                    params.raw(&**name, json.get());
                }
            })
        })
    }
}

fn notification(method: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut out = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":"#).into_bytes();
    let mut params = ObjectWriter::open(&mut out);
    write(&mut params);
    params.close();
    out.push(b'}');
    out
}

/// A message as an event of a stream.
pub fn event(message: &[u8]) -> Vec<u8> {
    let mut out = b"event: message\ndata: ".to_vec();
    // In JSON they are nothing but space between tokens, and in a stream they would end the line.
    out.extend(message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    out.extend_from_slice(b"\n\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(level: Option<LogLevel>, has_texts: bool) -> NotificationRules {
        let progress = ProgressTokens { client: r#""c-1""#.to_owned(), server: "7".to_owned() };
        NotificationRules { progress: Some(progress), level, has_texts }
    }

    fn relayed(rules: &NotificationRules, method: &str, params: &str) -> Option<String> {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#);
        let relayed = rules.relayed(&McpMessage::read(&text).unwrap())?;
        let text = String::from_utf8(relayed).unwrap();
        let start = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":"#);
        Some(text.strip_prefix(&start).unwrap().strip_suffix('}').unwrap().to_owned())
    }

    #[test]
    fn progress_is_the_calls_own_under_the_clients_token() {
        let all = rules(None, true);
        let params = r#"{"progress":1.50,"progressToken":7,"message":"a","x":[1.0]}"#;
        let wanted = r#"{"progressToken":"c-1","progress":1.50,"message":"a","x":[1.0]}"#;
        assert_eq!(relayed(&all, "progress", params).as_deref(), Some(wanted));
        for other in [r#"{"progressToken":8,"progress":1}"#, r#"{"progressToken":"7"}"#, r#"{"progress":1}"#]
        {
            assert_eq!(relayed(&all, "progress", other), None, "{other}");
        }
        let none = NotificationRules { progress: None, ..all };
        assert_eq!(relayed(&none, "progress", params), None);
    }

    #[test]
    fn log_messages_are_those_of_the_level_and_above() {
        let from_warning = rules(Some(LogLevel::Warning), true);
        for (level, is_relayed) in
            [("debug", false), ("notice", false), ("warning", true), ("emergency", true), ("odd", false)]
        {
            let params = format!(r#"{{"level":"{level}","data":{{"a":1.0}}}}"#);
            let found = relayed(&from_warning, "message", &params);
            assert_eq!(found, is_relayed.then_some(params), "{level}");
        }
        assert_eq!(relayed(&rules(None, true), "message", r#"{"level":"error","data":"x"}"#), None);
        assert_eq!(relayed(&from_warning, "tools/list_changed", "{}"), None);
    }

    /// What a check would have to judge is left out.
    #[test]
    fn without_texts_nothing_but_numbers_is_relayed() {
        let bare = rules(Some(LogLevel::Debug), false);
        let params = r#"{"progress":1,"total":"leaked","progressToken":7,"message":"leaked","x":"leaked"}"#;
        assert_eq!(
            relayed(&bare, "progress", params).as_deref(),
            Some(r#"{"progressToken":"c-1","progress":1}"#)
        );
        assert_eq!(relayed(&bare, "message", r#"{"level":"error","data":"leaked"}"#), None);
        let long = format!(r#"{{"progress":{},"progressToken":7}}"#, "1".repeat(MAX_DIGITS + 1));
        for none in [r#"{"progressToken":7}"#, r#"{"progress":"leaked","total":2,"progressToken":7}"#, &long]
        {
            assert_eq!(relayed(&bare, "progress", none), None, "{none}");
        }
    }

    #[test]
    fn what_a_request_wants_is_in_its_meta() {
        let of = |meta: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{meta}}}}}"#);
            let message = McpMessage::read(&text).unwrap();
            (progress_token(&message), LogLevel::of_request(&message))
        };
        let both = r#"{"progressToken":"a","io.modelcontextprotocol/logLevel":"error"}"#;
        assert_eq!(of(both), (Some(r#""a""#.to_owned()), Some(LogLevel::Error)));
        assert_eq!(of(r#"{"progressToken":-1.0}"#), (Some("-1.0".to_owned()), None));
        for none in [r#"{"progressToken":null}"#, r#"{"progressToken":[1]}"#, "{}"] {
            assert_eq!(of(none).0, None, "{none}");
        }
    }

    #[test]
    fn an_event_is_one_line_of_data() {
        assert_eq!(event(b"{\"a\":\r\n1}"), b"event: message\ndata: {\"a\":  1}\n\n");
    }
}
