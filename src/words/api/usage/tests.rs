//! Tests of reading usage: every shape, in the same sense.

use super::*;

fn usage(counts: [u64; 8]) -> Option<Usage> {
    let [input, output, total, cached, cache_write, reasoning, input_audio, output_audio] = counts;
    let usage = Usage { input, output, total, cached, cache_write, reasoning, ..Usage::default() };
    Some(Usage { input_audio, output_audio, ..usage })
}

#[test]
fn every_shape_is_read_in_the_same_sense() {
    let cases = [
        // OpenAI chat.
        (
            r#"{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,
                "prompt_tokens_details":{"cached_tokens":64,"audio_tokens":5},
                "completion_tokens_details":{"reasoning_tokens":20,"audio_tokens":3}}"#,
            usage([100, 30, 130, 64, 0, 20, 5, 3]),
        ),
        // Embeddings.
        (r#"{"prompt_tokens":8,"total_tokens":8}"#, usage([8, 0, 8, 0, 0, 0, 0, 0])),
        // Responses.
        (
            r#"{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},
                "output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":15}"#,
            usage([10, 5, 15, 4, 2, 1, 0, 0]),
        ),
        // Transcription.
        (
            r#"{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},
                "output_tokens":45,"total_tokens":59}"#,
            usage([14, 45, 59, 0, 0, 0, 14, 0]),
        ),
        // Anthropic: cache reads and writes are not included in the input.
        (
            r#"{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,
                "cache_creation":{"ephemeral_5m_input_tokens":100},"output_tokens":50,
                "output_tokens_details":{"thinking_tokens":40}}"#,
            usage([1103, 50, 1153, 1000, 100, 40, 0, 0]),
        ),
        // DeepSeek, Mistral, Together, LiteLLM.
        (
            r#"{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_cache_hit_tokens":7}"#,
            usage([9, 1, 10, 7, 0, 0, 0, 0]),
        ),
        (
            r#"{"prompt_tokens":9,"completion_tokens":1,"num_cached_tokens":6,"prompt_tokens_details":null}"#,
            usage([9, 1, 10, 6, 0, 0, 0, 0]),
        ),
        (r#"{"prompt_tokens":9,"cached_tokens":5}"#, usage([9, 0, 9, 5, 0, 0, 0, 0])),
        (
            r#"{"prompt_tokens":110,"completion_tokens":1,"total_tokens":111,
                "cache_read_input_tokens":80,"cache_creation_input_tokens":20}"#,
            usage([110, 1, 111, 80, 20, 0, 0, 0]),
        ),
        // xAI: reasoning is not included in the completion.
        (
            r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":112,
                "completion_tokens_details":{"reasoning_tokens":100}}"#,
            usage([10, 102, 112, 0, 0, 100, 0, 0]),
        ),
        // Unexpected values do not affect the others.
        (
            r#"{"prompt_tokens":7.0,"completion_tokens":-1,"total_tokens":"x","cached_tokens":[{}]}"#,
            usage([7, 0, 7, 0, 0, 0, 0, 0]),
        ),
        // Objects without token counts.
        (r#"{"search_units":1}"#, None),
        (r#"{"type":"duration","seconds":9}"#, None),
        ("null", None),
        ("[1]", None),
        ("{", None),
    ];
    for (json, wanted) in cases {
        assert_eq!(Usage::read(json.as_bytes()), wanted, "{json}");
    }
}

/// Anthropic's summaries of a long conversation are billed, and not included in the other counts.
#[test]
fn compaction_is_added_to_what_was_used() {
    let cases = [
        (
            r#"{"input_tokens":100,"output_tokens":10,"iterations":[
                {"type":"compaction","input_tokens":1000,"cache_read_input_tokens":200,"output_tokens":35},
                {"type":"message","input_tokens":100,"output_tokens":10},{"type":"compaction","output_tokens":5}]}"#,
            usage([1300, 50, 1350, 200, 0, 0, 0, 0]),
        ),
        (r#"{"input_tokens":1,"output_tokens":2,"iterations":null}"#, usage([1, 2, 3, 0, 0, 0, 0, 0])),
    ];
    for (json, wanted) in cases {
        assert_eq!(Usage::read(json.as_bytes()), wanted, "{json}");
    }
}

#[test]
fn a_claim_beyond_all_reason_is_capped() {
    let json = r#"{"prompt_tokens":9000000000000000000,"completion_tokens":1e300,"total_tokens":18446744073709551615,
        "prompt_tokens_details":{"cached_tokens":9e18}}"#;
    let most = Usage::MAX_COUNT;
    assert_eq!(Usage::read(json.as_bytes()), usage([most, most, most, most, 0, 0, 0, 0]));
}

#[test]
fn cached_tokens_with_details_are_part_of_the_input() {
    // Responses with Anthropic's counts added.
    let json = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":80},"output_tokens":5,
        "cache_read_input_tokens":80}"#;
    assert_eq!(Usage::read(json.as_bytes()), usage([100, 5, 105, 80, 0, 0, 0, 0]));
}

#[test]
fn a_later_report_overrides_only_what_it_contains() {
    let read = |json: &str| UsageParts::read(json.as_bytes()).unwrap();
    let mut parts = read(r#"{"input_tokens":5,"cache_read_input_tokens":9,"output_tokens":1}"#);
    parts.update(&read(r#"{"output_tokens":30}"#));
    assert_eq!(parts.usage(), usage([14, 30, 44, 9, 0, 0, 0, 0]));
    parts.update(&read(r#"{"input_tokens":6,"cache_read_input_tokens":10,"output_tokens":31}"#));
    assert_eq!(parts.usage(), usage([16, 31, 47, 10, 0, 0, 0, 0]));
}
