//! Every key of a config of Portkey's, and of its exports, that is known here.

use super::super::key_table::{Key, dropped};

const ADDRESS: &str = "is of Portkey's database";

/// What the importer does not decide by the value. Keys of configs stand in [`super::config::KEYS`], at any depth.
pub const KEYS: &[Key] = &[
    dropped("data[].created_at", ADDRESS),
    dropped("data[].createdAt", ADDRESS),
    dropped("data[].last_updated_at", ADDRESS),
    dropped("data[].updated_by", ADDRESS),
    dropped("data[].owner_id", ADDRESS),
    dropped("data[].organisation_id", ADDRESS),
    dropped(
        "data[].workspace_id",
        "here a key is bound to a workspace by its slug: auth.keys[].workspace (docs/keys.md)",
    ),
    dropped(
        "data[].is_default",
        "a key's default config is defaults.config_id of a stored key (docs/keys.md)",
    ),
    dropped("data[].format", ADDRESS),
    dropped("data[].type", ADDRESS),
    dropped("data[].version_id", ADDRESS),
    dropped("data[].object", ADDRESS),
    dropped("data[].id", ADDRESS),
    dropped("data[].status", "only what is active is taken"),
    dropped("data[].note", "describes the object"),
    dropped("data[].description", "describes the object"),
    dropped("data[].usage_limits.**", "limits of providers are set by the control API (docs/limits.md)"),
    dropped("data[].rate_limits.**", "limits of providers are set by the control API (docs/limits.md)"),
    dropped("data[].model_config.**", "write it into the provider (docs/config.md, Clouds)"),
    dropped("data[].key", "exports have no secrets"),
    dropped("data[].collection_id", "prompts are made in the default collection"),
    dropped("data[].prompt_version", "versions begin anew"),
    dropped("data[].prompt_version_id", ADDRESS),
    dropped("data[].prompt_version_status", ADDRESS),
    dropped("data[].prompt_version_labels.**", "labels are given by the control API (docs/prompts.md)"),
    dropped("data[].variable_components.**", "is read of the template"),
    dropped("data[].actions.**", "write on_fail and deny into the guardrail (docs/guardrails.md)"),
    dropped("object", ADDRESS),
    dropped("total", ADDRESS),
    dropped("success", ADDRESS),
    dropped("id", ADDRESS),
    dropped("created_at", ADDRESS),
    dropped("last_updated_at", ADDRESS),
    dropped("name", "a target's name has an effect in targets alone"),
];
