//! The schema of `usage`, `prices` and `alerts`.

use crate::json::schema::{flag, integer, list, non_empty, object, one_of, pattern};
use serde_json::{Value, json};

pub(super) fn usage() -> Value {
    let stream_usage = "Whether providers are requested to report the usage of streams whose client did not request it. The event \
                        that they add is not passed on. While a limit counts tokens or costs, they are in any case. Default: true.";
    let tokenizer = "Whether tokens are counted with a tokenizer where a provider reports none; it takes 65 MiB of memory once it \
                     is used. Otherwise they are estimated by a rule. Default: true.";
    let on_disconnect = "A stream whose client has left: stop closes the connection to the provider and charges what was sent, \
                         drain reads it to its end, for providers that charge all of it. Default: stop.";
    object(
        "How the gateway learns what requests used (docs/usage.md).",
        &[],
        vec![
            ("stream_usage", flag(stream_usage)),
            ("tokenizer", flag(tokenizer)),
            ("on_disconnect", one_of(on_disconnect, ["stop", "drain"])),
        ],
    )
}

pub(super) fn prices() -> Value {
    object(
        "What models cost (docs/prices.md). Prices of many models come with the binary.",
        &[],
        vec![
            ("overlay", non_empty("A YAML file with prices of your own, which go before the catalogue's.")),
            (
                "file",
                non_empty("A catalogue in place of the one in the binary, read again every refresh_hours."),
            ),
            (
                "url",
                pattern(
                    "Where such a catalogue is fetched from.",
                    "^https?://.",
                    &["https://prices.internal/data.json"],
                ),
            ),
            (
                "sha256",
                pattern(
                    "The SHA-256 of the only catalogue to take from there, as `turnpike prices check FILE` prints it.",
                    "^[0-9A-Fa-f]{64}$",
                    &["abababababababababababababababababababababababababababababababab"],
                ),
            ),
            ("refresh_hours", integer("How often it is read again. Default: 24.", 1, Some(8_760))),
        ],
    )
}

pub(super) fn alerts() -> Value {
    object(
        "Who gets a message when a limit is nearly or wholly used (docs/alerts.md).",
        &[],
        vec![("smtp", smtp()), ("webhooks", list("URLs that get each alert.", webhook()))],
    )
}

fn smtp() -> Value {
    let address = |description: &str| pattern(description, "@", &["ops@example.com"]);
    object(
        "The mail server.",
        &["host", "from"],
        vec![
            ("host", non_empty("Its name.")),
            ("port", integer("Default: 587, with tls 465, with off 25.", 1, Some(65_535))),
            ("tls", one_of("How connections are encrypted. Default: starttls.", ["starttls", "tls", "off"])),
            ("ca_file", non_empty("Certificate authorities in place of the usual ones, PEM.")),
            ("username", non_empty("With password, where the server wants it.")),
            (
                "password",
                json!({"type": "string", "description": "The password.", "examples": ["credential:smtp-password"]}),
            ),
            ("from", address("The sender.")),
            ("to", list("Who gets every alert.", address("An address."))),
            (
                "administrators",
                flag(
                    "Whether alerts also go to the users who are owners or administrators of the organisation, to administrators of the \
                     limit's workspace, and to the user who made the key whose limit it is. Default: true.",
                ),
            ),
        ],
    )
}

fn webhook() -> Value {
    object(
        "A URL that gets each alert as JSON.",
        &["url"],
        vec![
            ("url", pattern("Where it is sent.", "^https?://.", &["https://hooks.example.com/turnpike"])),
            (
                "secret",
                json!({"type": "string", "description": "Signs each request (HMAC-SHA-256).", "examples": ["${ALERT_SECRET}"]}),
            ),
        ],
    )
}
