//! Training data: OpenAI's lines of chats, written as a vendor takes them.
//!
//! The vendor's own translation of a chat makes each line, so that an example means what the same chat means when it is called.
//! Not where data are read from and sent to (`proxy::fine_tuning`).

use crate::provider::translation::{PrepareOptions, prepare};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::{Call, Provider};
use http::Method;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;
use words::error::Error;

/// A vendor's format of one line.
#[derive(Debug, Clone, Copy)]
pub enum TrainingFormat {
    /// OpenAI's.
    Chat,
    /// These members of the vendor's request for the chat, and one that is the same in every line.
    Members { names: &'static [&'static str], fixed: Option<(&'static str, &'static str)> },
}

/// Writes the lines of one file.
#[derive(Debug)]
pub struct TrainingWriter<'a> {
    provider: &'static dyn Provider,
    account: &'a Account,
    model: &'a str,
    format: TrainingFormat,
    max_bytes: usize,
    out: Vec<u8>,
}

impl<'a> TrainingWriter<'a> {
    /// `model`: the base model, by which the format of a chat is chosen; `max_bytes`: the largest result.
    pub const fn new(
        provider: &'static dyn Provider,
        account: &'a Account,
        model: &'a str,
        format: TrainingFormat,
        max_bytes: usize,
    ) -> Self {
        Self { provider, account, model, format, max_bytes, out: Vec::new() }
    }

    /// Writes one line. `param`: the member of the request that names the file; `number`: of the line, from 1.
    ///
    /// # Errors
    /// 400 with the number of a line that cannot be written, or with which the result is too large.
    pub fn push(&mut self, param: &str, number: u32, line: &[u8]) -> Result<(), Error> {
        let wrong = |why: String| {
            let message = format!("Line {number} of {param}: {why}");
            Error::invalid_request(param, message).with_provider(self.provider.id())
        };
        let example: Map<String, Value> =
            serde_json::from_slice(line).map_err(|why| wrong(format!("it is no JSON object: {why}.")))?;
        check(&example).map_err(wrong)?;
        match self.format {
            TrainingFormat::Chat => self.out.extend_from_slice(line.trim_ascii()),
            TrainingFormat::Members { names, .. }
                if example.contains_key("tools") && !names.contains(&"tools") =>
            {
                return Err(wrong("tools have no place in the training data of this provider.".to_owned()));
            }
            TrainingFormat::Members { names, fixed } => {
                let written = self.members(example, names, fixed).map_err(|error| wrong(error.message))?;
                self.out.extend_from_slice(&written);
            }
        }
        self.out.push(b'\n');
        if self.out.len() > self.max_bytes {
            let most = self.max_bytes >> 20;
            return Err(wrong(format!("the data are over {most} MiB, the most that the gateway converts.")));
        }
        Ok(())
    }

    fn members(
        &self,
        example: Map<String, Value>,
        names: &[&str],
        fixed: Option<(&'static str, &'static str)>,
    ) -> Result<Vec<u8>, Error> {
        let mut chat = example;
        chat.insert("model".to_owned(), self.model.into());
        let body = serde_json::to_vec(&chat).map_err(|_| Error::internal("an example cannot be written"))?;
        let body =
            Body::parse(body.into()).map_err(|_| Error::internal("an example cannot be read again"))?;
        let call = Call {
            operation: Operation::ChatCompletions,
            method: &Method::POST,
            path: "chat/completions",
            query: None,
            model: Some(self.model),
            streamed: false,
        };
        let options = PrepareOptions {
            strict: true,
            stream_usage: false,
            client_betas: None,
            learned: None,
            prompt_cache: None,
        };
        let mut notes = TranslationNotes::default();
        let prepared = prepare(self.provider, &call, self.account, Some(&body), options, &mut notes)?;
        let request = prepared.body.unwrap_or_default();
        let request: BTreeMap<&str, &RawValue> = serde_json::from_slice(&request)
            .map_err(|_| Error::internal("a translated chat is no object"))?;
        let mut line: BTreeMap<&str, &RawValue> =
            names.iter().filter_map(|name| Some((*name, *request.get(name)?))).collect();
        let fixed =
            fixed.and_then(|(name, json)| Some((name, serde_json::from_str::<&RawValue>(json).ok()?)));
        line.extend(fixed);
        serde_json::to_vec(&line).map_err(|_| Error::internal("an example cannot be written"))
    }

    /// All lines.
    ///
    /// # Errors
    /// 400 for a file without lines.
    pub fn finish(self, param: &str) -> Result<Vec<u8>, Error> {
        if self.out.is_empty() {
            return Err(Error::invalid_request(param, format!("{param} has no examples.")));
        }
        Ok(self.out)
    }
}

/// Refuses what is no example of a chat, and what other vendors cannot learn from.
fn check(example: &Map<String, Value>) -> Result<(), String> {
    if let Some(name) = example.keys().find(|name| !matches!(name.as_str(), "messages" | "tools")) {
        return Err(format!("{name} cannot be converted, only messages and tools."));
    }
    let messages = example.get("messages").and_then(Value::as_array).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| "messages must be a list of at least one message.".to_owned())?;
    if messages.iter().any(|message| message.get("weight").is_some()) {
        return Err("the weight of a message cannot be converted.".to_owned());
    }
    match messages.last().and_then(|message| message.get("role")).and_then(Value::as_str) {
        Some("assistant") => Ok(()),
        _ => Err("the last message must be the assistant's: it is what the model learns.".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::find;
    use serde_json::json;

    fn account() -> Account {
        let mut account = Account::default();
        account.cloud_a.region = Some("us-east-1".to_owned());
        account.cloud_b.region = Some("us-central1".to_owned());
        account.cloud_b.project_id = Some("p".to_owned());
        account
    }

    fn written(provider: &str, model: &str, lines: &[String]) -> Result<Vec<Value>, Error> {
        let account = account();
        let provider = find(provider).unwrap();
        let format = provider.training_format().unwrap();
        let mut writer = TrainingWriter::new(provider, &account, model, format, 1 << 20);
        for (index, line) in lines.iter().enumerate() {
            writer.push("training_file", u32::try_from(index).unwrap() + 1, line.as_bytes())?;
        }
        let text = String::from_utf8(writer.finish("training_file")?).unwrap();
        Ok(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn example() -> Value {
        json!({"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."}]})
    }

    #[test]
    fn lines_are_written_as_each_vendor_takes_them() {
        // <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/models/gemini-supervised-tuning-prepare>
        let vertex = written("vertex-ai", "gemini-2.5-flash", &[example().to_string()]).unwrap();
        assert_eq!(
            vertex,
            [json!({"systemInstruction": {"parts": [{"text": "Be short."}]}, "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Hello."}]}]})]
        );
        // <https://docs.aws.amazon.com/bedrock/latest/userguide/model-customization-prepare.html>
        let bedrock = written("bedrock", "amazon.nova-lite-v1:0", &[example().to_string()]).unwrap();
        assert_eq!(
            bedrock,
            [
                json!({"schemaVersion": "bedrock-conversation-2024", "system": [{"text": "Be short."}], "messages": [
            {"role": "user", "content": [{"text": "Hi"}]}, {"role": "assistant", "content": [{"text": "Hello."}]}]})
            ]
        );
        let fireworks = written("fireworks-ai", "m", &[example().to_string()]).unwrap();
        assert_eq!(fireworks, [example()]);
        for provider in ["openai", "azure-openai", "mistral-ai", "together-ai"] {
            assert!(find(provider).unwrap().training_format().is_none(), "{provider} keeps its own files");
        }
    }

    #[test]
    fn a_line_that_cannot_be_converted_is_named_by_its_number() {
        let user = json!({"messages": [{"role": "user", "content": "Hi"}]});
        let weight = json!({"messages": [{"role": "assistant", "content": "x", "weight": 0}]});
        let tools = json!({"messages": example()["messages"], "tools": [{"type": "function", "function": {"name": "f"}}]});
        let refused = written("bedrock", "amazon.nova-lite-v1:0", &[tools.to_string()]).unwrap_err();
        assert!(refused.message.contains("tools"), "{}", refused.message);
        let preference = json!({"input": {"messages": []}, "preferred_output": []});
        for odd in [
            "{",
            "[]",
            "3",
            r#"{"messages": []}"#,
            &user.to_string(),
            &weight.to_string(),
            &preference.to_string(),
        ] {
            for provider in ["vertex-ai", "bedrock", "fireworks-ai"] {
                let error = written(provider, "gemini-2.5-flash", &[example().to_string(), odd.to_owned()])
                    .unwrap_err();
                assert_eq!((error.status(), error.param.as_deref()), (400, Some("training_file")), "{odd}");
                assert!(error.message.starts_with("Line 2 of training_file: "), "{}", error.message);
            }
        }
        assert_eq!(written("bedrock", "m", &[]).unwrap_err().status(), 400);
    }
}
