//! MCP servers, as the engine sees them: each call of a client is one POST of a JSON-RPC message to the server's address.
//!
//! Not in the list of providers: no client and no config can name it. Its targets are made of stored MCP servers (`route::mcp_target`), with
//! their headers. Sessions are not its matter: their header comes with the request.

use super::adapter::{Adapter, JsonAdapter};
use super::{Call, Provider};
use http::HeaderMap;
use std::borrow::Cow;
use words::api::body::Body;
use words::api::chat::ProviderError;
use words::api::mcp::envelope::response;
use words::api::mcp::reply::McpReply;
use words::api::openapi::answer::ApiHead;
use words::config::account::Account;
use words::error::Error;

/// The provider `mcp`.
#[derive(Debug)]
pub struct McpServers;

/// Finds the response of the request, whether the server sends a document or events.
#[derive(Debug)]
struct Replies;

impl JsonAdapter for Replies {
    fn read(&self, body: &[u8], request: Option<&Body>, _model: &str) -> Result<Vec<u8>, ProviderError> {
        let id = request.and_then(|request| request.raw("id")).unwrap_or("null");
        let reply = McpReply::find(body, id).map_err(ProviderError::unreadable)?;
        Ok(response(id, &reply))
    }
}

/// The response to a call of a tool that is an operation of an API, as an MCP server would send it. `request`: the call's message.
pub(super) fn api_response(head: &ApiHead, body: &[u8], request: Option<&Body>) -> Vec<u8> {
    let id = request.and_then(|request| request.raw("id")).unwrap_or("null");
    response(id, &McpReply::Result(head.result(body)))
}

/// The error that the response of an API is: its status, where that is no success.
pub(super) fn api_error(head: &ApiHead) -> Option<String> {
    (!head.is_success()).then(|| format!("http_{}", head.status))
}

/// The id of the provider that all MCP servers are.
pub const ID: &str = "mcp";

impl Provider for McpServers {
    fn id(&self) -> &'static str {
        ID
    }

    /// # Errors
    /// Each has an address of its own.
    fn base_url(&self, _account: &Account) -> Result<Cow<'static, str>, Error> {
        Err(Error::internal("an MCP server without an address"))
    }

    /// The address is a path already; its slash at the end, which is no part of a base path, is one to some servers.
    fn path(&self, _call: &Call<'_>, account: &Account) -> Result<String, Error> {
        let url = account.custom_host.as_deref().unwrap_or_default();
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
        let is_bare = path.is_none_or(|path| path.is_empty() || path.ends_with('/'));
        Ok(if is_bare { "/".to_owned() } else { String::new() })
    }

    fn adapter(&self, _call: &Call<'_>, _account: &Account) -> Result<Adapter, Error> {
        Ok(Adapter::Json(&Replies))
    }

    /// The headers of a server are its target's.
    fn authorize(&self, _call: &Call<'_>, _account: &Account, _headers: &mut HeaderMap) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use words::api::operation::Operation;

    #[test]
    fn a_server_is_called_at_its_address() {
        for (url, wanted) in [
            ("http://a.example/mcp", ""),
            ("http://a.example/mcp/", "/"),
            ("http://a.example", "/"),
            ("http://a.example/", "/"),
        ] {
            let account = Account { custom_host: Some(url.to_owned()), ..Account::default() };
            let call = Call {
                operation: Operation::McpCall,
                method: &Method::POST,
                path: "mcp",
                query: None,
                model: None,
                streamed: false,
            };
            assert_eq!(McpServers.path(&call, &account).unwrap(), wanted, "{url}");
        }
    }

    #[test]
    fn responses_are_found_by_the_id_of_their_request() {
        let request =
            Body::parse(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#.as_slice().into()).unwrap();
        let events = b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n";
        let read = |body: &[u8]| Replies.read(body, Some(&request), "");
        assert_eq!(read(events).unwrap(), br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":8,"result":{}}"#).unwrap_err().status, 502);
    }
}
