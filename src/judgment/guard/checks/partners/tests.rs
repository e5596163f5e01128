//! What partners are sent and what their answers mean, a row for each: answers as the partners' public documents show them.

use super::testing::{Fake, remote, request, response};
use crate::guard::finding::{Change, Finding};
use crate::guard::outside::OutsideError;
use crate::guard::{CHECKS, check_kind};
use futures_util::FutureExt;
use serde_json::{Value, json};
use words::config::hooks::HookPhase;

const KEY: &str = "secret-key-1";
const PROMPT: &str = "call 555-1234";

struct Row {
    id: &'static str,
    parameters: Value,
    /// Beside `apiKey`.
    credentials: Value,
    url: &'static str,
    header: &'static str,
    /// What the body must have, by pointers.
    sent: Vec<(&'static str, Value)>,
    passing: Value,
    blocking: Value,
}

fn row(id: &'static str, url: &'static str, header: &'static str) -> Row {
    let null = Value::Null;
    Row {
        id,
        url,
        header,
        parameters: json!({}),
        credentials: json!({}),
        sent: vec![],
        passing: null.clone(),
        blocking: null,
    }
}

impl Row {
    fn parameters(&self) -> Value {
        let mut parameters = self.parameters.clone();
        let mut credentials = self.credentials.clone();
        credentials["apiKey"] = json!(KEY);
        parameters["credentials"] = credentials;
        parameters
    }

    fn is_of_responses(&self) -> bool {
        self.id.ends_with("Response") || check_kind(self.id).unwrap().phases == [HookPhase::After]
    }

    fn run(&self, outside: &Fake) -> Finding {
        let check = remote(self.id, &self.parameters()).unwrap();
        assert!(!format!("{check:?}").contains(KEY), "{}", self.id);
        let subject = if self.is_of_responses() { response("question", PROMPT) } else { request(PROMPT) };
        check.run(&subject, outside).now_or_never().unwrap()
    }
}

fn patronus(id: &'static str, evaluator: &'static str, criteria: Value) -> Row {
    let result = |pass: bool| json!({"results": [{"evaluation_result": {"pass": pass, "additional_info": {"positions": []}}}]});
    Row {
        sent: vec![("/evaluators/0/evaluator", json!(evaluator)), ("/evaluators/0/criteria", criteria)],
        passing: result(true),
        blocking: result(false),
        ..row(id, "https://api.patronus.ai/v1/evaluate", "x-api-key")
    }
}

fn qualifire(id: &'static str, check: &'static str) -> Row {
    Row {
        sent: vec![(check, json!(true))],
        passing: json!({"status": "success", "evaluationResults": []}),
        blocking: json!({"status": "failed", "evaluationResults": [{"type": "x"}]}),
        ..row(id, "https://proxy.qualifire.ai/api/evaluation/evaluate", "x-qualifire-api-key")
    }
}

#[expect(clippy::too_many_lines, reason = "a row for each partner")]
fn moderations() -> Vec<Row> {
    let mistral = |pii: bool| json!({"results": [{"categories": {"pii": pii, "law": true}, "category_scores": {"pii": 0.9}}]});
    let openai = |hate: bool| json!({"results": [{"flagged": hate, "categories": {"hate": hate}, "category_scores": {}}]});
    let azure = |severity: u32| json!({"categoriesAnalysis": [{"category": "Hate", "severity": severity}], "blocklistsMatch": []});
    let shield =
        |attack: bool| json!({"userPromptAnalysis": {"attackDetected": attack}, "documentsAnalysis": []});
    let entities = |list: Value| json!({"results": {"documents": [{"id": "0", "redactedText": "call ***", "entities": list}]}});
    let azure_key = "ocp-apim-subscription-key";
    let resource = json!({"resourceName": "res"});
    vec![
        Row {
            parameters: json!({"categories": ["pii"]}),
            sent: vec![("/model", json!("mistral-moderation-latest")), ("/input/0/1/content", json!(PROMPT))],
            passing: mistral(false),
            blocking: mistral(true),
            ..row("mistral.moderateContent", "https://api.mistral.ai/v1/chat/moderations", "authorization")
        },
        Row {
            sent: vec![("/model", json!("omni-moderation-latest")), ("/input", json!(PROMPT))],
            passing: openai(false),
            blocking: openai(true),
            ..row("openai.moderateContent", "https://api.openai.com/v1/moderations", "authorization")
        },
        Row {
            credentials: json!({"contentSafety": resource}),
            sent: vec![("/text", json!(PROMPT)), ("/categories/0", json!("Hate"))],
            passing: azure(1),
            blocking: azure(2),
            ..row(
                "azure.contentSafety",
                "https://res.cognitiveservices.azure.com/contentsafety/text:analyze?api-version=2024-09-01",
                azure_key,
            )
        },
        Row {
            credentials: resource.clone(),
            sent: vec![("/userPrompt", json!(PROMPT))],
            passing: shield(false),
            blocking: shield(true),
            ..row(
                "azure.shieldPrompt",
                "https://res.cognitiveservices.azure.com/contentsafety/text:shieldPrompt?api-version=2024-09-01",
                azure_key,
            )
        },
        Row {
            credentials: resource.clone(),
            sent: vec![("/text", json!(PROMPT))],
            passing: json!({"protectedMaterialAnalysis": {"detected": false}}),
            blocking: json!({"protectedMaterialAnalysis": {"detected": true}}),
            ..row(
                "azure.protectedMaterial",
                "https://res.cognitiveservices.azure.com/contentsafety/text:detectProtectedMaterial?api-version=2024-09-01",
                azure_key,
            )
        },
        Row {
            credentials: json!({"pii": resource}),
            sent: vec![
                ("/kind", json!("PiiEntityRecognition")),
                ("/analysisInput/documents/0/text", json!(PROMPT)),
            ],
            passing: entities(json!([])),
            blocking: entities(
                json!([{"text": "555-1234", "category": "PhoneNumber", "offset": 5, "length": 8}]),
            ),
            ..row(
                "azure.pii",
                "https://res.cognitiveservices.azure.com/language/:analyze-text?api-version=2024-11-01",
                azure_key,
            )
        },
    ]
}

#[expect(clippy::too_many_lines, reason = "a row for each partner")]
fn scanners() -> Vec<Row> {
    let lakera = |flagged: bool| json!({"flagged": flagged, "payload": [], "breakdown": [{"detector_type": "prompt_attack", "detected": flagged}]});
    let protect = |action: &str| json!({"status": "success", "result": {"prompt": {"action": action, "modified_text": null}}});
    let pillar = |found: bool| json!({"pii": found, "prompt_injection": false, "secrets": null});
    let f5 = |outcome: &str| json!({"id": "1", "redactedInput": "call ***", "result": {"outcome": outcome, "scannerResults": []}});
    vec![
        Row {
            parameters: json!({"policyId": 7}),
            sent: vec![("/policyId", json!(7)), ("/direction", json!("IN")), ("/content", json!(PROMPT))],
            passing: json!({"action": "ALLOW", "detectorResponses": {"toxicity": {"action": "ALLOW"}}}),
            blocking: json!({"action": "BLOCK", "detectorResponses": {}}),
            ..row(
                "zscaler.guardrails",
                "https://api.zseclipse.net/v1/detection/execute-policy",
                "authorization",
            )
        },
        Row {
            parameters: json!({"parameters": {"policyId": "7"}}),
            sent: vec![("/policyId", json!("7"))],
            passing: json!({"action": "ALLOW", "detectorResponses": null}),
            blocking: json!({"action": "ALLOW", "detectorResponses": {"pii": {"action": "BLOCK"}}}),
            ..row(
                "zscalerAiGuard.zscalerAiGuardCheck",
                "https://api.zseclipse.net/v1/detection/execute-policy",
                "authorization",
            )
        },
        Row {
            parameters: json!({"projectID": "project-1"}),
            sent: vec![("/project_id", json!("project-1")), ("/messages/0/content", json!(PROMPT))],
            passing: lakera(false),
            blocking: lakera(true),
            ..row("lakera.guard", "https://api.lakera.ai/v2/guard", "authorization")
        },
        Row {
            sent: vec![("/messages/1/content", json!(PROMPT))],
            passing: json!({"deputies": {}, "violations_detected": false}),
            blocking: json!({"deputies": {"jailbreak": true}, "violations_detected": true}),
            ..row("lasso.classify", "https://server.lasso.security/gateway/v2/classify", "lasso-api-key")
        },
        Row {
            parameters: json!({"projectID": "p-1"}),
            sent: vec![("/validation_target", json!("prompt")), ("/explain", json!(true))],
            passing: json!({"action": "passthrough", "explain_log": []}),
            blocking: json!({"action": "block", "explain_log": []}),
            ..row("aporia.validateProject", "https://gr-prd.aporia.com/p-1/validate", "x-aporia-api-key")
        },
        Row {
            credentials: json!({"apiDomain": "ps.example"}),
            sent: vec![("/prompt", json!(PROMPT))],
            passing: protect("pass"),
            blocking: protect("block"),
            ..row("promptsecurity.protectPrompt", "https://ps.example/api/protect", "app-id")
        },
        Row {
            credentials: json!({"apiDomain": "ps.example"}),
            sent: vec![("/response", json!(PROMPT))],
            passing: json!({"result": {"response": {"action": "log"}}}),
            blocking: json!({"result": {"response": {"action": "block"}}}),
            ..row("promptsecurity.protectResponse", "https://ps.example/api/protect", "app-id")
        },
        Row {
            parameters: json!({"profile_name": "p"}),
            sent: vec![("/ai_profile/profile_name", json!("p")), ("/contents/0/prompt", json!(PROMPT))],
            passing: json!({"action": "allow", "category": "benign"}),
            blocking: json!({"action": "block", "category": "malicious"}),
            ..row(
                "panw-prisma-airs.intercept",
                "https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request",
                "x-pan-token",
            )
        },
        Row {
            sent: vec![
                ("/text", json!(PROMPT)),
                ("/generic_safety_check", json!(true)),
                ("/pii_list/0", json!("Person's Name")),
            ],
            passing: json!({"success": true, "data": {"safety": [{"safety": "generic", "isSafe": true}]}}),
            blocking: json!({"success": true, "data": {"safety": [{"safety": "generic", "isSafe": false}]}}),
            ..row("walledai.walledprotect", "https://services.walled.ai/v1/walled-protect", "x-api-key")
        },
        Row {
            credentials: json!({"application": "app", "domain": "j.example"}),
            sent: vec![("/input/text", json!(PROMPT))],
            passing: json!({"assessments": [{"trustsafety": {"request_reject": false}}]}),
            blocking: json!({"assessments": [{"promptinjectiondetection": {"request_reject": true}}]}),
            ..row("javelin.guardrails", "https://j.example/v1/guardrails/apply", "x-javelin-apikey")
        },
        Row {
            parameters: json!({"projectId": "p"}),
            sent: vec![("/input", json!(PROMPT)), ("/project", json!("p"))],
            passing: f5("cleared"),
            blocking: f5("flagged"),
            ..row("f5-guardrails.scan", "https://us1.calypsoai.app/backend/v1/scans", "authorization")
        },
        Row {
            parameters: json!({"scanners": ["pii"]}),
            sent: vec![("/message", json!(PROMPT)), ("/scanners", json!({"pii": true}))],
            passing: pillar(false),
            blocking: pillar(true),
            ..row("pillar.scanPrompt", "https://api.pillarseclabs.com/api/v1/scan/prompt", "authorization")
        },
        Row {
            sent: vec![("/message", json!(PROMPT))],
            passing: pillar(false),
            blocking: pillar(true),
            ..row(
                "pillar.scanResponse",
                "https://api.pillarseclabs.com/api/v1/scan/response",
                "authorization",
            )
        },
        Row {
            credentials: json!({"apiDomain": "akto.example"}),
            passing: json!({"Allowed": true, "Modified": false, "Reason": ""}),
            blocking: json!({"Allowed": false, "Modified": false, "Reason": "policy"}),
            ..row("akto.scan", "https://akto.example/api/validate/request", "authorization")
        },
    ]
}

#[expect(clippy::too_many_lines, reason = "a row for each partner")]
fn others() -> Vec<Row> {
    // A key of Acuvity is a token whose payload has its URL.
    let acuvity =
        |score: f64| json!({"extractions": [{"data": PROMPT, "exploits": {"prompt_injection": score}}]});
    let bedrock = |action: &str| json!({"action": action, "outputs": [], "assessments": [{"topicPolicy": {"topics": []}}]});
    vec![
        Row {
            credentials: json!({"domain": "aws.pangea.cloud"}),
            parameters: json!({"recipe": "r"}),
            sent: vec![("/text", json!(PROMPT)), ("/recipe", json!("r"))],
            passing: json!({"status": "Success", "result": {"blocked": false, "detectors": {}}}),
            blocking: json!({"status": "Success", "result": {"blocked": true, "detectors": {}}}),
            ..row("pangea.textGuard", "https://ai-guard.aws.pangea.cloud/v1/text/guard", "authorization")
        },
        Row {
            credentials: json!({"domain": "aws.pangea.cloud"}),
            sent: vec![("/text", json!(PROMPT))],
            passing: json!({"result": {"count": 0, "redacted_text": PROMPT}}),
            blocking: json!({"result": {"count": 1, "redacted_text": "call <PHONE_NUMBER>"}}),
            ..row("pangea.pii", "https://redact.aws.pangea.cloud/v1/redact", "authorization")
        },
        Row {
            credentials: json!({"baseUrl": "https://acuvity.example"}),
            parameters: json!({"prompt_injection": true}),
            sent: vec![("/type", json!("Input")), ("/messages/0", json!(PROMPT))],
            passing: acuvity(0.49),
            blocking: acuvity(0.5),
            ..row("acuvity.scan", "https://acuvity.example/_acuvity/scan", "authorization")
        },
        Row {
            credentials: json!({"baseUrl": "https://aidr.example"}),
            sent: vec![("/event_type", json!("input")), ("/guard_input/model", json!("gpt-5"))],
            passing: json!({"status": "Success", "result": {"blocked": false, "transformed": false, "policy": "p"}}),
            blocking: json!({"status": "Success", "result": {"blocked": true, "policy": "p"}}),
            ..row(
                "crowdstrike-aidr.guardChatCompletions",
                "https://aidr.example/v1/guard_chat_completions",
                "authorization",
            )
        },
        Row {
            parameters: json!({"guardrailId": "abc", "guardrailVersion": "1"}),
            credentials: json!({"accessKeyId": "AK", "accessKeySecret": KEY, "region": "us-east-1"}),
            sent: vec![("/source", json!("INPUT")), ("/content/0/text/text", json!(PROMPT))],
            passing: bedrock("NONE"),
            blocking: bedrock("GUARDRAIL_INTERVENED"),
            ..row(
                "bedrock.guard",
                "https://bedrock-runtime.us-east-1.amazonaws.com/guardrail/abc/version/1/apply",
                "authorization",
            )
        },
        patronus("patronus.phi", "phi", Value::Null),
        patronus("patronus.pii", "pii", Value::Null),
        patronus("patronus.isConcise", "judge", json!("patronus:is-concise")),
        patronus("patronus.isHelpful", "judge", json!("patronus:is-helpful")),
        patronus("patronus.isPolite", "judge", json!("patronus:is-polite")),
        patronus("patronus.noApologies", "judge", json!("patronus:no-apologies")),
        patronus("patronus.noGenderBias", "judge", json!("patronus:no-gender-bias")),
        patronus("patronus.noRacialBias", "judge", json!("patronus:no-racial-bias")),
        patronus("patronus.retrievalAnswerRelevance", "retrieval-answer-relevance", Value::Null),
        patronus("patronus.toxicity", "toxicity", Value::Null),
        Row {
            parameters: json!({"profile": "system:mine"}),
            ..patronus("patronus.custom", "judge", json!("system:mine"))
        },
        qualifire("qualifire.contentModeration", "/hate_speech_check"),
        qualifire("qualifire.pii", "/pii_check"),
        qualifire("qualifire.promptInjections", "/prompt_injections"),
        qualifire("qualifire.hallucinations", "/hallucinations_check"),
        qualifire("qualifire.grounding", "/grounding_check"),
        qualifire("qualifire.toolUseQuality", "/tool_selection_quality_check"),
        Row {
            parameters: json!({"policies": ["no discounts"]}),
            sent: vec![("/assertions/0", json!("no discounts")), ("/input", json!(PROMPT))],
            ..qualifire("qualifire.policy", "/assertions")
        },
    ]
}

fn rows() -> Vec<Row> {
    moderations().into_iter().chain(scanners()).chain(others()).collect()
}

#[test]
fn every_partner_passes_and_blocks_as_its_documents_show() {
    for row in rows() {
        let outside = Fake::new(200, &row.passing.to_string());
        let finding = row.run(&outside);
        assert!(finding.verdict && finding.error.is_none(), "{}: {finding:?}", row.id);
        let (url, headers, body) = outside.calls.lock().unwrap().remove(0);
        assert_eq!(url, row.url, "{}", row.id);
        assert!(headers[row.header].to_str().unwrap().len() > KEY.len() - 1, "{}", row.id);
        for (pointer, wanted) in &row.sent {
            assert_eq!(body.pointer(pointer).unwrap_or(&Value::Null), wanted, "{} {pointer}: {body}", row.id);
        }
        let finding = row.run(&Fake::new(200, &row.blocking.to_string()));
        assert!(!finding.verdict && finding.error.is_none(), "{}: {finding:?}", row.id);
        assert!(finding.change == Change::None, "{}", row.id);
        assert!(!finding.data.unwrap().to_string().contains(KEY), "{}", row.id);
    }
}

#[test]
fn what_cannot_be_decided_is_an_error_without_credentials() {
    let failures = [
        (Fake::new(401, "{\"message\": \"bad key secret-key-1\"}"), "HttpError"),
        (Fake::new(500, ""), "HttpError"),
        (Fake::new(200, "<html>"), "Error"),
        (Fake::new(200, "{}"), "Error"),
        (Fake::new(200, "[]"), "Error"),
        (Fake::failing(&OutsideError::TimedOut), "TimeoutError"),
        (Fake::failing(&OutsideError::Refused("not public".to_owned())), "Error"),
    ];
    for row in rows() {
        for (outside, name) in &failures {
            let finding = row.run(outside);
            let error = finding.error.unwrap_or_else(|| panic!("{} decided", row.id));
            assert_eq!(error.name, *name, "{}: {}", row.id, error.message);
            assert!(!finding.verdict && !error.message.contains(KEY), "{}", row.id);
        }
    }
}

#[test]
fn every_partner_has_a_row_here_and_names_its_source() {
    let rows = rows();
    for kind in CHECKS.iter().filter(|kind| !kind.id.starts_with("default.") && kind.id != "exa.online") {
        assert!(rows.iter().any(|row| row.id == kind.id), "{} is not tested", kind.id);
        assert!(kind.source.starts_with("https://"), "{}", kind.id);
    }
}

#[test]
fn missing_credentials_and_parameters_are_named() {
    for (id, parameters, at_fault) in [
        ("lasso.classify", json!({}), "credentials"),
        ("zscaler.guardrails", json!({"credentials": {"zscalerApiKey": "k"}}), "policyId"),
        ("zscaler.guardrails", json!({"policyId": "7"}), "credentials"),
        ("pangea.pii", json!({"credentials": {"apiKey": "k"}}), "credentials"),
        ("azure.pii", json!({"credentials": {"resourceName": "r", "azureAuthMode": "entra"}}), "credentials"),
        (
            "azure.pii",
            json!({"credentials": {"resourceName": "r.evil.example/", "apiKey": "k"}}),
            "credentials",
        ),
        ("aporia.validateProject", json!({"projectID": "../x", "credentials": {"apiKey": "k"}}), "projectID"),
        ("f5-guardrails.scan", json!({"credentials": {"apiKey": "k"}}), "projectId"),
        ("patronus.custom", json!({"credentials": {"apiKey": "k"}}), "profile"),
        ("qualifire.policy", json!({"policies": [], "credentials": {"apiKey": "k"}}), "policies"),
        ("lasso.classify", json!({"credentials": {"apiKey": "k\n"}}), "credentials"),
        ("crowdstrike-aidr.guardChatCompletions", json!({"credentials": {"apiKey": "k"}}), "credentials"),
        ("bedrock.guard", json!({"credentials": {"accessKeyId": "k"}}), "credentials"),
        ("acuvity.scan", json!({"credentials": {"apiKey": "no.token.here"}}), "credentials"),
        ("exa.online", json!({}), "credentials"),
    ] {
        assert_eq!(remote(id, &parameters).unwrap_err().parameter, at_fault, "{id} {parameters}");
    }
}

fn changed(id: &str, parameters: &Value, answer: &Value) -> Finding {
    let check = remote(id, parameters).unwrap();
    assert!(check.may_change(), "{id}");
    check.run(&request(PROMPT), &Fake::new(200, &answer.to_string())).now_or_never().unwrap()
}

#[test]
fn what_partners_redact_is_replaced_in_its_place() {
    let key = json!({"apiKey": KEY, "domain": "d", "resourceName": "r", "apiDomain": "d", "baseUrl": "https://x.example",
        "accessKeyId": "a", "accessKeySecret": "s", "region": "us-east-1"});
    let documents = json!([
        {"id": "0", "redactedText": "Be kind.", "entities": []},
        {"id": "1", "redactedText": "call ***", "entities": [{"category": "PhoneNumber", "text": "555-1234"}]},
    ]);
    let lakera = json!({"flagged": true, "breakdown": [{"detector_type": "pii/phone_number", "detected": true}],
        "payload": [{"start": 5, "end": 13, "detector_type": "pii/phone_number", "message_id": 1}]});
    let bedrock = json!({"action": "GUARDRAIL_INTERVENED", "assessments": [{"sensitiveInformationPolicy": {
        "piiEntities": [{"match": "555-1234", "type": "PHONE", "action": "ANONYMIZED"}]}}]});
    let acuvity = json!({"extractions": [
        {"data": "Be kind."}, {"data": "call XXX", "PIIs": {"phone_number": 0.9}},
    ]});
    for (id, more, answer, wanted) in [
        ("azure.pii", json!({}), json!({"results": {"documents": documents}}), "call ***"),
        ("lakera.guard", json!({}), lakera, "call [PII/PHONE_NUMBER]"),
        ("bedrock.guard", json!({"guardrailId": "g", "guardrailVersion": "1"}), bedrock, "call {PHONE}"),
        (
            "acuvity.scan",
            json!({"pii": true, "pii_redact": true, "pii_categories": ["phone_number"]}),
            acuvity,
            "call XXX",
        ),
    ] {
        let mut parameters = more;
        if id != "acuvity.scan" {
            parameters["redact"] = json!(true);
        }
        parameters["credentials"] = key.clone();
        let finding = changed(id, &parameters, &answer);
        assert!(finding.verdict && finding.error.is_none(), "{id}: {finding:?}");
        assert!(!finding.data.clone().unwrap().to_string().contains("555-1234"), "{id}");
        let Change::Texts(texts) = finding.change else { panic!("{id}: {:?}", finding.change) };
        assert_eq!(texts, [None, Some(wanted.to_owned())], "{id}");
    }
}

#[test]
fn what_is_redacted_text_by_text_is_replaced_in_each() {
    let credentials = json!({"apiKey": KEY, "domain": "d", "apiDomain": "d"});
    for (id, more, answer) in [
        ("pangea.pii", json!({}), json!({"result": {"count": 1, "redacted_text": "***"}})),
        (
            "f5-guardrails.scan",
            json!({"projectId": "p"}),
            json!({"redactedInput": "***", "result": {"outcome": "redacted"}}),
        ),
        (
            "promptsecurity.protectPrompt",
            json!({}),
            json!({"result": {"prompt": {"action": "modify", "modified_text": "***"}}}),
        ),
    ] {
        let mut parameters = more;
        parameters["redact"] = json!(true);
        parameters["credentials"] = credentials.clone();
        let finding = changed(id, &parameters, &answer);
        assert!(finding.verdict, "{id}: {finding:?}");
        let both = vec![Some("***".to_owned()), Some("***".to_owned())];
        assert_eq!(finding.change, Change::Texts(both), "{id}");
    }
    let places = json!({"results": [{"evaluation_result": {"pass": false, "additional_info": {"positions": [[5, 13]]}}}]});
    let parameters = json!({"redact": true, "credentials": {"apiKey": KEY}});
    let check = remote("patronus.pii", &parameters).unwrap();
    let subject = response("question", PROMPT);
    let finding = check.run(&subject, &Fake::new(200, &places.to_string())).now_or_never().unwrap();
    assert_eq!(finding.change, Change::Texts(vec![Some("call [REDACTED]".to_owned())]));
}

#[test]
fn what_else_a_partner_finds_fails_in_spite_of_redaction() {
    let blocked = json!({"action": "GUARDRAIL_INTERVENED", "assessments": [{
        "sensitiveInformationPolicy": {"piiEntities": [{"match": "555-1234", "type": "PHONE", "action": "ANONYMIZED"}]},
        "topicPolicy": {"topics": [{"name": "t", "action": "BLOCKED"}]}}]});
    let credentials = json!({"accessKeyId": "a", "accessKeySecret": "s", "region": "us-east-1"});
    let parameters =
        json!({"guardrailId": "g", "guardrailVersion": "1", "redact": true, "credentials": credentials});
    let finding = changed("bedrock.guard", &parameters, &blocked);
    assert!(!finding.verdict && !finding.is_transformed());
    let attack = json!({"flagged": true, "payload": [], "breakdown": [{"detector_type": "prompt_attack", "detected": true}]});
    let finding = changed("lakera.guard", &json!({"redact": true, "credentials": {"apiKey": KEY}}), &attack);
    assert!(!finding.verdict);
}

#[test]
fn bodies_that_partners_return_replace_the_request() {
    let output = json!({"model": "gpt-5", "messages": [{"role": "user", "content": "call ***"}]});
    let answer =
        json!({"status": "Success", "result": {"transformed": true, "policy": "p", "guard_output": output}});
    let credentials = json!({"apiKey": KEY, "baseUrl": "https://aidr.example"});
    let id = "crowdstrike-aidr.guardChatCompletions";
    let finding = changed(id, &json!({"redact": true, "credentials": credentials}), &answer);
    assert!(finding.verdict && finding.change == Change::Body(output));
    let check = remote(id, &json!({"credentials": credentials})).unwrap();
    let finding = check.run(&request(PROMPT), &Fake::new(200, &answer.to_string())).now_or_never().unwrap();
    assert!(finding.verdict && !finding.is_transformed());
}

#[test]
fn results_of_a_search_are_added_to_the_system_message() {
    let answer = json!({"results": [{"title": "T", "url": "https://t.example", "text": "body", "publishedDate": "2026"}]});
    let parameters =
        json!({"numResults": 3, "includeDomains": ["t.example"], "credentials": {"apiKey": KEY}});
    let finding = changed("exa.online", &parameters, &answer);
    assert!(finding.verdict);
    let Change::Body(body) = finding.change else { panic!("{:?}", finding.change) };
    let system = body["messages"][0]["content"].as_str().unwrap();
    assert_eq!(
        system,
        "Be kind.\n<web_search_context>\n[1] \"T\"\nURL: https://t.example\nDate: 2026\nbody\n\n</web_search_context>"
    );
    assert_eq!(finding.data.unwrap()["sources"][0]["url"], "https://t.example");
    assert!(!changed("exa.online", &parameters, &json!({"results": []})).is_transformed());
    let down = remote("exa.online", &parameters).unwrap();
    assert!(down.run(&request(PROMPT), &Fake::new(500, "")).now_or_never().unwrap().error.is_some());
}

#[test]
fn the_host_of_acuvity_is_in_its_key() {
    // {"opaque":{"apex-url":"https://apex.example"}}
    let key = "x.eyJvcGFxdWUiOnsiYXBleC11cmwiOiJodHRwczovL2FwZXguZXhhbXBsZSJ9fQ.y";
    let parameters = json!({"toxic": true, "credentials": {"apiKey": key}});
    let outside = Fake::new(200, "{\"extractions\": []}");
    remote("acuvity.scan", &parameters).unwrap().run(&request(PROMPT), &outside).now_or_never().unwrap();
    assert_eq!(outside.calls.lock().unwrap()[0].0, "https://apex.example/_acuvity/scan");
}
