//! MCP servers by the official Python SDK, as a process of a test.

use super::client::client;
use super::packages;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Stdio};

/// The server of `tests/sdk/mcp_server.py`; ends when it is dropped, or with this process.
pub(crate) struct SdkServer {
    process: Child,
    _stdin: ChildStdin,
    port: u16,
}

impl SdkServer {
    pub(crate) fn start() -> Option<Self> {
        let mut command = packages::python("mcp", "mcp_server.py")?;
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let port = ready["port"].as_u64().unwrap().try_into().unwrap();
        Some(Self { _stdin: process.stdin.take().unwrap(), process, port })
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}/mcp", self.port)
    }

    /// How often each of its servers was initialized.
    pub(crate) async fn calls(&self) -> Value {
        let url = format!("http://127.0.0.1:{}/calls", self.port);
        client().get(url).send().await.unwrap().json().await.unwrap()
    }
}

impl Drop for SdkServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
