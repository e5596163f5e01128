//! Jobs, lists, events and checkpoints as vendors send them.

use super::{CREATE, LIST, VENDORS, account, adapter, call, received};
use crate::provider::find;
use http::Method;
use serde_json::{Value, json};
use words::api::operation::Operation;

/// A job of each vendor in one of its states.
fn job(provider: &str, state: &str) -> Value {
    let time = "2026-01-02T03:04:05Z";
    match provider {
        "mistral-ai" => {
            json!({"id": "j-1", "object": "job", "job_type": "completion", "auto_start": true, "model": "base",
            "status": state, "created_at": 1_767_323_045, "modified_at": 1_767_323_099, "training_files": ["file-1"],
            "validation_files": null, "hyperparameters": {"epochs": 3.0, "learning_rate": 0.0001}, "suffix": "acme-1",
            "fine_tuned_model": "ft:base:acme-1", "trained_tokens": 77, "integrations": [], "events": [
                {"name": "status-updated", "created_at": 1_767_323_045, "data": {"status": "QUEUED"}},
                {"name": "status-updated", "created_at": 1_767_323_099, "data": {"status": state, "error": "bad line"}}],
            "checkpoints": [{"step_number": 10, "created_at": 1_767_323_050, "metrics":
                {"train_loss": 0.5, "valid_loss": 0.6, "valid_mean_token_accuracy": 1.7}}]})
        }
        "together-ai" => {
            json!({"id": "j-1", "status": state, "training_file": "file-1", "validation_file": "",
            "model": "base", "model_output_name": "me/base-acme-1", "created_at": time, "updated_at": "2026-01-02T03:04:59.123Z",
            "n_epochs": 3, "batch_size": "max", "suffix": "acme-1", "token_count": 77, "events": [{"object": "fine-tune-event",
                "created_at": time, "level": "Error", "message": "bad line", "type": "job_error"}]})
        }
        "fireworks-ai" => {
            json!({"name": "accounts/acme/supervisedFineTuningJobs/j-1", "displayName": "acme-1",
            "createTime": time, "completedTime": "2026-01-02T03:04:59Z", "dataset": "accounts/acme/datasets/file-1",
            "state": state, "status": {"code": "INVALID_ARGUMENT", "message": "bad line"}, "outputModel":
            "accounts/acme/models/m", "baseModel": "base", "epochs": 3, "evaluationDataset": ""})
        }
        "vertex-ai" => {
            json!({"name": "projects/p1/locations/us-central1/tuningJobs/j-1", "tunedModelDisplayName": "acme-1",
            "baseModel": "base", "state": state, "createTime": "2026-01-02T03:04:05.123456Z", "startTime": time,
            "endTime": "2026-01-02T03:04:59Z", "error": {"code": 3, "message": "bad line"}, "supervisedTuningSpec":
            {"trainingDatasetUri": "file-1", "hyperParameters": {"epochCount": "3", "adapterSize": "ADAPTER_SIZE_FOUR"}},
            "tunedModel": {"model": "projects/p1/locations/us-central1/models/1@1",
                "endpoint": "projects/p1/locations/us-central1/endpoints/2",
                "checkpoints": [{"checkpointId": "1", "epoch": "1", "step": "10", "endpoint": "projects/p1/locations/us-central1/endpoints/3"}]},
            "tuningDataStats": {"supervisedTuningDataStats": {"totalBillableTokenCount": "77"}}})
        }
        _ => {
            json!({"jobArn": "arn:aws:bedrock:us-east-1:123456789012:model-customization-job/base/j-1", "jobName": "acme-1",
            "outputModelName": "acme-1", "outputModelArn": "arn:aws:bedrock:us-east-1:123456789012:custom-model/acme-1",
            "status": state, "failureMessage": "bad line", "creationTime": time, "lastModifiedTime": time,
            "endTime": "2026-01-02T03:04:59Z", "baseModelArn": "arn:aws:bedrock:us-east-1::foundation-model/base",
            "hyperParameters": {"epochCount": "3"}, "trainingDataConfig": {"s3Uri": "file-1"},
            "outputDataConfig": {"s3Uri": "s3://b/out/"}, "validationDataConfig": {"validators": []},
            "statusDetails": {"validationDetails": {"status": "InProgress", "lastModifiedTime": time},
                "trainingDetails": {"status": "NotStarted"}}})
        }
    }
}

/// Every state that a vendor documents, and OpenAI's.
const STATES: &[(&str, &[(&str, &str)])] = &[
    (
        "mistral-ai",
        &[
            ("QUEUED", "queued"),
            ("VALIDATING", "validating_files"),
            ("VALIDATED", "queued"),
            ("STARTED", "running"),
            ("RUNNING", "running"),
            ("CANCELLATION_REQUESTED", "running"),
            ("SUCCESS", "succeeded"),
            ("FAILED_VALIDATION", "failed"),
            ("FAILED", "failed"),
            ("CANCELLED", "cancelled"),
            ("SOMETHING_NEW", "running"),
        ],
    ),
    (
        "together-ai",
        &[
            ("pending", "validating_files"),
            ("queued", "queued"),
            ("running", "running"),
            ("compressing", "running"),
            ("uploading", "running"),
            ("cancel_requested", "running"),
            ("cancelled", "cancelled"),
            ("error", "failed"),
            ("user_error", "failed"),
            ("completed", "succeeded"),
        ],
    ),
    (
        "fireworks-ai",
        &[
            ("JOB_STATE_CREATING", "validating_files"),
            ("JOB_STATE_VALIDATING", "validating_files"),
            ("JOB_STATE_PENDING", "queued"),
            ("JOB_STATE_RE_QUEUEING", "queued"),
            ("JOB_STATE_RUNNING", "running"),
            ("JOB_STATE_WRITING_RESULTS", "running"),
            ("JOB_STATE_CANCELLING", "running"),
            ("JOB_STATE_COMPLETED", "succeeded"),
            ("JOB_STATE_EARLY_STOPPED", "succeeded"),
            ("JOB_STATE_FAILED", "failed"),
            ("JOB_STATE_EXPIRED", "failed"),
            ("JOB_STATE_CANCELLED", "cancelled"),
        ],
    ),
    (
        "vertex-ai",
        &[
            ("JOB_STATE_QUEUED", "queued"),
            ("JOB_STATE_PENDING", "queued"),
            ("JOB_STATE_PAUSED", "queued"),
            ("JOB_STATE_RUNNING", "running"),
            ("JOB_STATE_CANCELLING", "running"),
            ("JOB_STATE_SUCCEEDED", "succeeded"),
            ("JOB_STATE_FAILED", "failed"),
            ("JOB_STATE_CANCELLED", "cancelled"),
            ("JOB_STATE_EXPIRED", "cancelled"),
        ],
    ),
    (
        "bedrock",
        &[
            ("InProgress", "validating_files"),
            ("Stopping", "running"),
            ("Completed", "succeeded"),
            ("Failed", "failed"),
            ("Stopped", "cancelled"),
        ],
    ),
];

#[test]
fn every_state_of_every_vendor_is_one_of_the_specs() {
    for (provider, states) in STATES {
        for (state, wanted) in *states {
            let place = (Operation::FineTuningGet, "fine_tuning/jobs/j-1");
            let job = received(provider, place, None, &job(provider, state)).unwrap();
            let context = format!("{provider} {state} {job}");
            assert_eq!(job["status"], *wanted, "{context}");
            assert_eq!(
                (&job["object"], &job["model"]),
                (&json!("fine_tuning.job"), &json!("base")),
                "{context}"
            );
            assert_eq!(
                (&job["training_file"], &job["created_at"]),
                (&json!("file-1"), &json!(1_767_323_045)),
                "{context}"
            );
            assert_eq!(
                (&job["hyperparameters"]["n_epochs"], &job["validation_file"]),
                (&json!(3), &Value::Null),
                "{context}"
            );
            assert_eq!(job["fine_tuned_model"].is_string(), *wanted == "succeeded", "{context}");
            assert_eq!(
                job["finished_at"].is_u64(),
                ["succeeded", "failed", "cancelled"].contains(wanted),
                "{context}"
            );
            assert_eq!(job["error"]["message"] == "bad line", *wanted == "failed", "{context}");
            assert_eq!(job["error"].is_null(), *wanted != "failed", "{context}");
            assert!(job["method"]["supervised"]["hyperparameters"]["n_epochs"] == 3, "{context}");
            if *wanted == "succeeded" {
                assert!(
                    *provider == "bedrock" || *provider == "fireworks-ai" || job["trained_tokens"] == 77,
                    "{context}"
                );
            }
        }
    }
}

fn list(provider: &str, jobs: &[Value], is_partial: bool) -> Value {
    let token = if is_partial { "more" } else { "" };
    match provider {
        "mistral-ai" => {
            json!({"object": "list", "data": jobs, "total": jobs.len() + usize::from(is_partial)})
        }
        "together-ai" => json!({"data": jobs}),
        "fireworks-ai" => json!({"supervisedFineTuningJobs": jobs, "nextPageToken": token}),
        "vertex-ai" => json!({"tuningJobs": jobs, "nextPageToken": token}),
        _ => json!({"modelCustomizationJobSummaries": jobs, "nextToken": token}),
    }
}

#[test]
fn lists_are_cut_to_the_page_that_is_requested() {
    for (provider, states) in STATES {
        let jobs: Vec<Value> = (1..=3)
            .map(|n| {
                let text = job(provider, states[0].0).to_string().replace("j-1", &format!("j-{n}"));
                serde_json::from_str(&text).unwrap()
            })
            .collect();
        let page = |query: &str, is_partial: bool| {
            received(provider, LIST, Some(query), &list(provider, &jobs, is_partial))
        };
        let ids = |page: &Value| -> Vec<String> {
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|job| job["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let first = page("limit=2", false).unwrap();
        assert_eq!(
            (first["object"].as_str(), ids(&first).len(), first["has_more"].as_bool()),
            (Some("list"), 2, Some(true)),
            "{provider}"
        );
        let last = first["last_id"].as_str().unwrap();
        let second = page(&format!("limit=2&after={last}"), false).unwrap();
        assert_eq!((ids(&second).len(), second["has_more"].as_bool()), (1, Some(false)), "{provider}");
        let end = ids(&second)[0].clone();
        assert!(!ids(&first).contains(&end), "{provider}");
        assert_eq!(ids(&page(&format!("after={end}"), false).unwrap()), Vec::<String>::new());
        assert_eq!(page("after=nothing", false).unwrap_err().0, 400);
        // No list ends as if it were complete, and no client reads the same page for ever.
        if *provider != "together-ai" {
            assert_eq!(page("", true).unwrap()["has_more"], true);
            assert_eq!(page(&format!("after={end}"), true).unwrap_err().0, 400, "{provider}");
        }
        let path_of =
            |query| find(provider).unwrap().path(&call(LIST, Some(query), &Method::GET), &account());
        for query in ["limit=0", "limit=x", "limit=1001"] {
            assert_eq!(path_of(query).unwrap_err().param.as_deref(), Some("limit"), "{provider}");
        }
    }
}

#[test]
fn events_and_checkpoints_are_openais_where_there_are_any() {
    for (provider, states) in STATES {
        let failed = states.iter().find(|(_, wanted)| *wanted == "failed").unwrap().0;
        let job = job(provider, failed);
        let sent = if *provider == "together-ai" { json!({"data": job["events"]}) } else { job.clone() };
        let place = (Operation::FineTuningEvents, "fine_tuning/jobs/j-1/events");
        let events = received(provider, place, Some("limit=1"), &sent).unwrap();
        let event = &events["data"][0];
        assert_eq!(event["object"], "fine_tuning.job.event", "{provider} {events}");
        assert!(
            event["level"] == "error" && event["message"].as_str().unwrap().contains("bad line"),
            "{provider} {events}"
        );
        assert!(event["id"].as_str().unwrap().starts_with("ftevent-j-1-"), "{provider} {events}");
        let place = (Operation::FineTuningCheckpoints, "fine_tuning/jobs/j-1/checkpoints");
        let sent = match *provider {
            "together-ai" => {
                json!({"data": [{"step": 10, "created_at": "2026-01-02T03:04:05Z", "path": "p", "checkpoint_type": "Final"}]})
            }
            _ => job,
        };
        match adapter(provider, place.0) {
            Err(error) => {
                assert_eq!((error.status(), ["fireworks-ai", "bedrock"].contains(provider)), (501, true));
            }
            Ok(_) => {
                let list = received(provider, place, None, &sent).unwrap();
                let checkpoint = &list["data"][0];
                assert_eq!(
                    (&checkpoint["object"], &checkpoint["step_number"]),
                    (&json!("fine_tuning.job.checkpoint"), &json!(10))
                );
                assert_eq!(
                    (&checkpoint["id"], &checkpoint["metrics"]["step"]),
                    (&json!("ftckpt-j-1-10"), &json!(10)),
                    "{provider}"
                );
            }
        }
    }
}

#[test]
fn responses_that_are_no_jobs_are_errors() {
    for provider in VENDORS {
        for (operation, path) in [CREATE, LIST, (Operation::FineTuningGet, "fine_tuning/jobs/j-1")] {
            for odd in [
                json!([]),
                json!("x"),
                json!({"id": 3, "data": 3, "name": 3, "tuningJobs": 3,
                "supervisedFineTuningJobs": 3, "modelCustomizationJobSummaries": 3, "jobArn": 3}),
            ] {
                let error = received(provider, (operation, path), None, &odd).unwrap_err();
                assert_eq!(error.0, 502, "{provider} {operation:?} {odd}");
            }
        }
    }
}
