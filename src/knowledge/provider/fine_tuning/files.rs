//! Files at vendors whose files differ a little from OpenAI's: another path for uploads, members that are missing.
//!
//! The files are the vendor's, and so are their ids. Sources: <https://docs.together.ai/reference/upload-file>,
//! <https://docs.together.ai/reference/get-files>, <https://docs.mistral.ai/api/endpoint/files>.

use crate::provider::adapter::ResponsePatch;
use serde_json::{Map, Value};
use words::api::operation::Operation;

/// How one vendor's files differ.
#[derive(Debug)]
pub struct FileApi {
    /// Where files are uploaded, relative to the version segment.
    pub upload_path: &'static str,
}

/// Together's.
pub static TOGETHER: FileApi = FileApi { upload_path: "files/upload" };
/// Mistral's.
pub static MISTRAL: FileApi = FileApi { upload_path: "files" };

impl FileApi {
    /// What corrects the responses of an operation; `None` for one that has none of these members.
    pub const fn patch(&self, operation: Operation) -> Option<&'static dyn ResponsePatch> {
        match operation {
            Operation::FilesUpload | Operation::FilesList | Operation::FilesGet | Operation::FilesDelete => {
                Some(&FilePatch)
            }
            _ => None,
        }
    }
}

/// Adds what OpenAI's clients expect of a file, of a list of files, and of a deletion.
#[derive(Debug)]
struct FilePatch;

impl ResponsePatch for FilePatch {
    fn patch(&self, data: &[u8], _streamed: bool) -> Option<Vec<u8>> {
        let mut response: Map<String, Value> = serde_json::from_slice(data).ok()?;
        if response.contains_key("error") {
            return None;
        }
        let before = response.clone();
        if let Some(Value::Array(files)) = response.get_mut("data") {
            files.iter_mut().filter_map(Value::as_object_mut).for_each(complete);
            response.entry("object").or_insert_with(|| "list".into());
            // Neither vendor says whether there are more; OpenAI's clients take a list without it as the last page.
            response.entry("has_more").or_insert(false.into());
        } else if response.contains_key("deleted") {
            response.entry("object").or_insert_with(|| "file".into());
        } else if response.contains_key("id") {
            complete(&mut response);
        }
        if response == before { None } else { serde_json::to_vec(&response).ok() }
    }
}

fn complete(file: &mut Map<String, Value>) {
    // Together's name for it. Mistral's files are there when they are listed.
    let is_processed = file.get("Processed").or_else(|| file.get("processed")).and_then(Value::as_bool);
    file.entry("object").or_insert_with(|| "file".into());
    let status = if is_processed == Some(false) { "uploaded" } else { "processed" };
    file.entry("status").or_insert_with(|| status.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_get_what_openais_clients_expect() {
        let patched = |value: &Value| {
            let bytes = FilePatch.patch(value.to_string().as_bytes(), false);
            bytes.map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap())
        };
        // The example of Together's reference.
        let file = json!({"id": "file-1", "object": "file", "created_at": 1_715_021_438, "filename": "a.jsonl",
            "bytes": 1, "purpose": "fine-tune", "Processed": true, "FileType": "jsonl", "LineCount": 0});
        let complete = patched(&file).unwrap();
        assert_eq!((&complete["status"], &complete["LineCount"]), (&json!("processed"), &json!(0)));
        let list = patched(&json!({"data": [file, {"id": "file-2", "Processed": false}]})).unwrap();
        assert_eq!((&list["object"], &list["has_more"]), (&json!("list"), &json!(false)));
        assert_eq!(
            (&list["data"][1]["object"], &list["data"][1]["status"]),
            (&json!("file"), &json!("uploaded"))
        );
        let deleted = patched(&json!({"id": "file-1", "deleted": true})).unwrap();
        assert_eq!(deleted, json!({"id": "file-1", "object": "file", "deleted": true}));
        for same in [
            json!({"id": "f", "object": "file", "status": "error"}),
            json!({"error": {"message": "no"}}),
            json!([]),
        ] {
            assert_eq!(patched(&same), None, "{same}");
        }
    }
}
