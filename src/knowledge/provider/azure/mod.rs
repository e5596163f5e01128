//! Cloud C: Azure OpenAI and Azure AI Foundry. Both use OpenAI's API shape at their own URLs; Claude on Foundry
//! uses Anthropic's.
//!
//! | file | contents |
//! |---|---|
//! | `openai` | resources: deployments, their aliases, API versions |
//! | `foundry` | Foundry resources, serverless and managed endpoints, Claude |
//! | `fine_tuning` | states of fine-tuning jobs |
//! | `auth` | keys, tokens, and which token exchange an account needs |
//! | `credentials` | token exchanges: client secret, managed identity, workload identity |
//! | `address` | API versions, custom hosts, queries |

mod address;
mod auth;
mod credentials;
mod fine_tuning;
mod foundry;
mod openai;

pub use foundry::{AzureAi, SPEC as FOUNDRY_ROW};
pub use openai::{AzureOpenAi, SPEC as OPENAI_ROW};

#[cfg(test)]
mod tests;
