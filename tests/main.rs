//! The one integration-test binary: every file of tests/ is a module here, so that the gateway is linked only
//! once.
//!
//! Not a place for tests. tests/house.rs checks that no file is forgotten.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "a test fails by panicking; clippy lets off test functions only, not what they call"
)]

mod shared_cache;
mod shared_streams;
mod similar_requests;
mod support;

mod admission;
mod alerts;
mod analytics;
mod anthropic_responses;
mod api_keys;
mod azure_paths;
mod batches;
mod batches_budget;
mod batches_hostile;
mod batches_interrupted;
mod batches_shared;
mod bills;
mod breakers;
mod broken_responses;
mod browsers;
mod budgets_under_load;
mod budgets_with_hooks;
mod cache_outages;
mod cached_calls;
mod cached_results;
mod cached_tenants;
mod caching;
mod chaos;
mod client_disconnects;
mod client_keys;
mod clients;
mod cloud_credentials;
mod commands;
mod compaction;
mod control;
mod control_access;
mod control_document;
mod control_names;
mod converted_kinds;
mod custom_hosts;
mod distribution;
mod downstreams;
mod error_names;
mod explain;
mod failures;
mod faults;
mod fine_tuning;
mod first_bytes;
mod gemini_dialect;
mod giving;
mod guard_detection;
mod guarded_calls;
mod guarded_operations;
mod guarded_requests;
mod guarded_texts;
mod guardrails;
mod held_memory;
mod held_requests;
mod hostile_input;
mod house;
mod http2;
mod integrations;
mod key_commands;
mod killed_gateway;
mod limit_rights;
mod limited_requests;
mod limits;
mod limits_counted;
mod limits_in_flight;
mod log_exports;
mod log_failures;
mod log_workspaces;
mod logged_costs;
mod logs;
mod max_connections;
mod mcp_servers;
mod memory_engine;
mod memory_returned;
mod messages;
mod metrics;
mod model_names;
mod models;
mod observability;
mod operation_limits;
mod operations;
mod operators;
mod outbound;
mod outputs;
mod outside_names;
mod own_calls;
mod own_dialects;
mod passing_headers;
mod policies;
mod prices;
mod prompts;
mod prose;
mod provider_batches;
mod provider_batches_cloud;
mod provider_batches_late;
mod published_requests;
mod realtime;
mod realtime_turns;
mod recipes;
mod recorded_prices;
mod recordings;
mod request_rules;
mod response_passthrough;
mod responses;
mod responses_only;
mod responses_socket;
mod roles;
mod routing;
mod saved_guardrails;
mod sdk;
mod sdk_types;
mod secrecy;
mod service_keys;
mod settings;
mod settings_schema;
mod shared_counters;
mod slow_clients;
mod smoke;
mod stages;
mod stale_connections;
mod starting;
mod stopping;
mod store_commands;
mod store_failures;
mod stored_objects;
mod streams;
mod strict_vendors;
mod systemd;
mod targets;
mod telemetry;
mod tls_listener;
mod token_estimates;
mod tokens;
mod transfer;
mod translations;
mod trust;
mod usage;
mod which_config;
mod wrong_answers;
