//! Cloud C: Azure OpenAI and Azure AI Foundry. They speak our shape at addresses of their own; Claude on
//! Foundry speaks Anthropic's.
//!
//! | file | what it knows |
//! |---|---|
//! | `openai` | resources: deployments, their aliases, API versions |
//! | `foundry` | Foundry resources, serverless and managed endpoints, Claude |
//! | `sign_in` | keys, tokens, and which grant an account asks for |
//! | `grant` | how tokens are fetched: client secret, managed identity, workload identity |
//! | `address` | what a custom host and a query say |

mod address;
mod auth;
mod credentials;
mod foundry;
mod openai;

pub use foundry::{AzureAi, SPEC as FOUNDRY_ROW};
pub use openai::{AzureOpenAi, SPEC as OPENAI_ROW};

#[cfg(test)]
mod tests;
