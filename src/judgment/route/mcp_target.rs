//! The target that a stored MCP server is: one, with the headers that are saved with it, its workspace's guardrails and a circuit.
//!
//! Made of a record, and never of a config: no client names its address.

use super::compiled::{CompiledConfig, Node};
use super::config_hooks::ConfigHooks;
use super::target::Target;
use knowledge::price::OwnPrices;
use knowledge::provider::mcp::McpServers;
use knowledge::provider::token_exchange::TokenExchange;
use memory::state::directory::ProviderIds;
use memory::state::metrics::TargetSeries;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::stored::mcp_servers::StoredMcpServer;
use memory::state::targets::TargetId;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uuid::Uuid;
use words::api::operation::Operation;
use words::config::account::Account;
use words::config::policies::{BreakerPolicy, Policies};
use words::error::Error;

/// How long a server may take where the settings have no `limits.request_timeout`.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Five failures within half a minute open the circuit of a server, for half a minute.
const BREAKER: BreakerPolicy =
    BreakerPolicy { threshold: 5, cooldown: Duration::from_secs(30), statuses: None };

/// The config of a call of a server, for clients of a workspace. `tool`: what is called if it is a tool, by the server's name of it and by the
/// client's, which is the model of the request. `sign_in`: how the client's calls are authorized there, beside the server's headers.
///
/// # Errors
/// 400 for guardrails that cannot run.
pub fn compile_mcp(
    snapshot: &SettingsSnapshot,
    server: &StoredMcpServer,
    workspace: Option<Uuid>,
    tool: Option<(&str, &str)>,
    sign_in: Option<Arc<dyn TokenExchange>>,
) -> Result<CompiledConfig, Error> {
    let mut policies = snapshot.settings.policies();
    policies.request_timeout = policies.request_timeout.or(Some(CALL_TIMEOUT));
    policies.breaker = Some(BREAKER);
    let hooks = ConfigHooks::new(snapshot.directory(workspace));
    let of_target = hooks.of_target(&Policies::default());
    let hook_bytes = hooks.finish()?;
    let api = match &server.api {
        None => None,
        Some(api) => {
            let found = tool.and_then(|(own_name, _)| api.tool(own_name));
            Some(found.ok_or_else(|| Error::internal("an API is called by no tool of it"))?)
        }
    };
    let target = Target {
        path: "config".to_owned(),
        provider: &McpServers,
        slug: Some(server.slug.clone()),
        host: None,
        ids: ProviderIds::default(),
        model_config: None,
        prompt: None,
        api,
        account: Account { custom_host: Some(server.url.clone()), ..Account::default() },
        own_prices: tool.and_then(|(own_name, label)| prices(server, own_name, label)),
        models: None,
        allowed: None,
        by_model_name: false,
        origin: server.origin.clone(),
        hooks: of_target,
        policies,
        id: TargetId {
            config: format!("mcp.{}", server.slug),
            index: "config".to_owned(),
            provider: "mcp",
            slug: Some(server.slug.clone()),
            model: None,
            hash: server.revision ^ (server.id.as_u128() as u64),
        },
        config_warnings: Arc::from([]),
        state: OnceLock::new(),
        is_clients_own: false,
        operator_account: false,
        layers: OnceLock::new(),
        series: TargetSeries::default(),
        index_header: OnceLock::new(),
        auth: OnceLock::from((Operation::McpCall, Arc::new(server.headers.clone()))),
        token_exchange: OnceLock::from(sign_in),
    };
    Ok(CompiledConfig::new(Node::Target(Arc::new(target)), None).with_hook_bytes(hook_bytes))
}

/// The price of a call of a tool, where it has one.
fn prices(server: &StoredMcpServer, own_name: &str, label: &str) -> Option<Arc<OwnPrices>> {
    let cents = server.price(own_name)?;
    let identity = format!("mcp {} {} {own_name}", server.id, server.revision);
    OwnPrices::of_call(label, cents, &identity).map(Arc::new)
}
