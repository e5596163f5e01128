"""What Schemathesis checks beside its own checks (openapi_document.py).

Valid data must be accepted. What no schema can say is an exception and stands in a list here: references to what is not there,
members that do not go together, times in the past. A refusal for any other reason is a contradiction of the document.
"""

import re

import schemathesis
from schemathesis.core.failures import Failure

# The path of a problem, and its message.
BEYOND_A_SCHEMA = [
    # The problems after the first hundred.
    ("", "and [0-9]+ more"),
    ("workspace_id", "There is no workspace"),
    (r"users\[\d+\]\.id", "There is no such user"),
    ("collection_id|parent_collection_id", "There is no collection"),
    ("label_id", "There is no label"),
    # A pattern without lookahead cannot say it.
    ("name", "letters, digits, _ and -, not latest, not default"),
    # Which scopes a key may hold depends on its type.
    (r"scopes\[\d+\]", "cannot hold"),
    ("user_id", "There is no|no such user"),
    (r"rotation_policy(\..*)?", "must have rotation_period|cannot be combined|must be shorter"),
    ("key_transition_period_ms", "must be 0, or at least"),
    # MCP servers: docs/mcp.md.
    ("url|transport|auth_type", ""),
    # An OpenAPI document has a language of its own.
    (r"openapi\.document.*", ""),
    (r"openapi\.operations\.(allow|deny)\[\d+\]", r"with at most one \*"),
    ("virtual_key", "there is no stored provider"),
    ("string|parameters|model|virtual_key", "is required for a new version"),
    ("string", "template|tag|partial"),
    ("integration_id", "There is no such integration|Send integration_id, or provider and key"),
    ("defaults.user_api_key_config|defaults.config_id", "names no config|There is no"),
    (r"defaults\.(input|output)_guardrails\[\d+\]", "names no guardrail"),
    ("expires_at|rotation_policy.*", "must be in the future"),
    (r"(.*\.)?alert_threshold", "must be below credit_limit"),
    (r"(.*\.)?raise\.amount", "must be above 0"),
    (r"(.*\.)?(raise|used_before)\.amount", "must be at most"),
    (r"(.*\.)?raise", "needs credit_limit"),
    (r"alert_emails\[\d+\]", "must be an address"),
    (r"(.*\.)?periodic_reset_days", "cannot be combined"),
    (r"(.*\.)?fit", "needs hard"),
    # Dollars have a smaller bound than tokens.
    (r"(.*\.)?credit_limit", "must be at most"),
    (r"(.*\.)?next_usage_reset_at", "needs periodic_reset_days"),
    # What a policy's condition is about decides which values it can have.
    (r"(access\.rules\[\d+\]\.)?conditions\[\d+\]\.(value|excludes)", ""),
    # Of the keys of policies, those of the client alone: docs/mcp.md.
    (r"access\.rules\[\d+\]\.conditions\[\d+\]\.key", "must be one of|is no key of a condition"),
    (r"servers\[\d+\]\.server", "is in the list twice"),
    # A star is in a pattern once.
    (r"(.*\.)?(tools|prompts|resources)\.(allow|deny)\[\d+\]|prices\..*", r"with at most one \*"),
    (r"group_by\[\d+\]\.key", "stands twice"),
    (r"(.*\.)?usage_limits", "takes one limit"),
    (r"(.*\.)?rate_limits\[\d+\]\.(unit|value)", "is required"),
    (r"(.*\.)?rate_limits\[\d+\]", "with the same type and unit"),
    ("pricing_adjustments.multiplier", "Factors are numbers"),
    # What PostgreSQL cannot store is in no log.
    (r"(filters\.)?\w+", r"character U\+0000"),
    (r"models\[\d+\]\.(slug|base_model_slug)", "is named twice|is required of a fine-tuned model"),
    # Objects of files are of many kinds, each found by a member of its own.
    (r"objects\[\d+\](\..*)?", "is no kind that files have|is required: a file finds|stands twice"),
    ("slugs", "is no model of this integration|is not a custom model"),
    (r"workspaces\[\d+\]\.id", "there is no workspace"),
    ("name", "It is not the name of this workspace"),
    # A config (what a name of models stands for is one too) and an account have languages of their own, with conditions between members.
    (r"(config|to)(\..*)?", ""),
    (r"configurations(\..*)?|customHost|.*ServiceAccountJson|azureAuthMode|deploymentConfig.*", ""),
    # What a name of models and its model say of each other: docs/models.md.
    ("", "names the model twice|nothing that it stands for"),
    # Which checks there are, and what each takes: docs/guardrails.md. Some keys of actions do not go together.
    (r"checks\[\d+\](\..*)?", "there is no check|is no parameter|must be|is missing|pattern|schema|issing|nvalid"),
    (r"actions\.(parallel|async|stream|type)", "is not possible|cannot be"),
    # What is purged: docs/cache.md.
    ("", "name one of them: key, namespace"),
    ("key", "is the `cache.key` of an access line"),
    # Lists of values with commas, ranges, and how far a question to the ledger may reach: docs/analytics.md.
    (r"(filters\.)?(status_code|cache_status|prompt_cache_miss|ai_org_model|metadata(\..*)?)", ""),
    (r"(filters\.)?(time_of_generation_m..|workspace_slug)|granularity|timezone|columns|order_by|groupBy", ""),
    # A request that is to be explained: see docs/control.md.
    (r"method|path|headers\..*|body", ""),
]


def problems(response):
    """The problems that a refusal names: pairs of path and message."""
    error = response.json()["error"]
    return [(problem["path"], problem["message"]) for problem in error["details"]] or [("", error["message"])]


def is_beyond_a_schema(path, message):
    return any(re.fullmatch(paths, path, re.DOTALL) and re.search(messages, message) for paths, messages in BEYOND_A_SCHEMA)


@schemathesis.check
def valid_data_is_accepted(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    unexpected = [problem for problem in problems(response) if not is_beyond_a_schema(*problem)]
    if unexpected:
        raise Failure(operation=case.operation.label, title="Valid data refused", message=repr(unexpected))
