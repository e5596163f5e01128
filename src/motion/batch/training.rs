//! Training data for fine-tuning that clients have uploaded to the gateway: a file, read line by line.
//!
//! What a line must be is the provider's (`provider::fine_tuning::training`).

use super::batches::Batches;
use super::lines::LineReader;
use memory::auth::ClientIdentity;
use serde_json::Value;
use words::error::Error;

/// The longest line, bytes.
const MAX_LINE: usize = 4 << 20;

/// Gives each line of a client's file, with its number, to `each`. `param`: the member of the request that names the file with this id.
///
/// # Errors
/// 404 for a file that the client's workspace has not; 400 for one that was uploaded for something else, for a line that is too
/// long, and those of `each`.
pub async fn read_training(
    batches: &Batches,
    client: &ClientIdentity,
    param: &str,
    id: &str,
    mut each: impl FnMut(u32, &[u8]) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    let file = batches.file(client, id).await?;
    if file.get("purpose").and_then(Value::as_str) != Some("fine-tune") {
        let message = format!("{param} must be a file that was uploaded with the purpose fine-tune.");
        return Err(Error::invalid_request(param, message));
    }
    let content = batches.content(client, id).await?;
    let mut lines = LineReader::new(content.stream, MAX_LINE);
    while let Some(line) = lines.next().await? {
        let line = line.map_err(|error| {
            let number = error.line.map_or_else(String::new, |number| number.to_string());
            let message = format!("Line {number} of {param}: {}", error.message);
            Error::invalid_request(param, message)
        })?;
        each(line.number, &line.bytes)?;
    }
    Ok(())
}
