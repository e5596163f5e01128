//! Azure's fine-tuning jobs have OpenAI's shape, with states of their own.
//!
//! Source: <https://learn.microsoft.com/rest/api/azureopenai/fine-tuning/get>.

use crate::provider::adapter::ResponsePatch;
use serde_json::Value;

/// Corrects the states of a job, or of the jobs of a list.
#[derive(Debug)]
pub(super) struct JobPatch;

/// Azure's state, and OpenAI's.
const STATES: &[(&str, &str)] = &[
    ("created", "queued"),
    ("pending", "queued"),
    ("notRunning", "queued"),
    ("canceled", "cancelled"),
    ("deleted", "cancelled"),
];

impl ResponsePatch for JobPatch {
    fn patch(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
        let mut response: Value = serde_json::from_slice(data).ok()?;
        let is_changed = match response.get_mut("data") {
            // Events and checkpoints have no state.
            Some(Value::Array(jobs)) => jobs.iter_mut().map(correct).filter(|changed| *changed).count() > 0,
            _ => correct(&mut response),
        };
        if is_changed { serde_json::to_vec(&response).ok() } else { None }
    }
}

fn correct(job: &mut Value) -> bool {
    let mut is_changed = false;
    if let Some(status) = job.get_mut("status")
        && let Some((_, own)) = STATES.iter().find(|(azures, _)| status.as_str() == Some(*azures))
    {
        *status = Value::from(*own);
        is_changed = true;
    }
    // Azure's way to write that it chooses the number itself.
    if let Some(epochs) = job.pointer_mut("/hyperparameters/n_epochs")
        && epochs.as_i64() == Some(-1)
    {
        *epochs = Value::from("auto");
        is_changed = true;
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_become_the_specs() {
        let patched = |json: &str| {
            JobPatch.patch(json.as_bytes(), false).map(|bytes| String::from_utf8(bytes).unwrap())
        };
        // The response of the page above, shortened.
        let job = r#"{"hyperparameters":{"n_epochs":-1},"status":"pending","model":"curie","id":"ft-1"}"#;
        let value: Value = serde_json::from_str(&patched(job).unwrap()).unwrap();
        assert_eq!(
            (&value["status"], &value["hyperparameters"]["n_epochs"]),
            (&"queued".into(), &"auto".into())
        );
        let list =
            r#"{"object":"list","data":[{"status":"running"},{"status":"notRunning"},{"status":"created"}]}"#;
        let list: Value = serde_json::from_str(&patched(list).unwrap()).unwrap();
        let states: Vec<&str> =
            list["data"].as_array().unwrap().iter().filter_map(|job| job["status"].as_str()).collect();
        assert_eq!(states, ["running", "queued", "queued"]);
        for same in [r#"{"status":"succeeded"}"#, r#"{"data":[{"level":"info"}]}"#, "no JSON", "[]"] {
            assert_eq!(patched(same), None, "{same}");
        }
    }
}
