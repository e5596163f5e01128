//! The control plane: a second Pingora service with health, metrics and the API for operators.
//!
//! A resource is one file with a table of routes ([`route`]) and tables of fields ([`field`]), and a line in [`routes`]. What is done
//! with every stored object is in [`resource`], so that the file of one has only its own rules. Handlers do not use the data plane;
//! both planes share state only through `Shared` and its store.
//!
//! One table of fields reads a request, reports all its problems and describes it in the OpenAPI document, so the three cannot
//! differ. `dispatch` is the one place that judges a control client. A handler gets a `Call`: who, in which workspace, what was
//! sent. `Call::commit` writes changes with their entry of the audit log, and puts them in force before it returns.
//! `tests/control_access.rs` is made from the document: a new route is tested for missing keys and scopes as soon as it exists.

pub mod alerts;
mod analytics;
mod api_keys;
mod arrival;
mod audit;
mod audit_logs;
mod batches;
mod cache;
mod call;
mod collections;
mod configs;
mod console;
mod credential;
mod declared;
mod dialect;
mod dispatch;
mod error;
pub mod explain;
mod feedback;
mod field;
pub mod first_start;
mod giving;
mod guardrail_owner;
mod guardrails;
mod health;
mod integrations;
mod labels;
mod limit_owner;
mod limits;
mod log_filter;
mod log_view;
mod logs;
mod masking;
mod mcp_bundles;
mod mcp_servers;
pub mod metrics;
mod model_names;
mod nodes;
mod numbered;
mod objects;
mod openapi;
mod origin;
mod origin_guard;
mod own_limits;
mod page;
mod partials;
mod policies;
mod pricing;
mod prompts;
mod provider_drain;
mod provider_trial;
mod providers;
mod read_only_env;
mod records;
mod reply;
mod resource;
mod route;
mod routes;
mod services;
mod settings;
mod stage;
mod targets;
mod unserved;
mod used;
mod users;
mod virtual_keys;
mod work;
mod workspaces;

pub use error::invalid_head;
pub use objects::{ObjectChange, ObjectKind, ObjectList, object_kinds};
pub use openapi::document as openapi_document;
pub use routes::{Port, control_paths, router};
pub use services::Services;

use memory::auth::ORGANISATION;
