//! Bedrock's model customization jobs, on its control plane.

use super::{Stage, TuningJob, advance, page, put, read, time};
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use http::StatusCode;
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Bedrock;

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    const MEMBERS: &[&str] = &[
        "jobName",
        "customModelName",
        "roleArn",
        "clientRequestToken",
        "baseModelIdentifier",
        "customizationType",
        "customModelKmsKeyId",
        "jobTags",
        "customModelTags",
        "trainingDataConfig",
        "validationDataConfig",
        "outputDataConfig",
        "hyperParameters",
        "vpcConfig",
    ];
    const SETTINGS: &[&str] =
        &["epochCount", "batchSize", "learningRate", "learningRateMultiplier", "learningRateWarmupSteps"];
    let request = read(call, DIALECT, MEMBERS, "/hyperParameters", SETTINGS)?;
    for name in ["jobName", "customModelName", "roleArn", "baseModelIdentifier"] {
        if request.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(ApiError::bad(format!("1 validation error detected: {name} must not be null"))
                .in_dialect(DIALECT));
        }
    }
    let settings = request.get("hyperParameters").and_then(Value::as_object);
    if settings.is_some_and(|settings| settings.values().any(|value| !value.is_string())) {
        return Err(ApiError::bad("hyperParameters must be texts").in_dialect(DIALECT));
    }
    let model = request.get("baseModelIdentifier").and_then(Value::as_str).unwrap_or_default();
    let id = call.state.id("", 12).to_ascii_lowercase();
    let arn = format!("arn:aws:bedrock:us-east-1:123456789012:model-customization-job/{model}/{id}");
    put(call, "bedrock", &arn, &request);
    let mut reply = Reply::value(&json!({"jobArn": arn})).in_dialect(DIALECT);
    reply.status = StatusCode::CREATED;
    Ok(reply)
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (jobs, next) = page(call, "bedrock", "maxResults", "nextToken");
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|job| {
            let full = view(job);
            let member = |name: &str| full.get(name).cloned().unwrap_or_default();
            json!({
                "jobArn": member("jobArn"), "jobName": member("jobName"), "baseModelArn": member("baseModelArn"),
                "status": member("status"), "creationTime": member("creationTime"),
                "lastModifiedTime": member("lastModifiedTime"), "customModelName": member("outputModelName"),
                "customizationType": "FINE_TUNING",
            })
        })
        .collect();
    Ok(Reply::value(&json!({"modelCustomizationJobSummaries": jobs, "nextToken": next})).in_dialect(DIALECT))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let job = advance(call, call.id, "/trainingDataConfig/s3Uri", DIALECT)?;
    Ok(Reply::value(&view(&job)).in_dialect(DIALECT))
}

pub(super) fn stop(call: &Call<'_>) -> Result<Reply, ApiError> {
    super::cancel(call, call.id, DIALECT)?;
    Ok(Reply::value(&json!({})).in_dialect(DIALECT))
}

fn view(job: &TuningJob) -> Value {
    let (status, validation, training) = match job.stage {
        Stage::Created => ("InProgress", "NotStarted", "NotStarted"),
        Stage::Validating => ("InProgress", "InProgress", "NotStarted"),
        Stage::Running => ("InProgress", "Completed", "InProgress"),
        Stage::Succeeded => ("Completed", "Completed", "Completed"),
        Stage::Failed => ("Failed", "Failed", "NotStarted"),
        Stage::Cancelled => ("Stopped", "Stopped", "Stopped"),
    };
    let step = |status: &str| json!({"status": status, "creationTime": time(job.created), "lastModifiedTime": time(job.updated)});
    let base = format!("arn:aws:bedrock:us-east-1::foundation-model/{}", job.text("/baseModelIdentifier"));
    let mut view = json!({
        "jobArn": job.id, "jobName": job.member("/jobName"), "outputModelName": job.member("/customModelName"),
        "roleArn": job.member("/roleArn"), "status": status, "baseModelArn": base,
        "creationTime": time(job.created), "lastModifiedTime": time(job.updated),
        "hyperParameters": job.member("/hyperParameters"), "trainingDataConfig": job.member("/trainingDataConfig"),
        "validationDataConfig": job.member("/validationDataConfig"),
        "outputDataConfig": job.member("/outputDataConfig"), "customizationType": "FINE_TUNING",
        "statusDetails": {"validationDetails": step(validation), "dataProcessingDetails": step(validation), "trainingDetails": step(training)},
    });
    if let Some(members) = view.as_object_mut() {
        if job.stage.is_final() {
            members.insert("endTime".to_owned(), time(job.updated).into());
        }
        match job.stage {
            Stage::Succeeded => {
                let arn = "arn:aws:bedrock:us-east-1:123456789012:custom-model/";
                let arn = format!("{arn}{}", job.text("/customModelName"));
                members.insert("outputModelArn".to_owned(), arn.into());
            }
            Stage::Failed => {
                members.insert("failureMessage".to_owned(), json!("The training data has no records."));
            }
            _ => {}
        }
    }
    view
}
