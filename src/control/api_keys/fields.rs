//! The members of keys in requests and responses.
//!
//! What depends on other members or on what is stored is checked beside the routes.

use crate::credential::ALLOWED_MODELS;
use crate::field::{Field, Type, not_null, nullable, optional, required};
use crate::limits::{COUNT, RATE_LIMITS, RESET_USAGE, USAGE_LIMITS};
use crate::origin::{ORIGIN, SET};
use crate::page;
use memory::auth::key_records::{MAX_TRANSITION_MS, TRANSITION_MS};
use words::config::policies::Priority;
use words::settings::logs::Payloads;
use words::tables::concat;

const DEFAULTS: Type = Type::Object(&[
    optional("config_id", Type::Name(128), "Id or slug of the config of requests that name none."),
    optional(
        "metadata",
        Type::Map(&Type::Text(512), 16),
        "Added to the metadata of every request; takes precedence over the request's.",
    ),
    optional(
        "allow_config_override",
        Type::Flag,
        "Whether a request may name another config; true by default.",
    ),
    optional(
        "log_payloads",
        Type::OneOf(&Payloads::NAMES),
        "Whose bodies are kept in the log, in place of the settings' `logs.payloads`.",
    ),
    optional(
        "priority",
        Type::OneOf(&Priority::NAMES),
        "Who gets a free place of `concurrency` first: the priority of its requests, and the highest that they may have.",
    ),
]);

const ROTATION: Type = Type::Object(&[
    optional("rotation_period", Type::OneOf(&["weekly", "monthly"]), "How often."),
    optional("rotation_period_days", Type::Integer(1, 365), "How often, in days."),
    optional("next_rotation_at", Type::Time, "When next."),
    optional(
        "key_transition_period_ms",
        Type::Integer(TRANSITION_MS, MAX_TRANSITION_MS),
        "How long the old secret stays good after a rotation.",
    ),
]);

const SCOPES: Type = Type::List(&Type::Scope, 1, 200);
const EMAILS: Type = Type::List(&Type::Email, 0, 50);

const NAME: Field = required("name", Type::Name(255), "For people and the access line.");
const DESCRIPTION: Field = optional("description", Type::Text(2048), "For people.");
const DEFAULTS_FIELD: Field =
    optional("defaults", DEFAULTS, "What its requests have where they say nothing else.");
const ALERT_EMAILS: Field =
    optional("alert_emails", EMAILS, "Get the alerts of the key's own limit (docs/alerts.md).");
const EXPIRES: Field = optional("expires_at", Type::Time, "When the key ends; in the future.");
const ROTATION_FIELD: Field = optional(
    "rotation_policy",
    ROTATION,
    "Kept and shown; keys are rotated by `POST /v1/api-keys/{id}/rotate` alone.",
);
const KEY_SHA256: Field = optional(
    "key_sha256",
    Type::Sha256,
    "The SHA-256 (hexadecimal) of a key that was made elsewhere and that clients have already, such as LiteLLM's. No key is made then.",
);
const SCOPES_DOC: &str = "What the key may do (docs/keys.md).";
const ORGANISATION_ID: Field = optional("organisation_id", Type::Text(64), "Taken from the key.");

pub(super) const LIST: &[Field] = &[
    page::WORKSPACE,
    optional(
        "key_sha256",
        Type::Sha256,
        "Only the key that was made of this SHA-256, also where it was revoked; for keys of the organisation.",
    ),
];

pub(super) const OF_ORGANISATION: &[Field] = &[
    NAME,
    required("scopes", SCOPES, SCOPES_DOC),
    DESCRIPTION,
    ORGANISATION_ID,
    RATE_LIMITS,
    USAGE_LIMITS,
    DEFAULTS_FIELD,
    ALLOWED_MODELS,
    ALERT_EMAILS,
    EXPIRES,
    ROTATION_FIELD,
    KEY_SHA256,
];

pub(super) const OF_WORKSPACE: &[Field] = &[
    NAME,
    required("scopes", SCOPES, SCOPES_DOC),
    DESCRIPTION,
    page::WORKSPACE,
    ORGANISATION_ID,
    RATE_LIMITS,
    USAGE_LIMITS,
    DEFAULTS_FIELD,
    ALLOWED_MODELS,
    ALERT_EMAILS,
    EXPIRES,
    ROTATION_FIELD,
    KEY_SHA256,
];

pub(super) const OF_USER: &[Field] = &[
    NAME,
    required("scopes", SCOPES, SCOPES_DOC),
    required("user_id", Type::Uuid, "The user the key belongs to."),
    DESCRIPTION,
    page::WORKSPACE,
    ORGANISATION_ID,
    RATE_LIMITS,
    USAGE_LIMITS,
    DEFAULTS_FIELD,
    ALLOWED_MODELS,
    ALERT_EMAILS,
    EXPIRES,
    ROTATION_FIELD,
    KEY_SHA256,
];

pub(super) const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people and the access line."),
    not_null("scopes", SCOPES, "Replaces all scopes."),
    DESCRIPTION,
    RATE_LIMITS,
    USAGE_LIMITS,
    DEFAULTS_FIELD,
    ALLOWED_MODELS,
    ALERT_EMAILS,
    EXPIRES,
    ROTATION_FIELD,
    RESET_USAGE,
];

pub(super) const ROTATE: &[Field] = &[optional(
    "key_transition_period_ms",
    Type::Integer(0, MAX_TRANSITION_MS),
    "How long the old secret stays good: 0 ends it at once, else at least 1800000, which is the default.",
)];

pub(super) const MADE: &[Field] = &[
    required("id", Type::Uuid, "The key's id."),
    optional(
        "key",
        Type::Text(128),
        "The key. It is never shown again. Absent where the request has `key_sha256`.",
    ),
    required("object", Type::Text(20), "`api-key`."),
];

pub(super) const ROTATED: &[Field] = &[
    required("id", Type::Uuid, "The key's id; a rotation does not change it."),
    required("key", Type::Text(128), "The new key. It is never shown again."),
    nullable("key_transition_expires_at", Type::Time, "Until when the old secret is good."),
    required("object", Type::Text(20), "`api-key`."),
];

/// What a limit is.
pub(crate) const LIMIT: [Field; 5] = [
    required(
        "kind",
        Type::OneOf(&["usage", "rate"]),
        "Whether it is one of `usage_limits` or of `rate_limits`.",
    ),
    required("type", Type::OneOf(&["cost", "tokens", "requests"]), "What is counted."),
    nullable("unit", Type::OneOf(&["rps", "rpm", "rph", "rpd", "rpw"]), "Of a rate limit."),
    nullable("limit", COUNT, "The most in a window; dollars for `cost`. Null: there is only an alert."),
    nullable("raised_until", Type::Time, "Until when `limit` has a `raise` in it; null: it has none."),
];

/// What is used of it.
pub(crate) const USED: [Field; 6] = [
    required("current_usage", COUNT, "What was used in this window."),
    required("reserved", COUNT, "What is held for requests under way."),
    required(
        "unreconciled",
        COUNT,
        "Of `current_usage`: what was held for requests whose gateway ended before it could count them.",
    ),
    nullable("remaining", COUNT, "What is left; null where there is only an alert."),
    required("status", Type::OneOf(&["active", "exhausted"]), "Whether nothing is left."),
    nullable("resets_at", Type::Time, "When the window ends; null: never."),
];

const USAGE: [Field; 11] = concat(&LIMIT, &USED);

pub(super) const VIEW: &[Field] = &[
    nullable("id", Type::Uuid, "The key's id; null for one of the settings."),
    required("key", Type::Text(128), "The key, masked."),
    required("name", Type::Text(255), "For people and the access line."),
    nullable("description", Type::Text(2048), "For people."),
    required(
        "type",
        Type::OneOf(&["organisation-service", "workspace-service", "workspace-user", "token"]),
        "Whom it belongs to; `token`: no key, but a token of the identity provider.",
    ),
    required("organisation_id", Type::Uuid, "The organisation."),
    nullable("workspace_id", Type::Uuid, "The workspace it is bound to."),
    nullable("user_id", Type::Text(128), "The user it belongs to."),
    required("status", Type::OneOf(&["active", "exhausted", "expired", "revoked"]), "Whether it is good."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    nullable(
        "last_used_at",
        Type::Time,
        "When it was used last, to the second; as far as this process knows.",
    ),
    required("creation_mode", Type::OneOf(&["ui", "api", "auto"]), "`auto`: at the first start."),
    required("rate_limits", Type::List(&Type::AnyObject, 0, 20), "How much may be used in a unit of time."),
    nullable(
        "usage_limits",
        Type::AnyOf(&[Type::AnyObject, Type::List(&Type::AnyObject, 0, 10)]),
        "How much may be used. A key of the settings may have a list.",
    ),
    required(
        "usage",
        Type::List(&Type::Object(&USAGE), 0, 30),
        "What is used of its limits in their windows, as far as this process has counted.",
    ),
    nullable("reset_usage", Type::Flag, "Always null."),
    nullable("expires_at", Type::Time, "When it ends."),
    nullable("last_reset_at", Type::Time, "When its usage counted from 0 last."),
    nullable("next_usage_reset_at", Type::Time, "When its usage is reset next."),
    required("alert_emails", Type::List(&Type::Text(320), 0, 50), "Get the alerts of the key's own limit."),
    required("expiry_enforced", Type::Bit, "Always 0."),
    required("scopes", Type::List(&Type::Text(128), 0, 200), "What it may do."),
    required("defaults", Type::AnyObject, "What its requests have where they say nothing else."),
    nullable(
        "allowed_models",
        Type::List(&Type::Text(256), 0, 500),
        "The models that it may use; null: all.",
    ),
    nullable("rotation_policy", Type::AnyObject, "Kept."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`api-key`."),
];
