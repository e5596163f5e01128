//! Embeddings on Bedrock: requests and responses of each model family. Not the signing.

use super::*;
use http::Method;
use words::api::operation::Operation;

fn body(text: &str) -> Body {
    Body::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn with<T>(model: &str, then: impl FnOnce(&dyn JsonAdapter, &CallTarget<'_>) -> T) -> T {
    let call = Call {
        operation: Operation::Embeddings,
        method: &Method::POST,
        path: "embeddings",
        query: None,
        model: Some(model),
        streamed: false,
    };
    let account = Account::default();
    then(
        adapter(&call, &account).unwrap(),
        &CallTarget { call: &call, account: &account, model, client_betas: None },
    )
}

/// The request body followed by the warnings; or status and param of the refusal.
fn written(model: &str, text: &str) -> String {
    with(model, |adapter, target| {
        let mut notes = TranslationNotes::default();
        match adapter.write(Some(&body(text)), target, &mut notes) {
            Ok(sent) => {
                format!("{}{}", String::from_utf8(sent.unwrap()).unwrap(), notes.warnings.concat())
            }
            Err(error) => format!("{} {}", error.status(), error.param.unwrap_or_default()),
        }
    })
}

fn read(model: &str, response: &str, request: &str) -> Result<String, ProviderError> {
    with(model, |adapter, _| adapter.read(response.as_bytes(), Some(&body(request)), model))
        .map(|out| String::from_utf8(out).unwrap())
}

const TITAN: &str = "amazon.titan-embed-text-v2:0";
const PICTURES: &str = "amazon.titan-embed-image-v1";
const NOVA: &str = "amazon.nova-2-multimodal-embeddings-v1:0";
const COHERE: &str = "us.cohere.embed-v4:0";

#[test]
fn each_family_gets_its_own_request_shape() {
    let cases = [
        (TITAN, r#"{"model":"m","input":"a\u00e9","user":"u"}"#, r#"{"inputText":"a\u00e9"}"#),
        (
            TITAN,
            r#"{"input":["a"],"dimensions":256,"normalize":false,"encoding_format":"base64"}"#,
            r#"{"inputText":"a","dimensions":256,"normalize":false}"#,
        ),
        (TITAN, r#"{"input":["a","b"]}"#, "400 input"),
        (TITAN, r#"{"input":[1,2]}"#, "400 input"),
        (TITAN, r#"{"input":[]}"#, "400 input"),
        (TITAN, r#"{"input":{"image":{"base64":"iVBO"}}}"#, "400 input"),
        (TITAN, "{}", "400 input"),
        (
            PICTURES,
            r#"{"input":[{"text":"a","image":{"base64":"data:image/png;base64,iVBO"}}],"dimensions":384}"#,
            r#"{"inputText":"a","inputImage":"iVBO","embeddingConfig":{"outputEmbeddingLength":384}}"#,
        ),
        (
            NOVA,
            r#"{"input":"a","dimensions":256,"embedding_purpose":"TEXT_RETRIEVAL","truncate":"END"}"#,
            r#"{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{"embeddingPurpose":"TEXT_RETRIEVAL","embeddingDimension":256,"text":{"truncationMode":"END","value":"a"}}}"#,
        ),
        (
            COHERE,
            r#"{"input":["a","b"],"dimensions":512,"input_type":"search_query","truncate":"NONE"}"#,
            r#"{"texts":["a","b"],"input_type":"search_query","output_dimension":512,"truncate":"NONE"}"#,
        ),
        (
            COHERE,
            r#"{"input":"a"}"#,
            r#"{"texts":["a"],"input_type":"search_document"}input_type: search_document was sent: the model needs one. For queries send search_query"#,
        ),
    ];
    for (model, request, wanted) in cases {
        assert_eq!(written(model, request), wanted, "{request}");
    }
}

#[test]
fn every_response_becomes_openais_and_keeps_its_digits() {
    let response = |vectors: &str, tokens: u64| {
        format!(
            r#"{{"object":"list","data":[{vectors}],"model":"{TITAN}","usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#
        )
    };
    let vector = |index: u8, numbers: &str| {
        format!(r#"{{"object":"embedding","index":{index},"embedding":{numbers}}}"#)
    };
    let cases = [
        (r#"{"embedding":[1.0,-2],"inputTextTokenCount":5}"#, response(&vector(0, "[1.0,-2]"), 5)),
        (
            r#"{"embeddingsByType":{"binary":[1,0]},"inputTextTokenCount":5}"#,
            response(&vector(0, "[1,0]"), 5),
        ),
        (
            r#"{"embeddings":[[1.0],[2.0]],"id":"x"}"#,
            response(&[vector(0, "[1.0]"), vector(1, "[2.0]")].join(","), 0),
        ),
        (r#"{"embeddings":{"int8":[[1]],"float":[[0.5]]}}"#, response(&vector(0, "[0.5]"), 0)),
        (r#"{"embeddings":{"int8":[[1]]}}"#, response(&vector(0, "[1]"), 0)),
        (
            r#"{"embeddings":[{"embeddingType":"TEXT","embedding":[3e-1]}]}"#,
            response(&vector(0, "[3e-1]"), 0),
        ),
    ];
    for (response, wanted) in cases {
        assert_eq!(read(TITAN, response, "{}").unwrap(), wanted, "{response}");
    }
    let packed = read(TITAN, r#"{"embedding":[1.0,-2]}"#, r#"{"encoding_format":"base64"}"#).unwrap();
    assert!(packed.contains(r#""embedding":"AACAPwAAAMA=""#), "{packed}");
}

#[test]
fn what_holds_no_embeddings_is_a_failure() {
    for response in ["", "{}", "[]", r#"{"embeddings":[]}"#, r#"{"embeddings":[{}]}"#, r#"{"embedding":"x"}"#]
    {
        assert_eq!(read(TITAN, response, "{}").unwrap_err().status, 502, "{response}");
    }
    let error = read(PICTURES, r#"{"embedding":null,"message":"Too large."}"#, "{}").unwrap_err();
    assert_eq!(error.message, "Too large.");
}

#[test]
fn a_model_without_embeddings_is_refused_early() {
    for model in ["anthropic.claude-v2", "arn:aws:bedrock:us-east-1:1:provisioned-model/x"] {
        let call = Call {
            operation: Operation::Embeddings,
            method: &Method::POST,
            path: "embeddings",
            query: None,
            model: Some(model),
            streamed: false,
        };
        assert_eq!(adapter(&call, &Account::default()).unwrap_err().param.as_deref(), Some("model"));
        let mut account = Account::default();
        account.cloud_a.model_name = Some(COHERE.to_owned());
        assert_eq!(adapter(&call, &account).is_ok(), model.starts_with("arn:"));
    }
}
