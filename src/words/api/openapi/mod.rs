//! Tools made of the operations of an OpenAPI document (3.0 and 3.1): what a document offers, the HTTP request that a call of a tool is, and
//! the result that its response is.
//!
//! Pure: no connection, no credentials. Where a document is stored, who may use a tool, and how a call is sent, is decided elsewhere.
//!
//! 1. [`document`] reads a document into [`tool::ApiTool`]s. What no tool can be made of is left out, and named.
//! 2. [`tool::ApiTool::request`] judges the arguments of a call by the tool's schema and makes the request of them.
//! 3. [`answer::ApiHead::result`] makes the result of a tool of the response.

pub mod answer;
pub mod document;
mod encoding;
mod operation;
mod path;
mod references;
mod schema;
pub mod tool;

#[cfg(test)]
mod tests;
