//! One alert as data: its subject, its text for people, its JSON for webhooks, its entry in the audit log.
//!
//! Not here: sending it.

use jiff::Timestamp;
use knowledge::price::money::{self, Dollars};
use memory::limits::{Counted, EventKind, Limit, LimitEvent};
use memory::store::audit::AuditEntry;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct Alert {
    pub id: Uuid,
    pub kind: EventKind,
    limit: Arc<Limit>,
    /// The workspace that the limit is of; `None`: the organisation.
    workspace: Option<Uuid>,
    value_key: Arc<str>,
    spent: i64,
    at: Timestamp,
    reset_at: Option<Timestamp>,
}

impl Alert {
    pub fn new(event: &LimitEvent, workspace: Option<Uuid>) -> Self {
        Self {
            id: Uuid::now_v7(),
            kind: event.kind,
            limit: Arc::clone(&event.limit),
            workspace,
            value_key: Arc::clone(&event.value_key),
            spent: event.limit.shown_usage(event.spent),
            at: event.at,
            reset_at: event.reset_at,
        }
    }

    /// One line.
    pub fn subject(&self) -> String {
        let state = match self.kind {
            EventKind::Threshold => "has reached its alert threshold",
            EventKind::Exhausted => "is exhausted",
        };
        format!("the limit of the {} {} {state}", self.limit.scope.as_str(), self.name())
    }

    /// The text of a mail.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}.\n\nUsed: {} of {}",
            self.subject(),
            self.amount(self.spent),
            self.amount(self.limit.shown_value())
        );
        if let (EventKind::Threshold, Some(threshold)) = (self.kind, self.limit.shown_alert_at()) {
            text.push_str(&format!(" (alert at {})", self.amount(threshold)));
        }
        if !self.value_key.is_empty() {
            text.push_str(&format!("\nFor: {}", one_line(&self.value_key)));
        }
        text.push_str(&format!("\nAt: {:.0}", self.at));
        match self.reset_at {
            Some(at) => text.push_str(&format!("\nResets at: {at:.0}")),
            None => text.push_str("\nIt does not reset by itself."),
        }
        if self.kind == EventKind::Exhausted {
            text.push_str("\n\nRequests that it applies to are refused until then, or until it is raised.");
        }
        text.push_str(&format!("\n\nLimit {} of the record {}\n", self.limit.index, self.limit.record));
        text
    }

    /// What webhooks get. Money is in dollars.
    pub fn json(&self) -> Value {
        let time = |at: Timestamp| format!("{at:.3}");
        json!({
            "id": self.id,
            "type": format!("limit.{}", self.kind.as_str()),
            "created_at": time(self.at),
            "limit": {
                "id": self.limit.record,
                "index": self.limit.index,
                "scope": self.limit.scope.as_str(),
                "name": self.limit.name.as_deref(),
                "workspace_id": self.workspace,
                "type": self.counts(),
                "credit_limit": self.number(self.limit.shown_value()),
                "alert_threshold": self.limit.shown_alert_at().map(|at| self.number(at)),
            },
            "value_key": &*self.value_key,
            "current_usage": self.number(self.spent),
            "resets_at": self.reset_at.map(time),
        })
    }

    /// What incoming webhooks of Slack get: the text of a mail, in which three characters would begin a link or a mention,
    /// and `@` one at those that read plain names; behind it there is a space without width.
    pub fn slack(&self) -> Value {
        let text = self.text().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let text = text.replace('@', "@\u{200B}");
        json!({"text": text.trim_end()})
    }

    /// The entry of the audit log: made by the gateway, not by a call.
    pub fn audit_entry(&self) -> AuditEntry {
        let body = json!({
            "timestamp": format!("{:.3}", self.at),
            "method": "",
            "uri": "",
            "request_id": self.id,
            "request_body": self.json().to_string(),
            "query_params": "",
            "request_headers": "{}",
            "user_id": "",
            "user_type": ACTOR,
            "organisation_id": crate::ORGANISATION,
            "workspace_id": self.workspace,
            "response_status_code": 200,
            "resource_type": "limits",
            "action": self.kind.as_str(),
            "client_ip": "",
            "country": null,
        });
        AuditEntry {
            id: self.id,
            time: self.at,
            workspace: self.workspace,
            actor: String::new(),
            actor_type: ACTOR.to_owned(),
            action: self.kind.as_str().to_owned(),
            resource: "limits".to_owned(),
            method: String::new(),
            status: 200,
            body: body.to_string(),
        }
    }

    fn name(&self) -> String {
        self.limit.name.as_deref().map_or_else(|| self.limit.record.to_string(), one_line)
    }

    fn counts(&self) -> &'static str {
        match self.limit.counts() {
            Counted::Cost => "cost",
            Counted::Tokens => "tokens",
            Counted::Requests => "requests",
        }
    }

    fn amount(&self, value: i64) -> String {
        match self.limit.counts() {
            Counted::Cost => format!("{} dollars", Dollars(value)),
            Counted::Tokens => format!("{value} tokens"),
            Counted::Requests => format!("{value} requests"),
        }
    }

    fn number(&self, value: i64) -> Value {
        match self.limit.counts() {
            Counted::Cost => money::dollars(value).into(),
            Counted::Tokens | Counted::Requests => value.into(),
        }
    }
}

/// A text that others chose, so that it adds no lines to a mail.
fn one_line(text: &str) -> String {
    let plain =
        |char: char| if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') { ' ' } else { char };
    text.chars().map(plain).collect()
}

/// Who makes these entries of the audit log.
const ACTOR: &str = "gateway";

#[cfg(test)]
mod tests {
    use super::*;
    use memory::limits::{LimitKind, LimitScope, Reset, UsageOf};

    fn alert(kind: EventKind) -> Alert {
        let usage = LimitKind::Usage {
            of: UsageOf::Cost,
            credit: 10 * money::NANODOLLARS,
            alert_at: Some(8 * money::NANODOLLARS),
            reset: Reset::Never,
        };
        let mut limit = Limit::new(Uuid::from_u128(7), LimitScope::Policy, usage);
        limit.name = Some("team budget".into());
        Alert::new(
            &LimitEvent {
                kind,
                limit: Arc::new(limit),
                value_key: "metadata.team:red".into(),
                spent: 8_500_000_001,
                at: Timestamp::UNIX_EPOCH,
                reset_at: None,
            },
            None,
        )
    }

    #[test]
    fn names_and_values_add_no_lines_to_a_mail() {
        let mut alert = alert(EventKind::Threshold);
        let lines = alert.text().lines().count();
        let mut limit = (*alert.limit).clone();
        limit.name = Some("a\r\nb\u{2028}c".into());
        alert.limit = Arc::new(limit);
        alert.value_key = "metadata.team:\nUsed: 0 dollars".into();
        assert_eq!(alert.text().lines().count(), lines, "{}", alert.text());
        assert!(alert.subject().contains("a  b c") && !alert.subject().contains('\n'), "{}", alert.subject());
    }

    #[test]
    fn people_and_programs_get_the_same_facts() {
        let text = alert(EventKind::Threshold).text();
        assert!(
            text.starts_with("the limit of the policy team budget has reached its alert threshold."),
            "{text}"
        );
        assert!(text.contains("Used: 8.500000001 dollars of 10 dollars (alert at 8 dollars)"), "{text}");
        assert!(text.contains("For: metadata.team:red") && text.contains("does not reset"), "{text}");
        let json = alert(EventKind::Exhausted).json();
        assert_eq!(json["type"], "limit.exhausted");
        assert_eq!(json["limit"]["credit_limit"], 10.0);
        assert_eq!(json["current_usage"], 8.500000001);
        assert_eq!(json["created_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(alert(EventKind::Exhausted).audit_entry().action, "exhausted");
    }
}
