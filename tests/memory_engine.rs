//! The engine in the process of the tests, with a client in memory, and what such a client can observe.
//!
//! Not a test, and not the black-box harness (`support`): this uses the gateway's own types.

use crate::support::client::install_ring;
use crate::support::wait::until;
use bytes::Bytes;
use http::{HeaderMap, Method, Request as HttpRequest};
use judgment::route::admission::Endpoint;
use judgment::route::attempt::Request;
use judgment::route::compile::{Sources, compile};
use judgment::route::model_names::ModelNaming;
use judgment::route::plan::Plan;
use memory::cache::{CacheOptions, ResponseStore, SemanticIndex};
use memory::limits::{Calendar, Limits};
use memory::net::outbound::connector::Connector;
use memory::state::Shared;
use memory::state::access_log::AccessLog;
use memory::state::metrics::Metrics;
use memory::state::snapshot::SettingsSnapshot;
use motion::engine::Engine;
use motion::engine::attempt::Compile;
use motion::engine::caching::Caching;
use motion::engine::downstream::Downstream;
use motion::engine::memory_downstream::MemoryDownstream;
use motion::engine::orchestrator::Admitted;
use motion::engine::request_context::{CalledApi, RequestContext};
use motion::engine::request_env::RequestEnv;
use pingora::http::RequestHeader;
use pingora_core::server::configuration::ServerConf;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use words::api::body::Body;
use words::config::Checks;
use words::config::headers::GatewayHeaders;
use words::settings::{AccessLog as Output, SecretSources, Settings};

/// What a client got of a request, and what was recorded of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Observed {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    pub(crate) line: Value,
}

/// The headers and members that must be equal: times and what the client is are not.
pub(crate) fn observed(status: u16, headers: &HeaderMap, body: Vec<u8>, mut line: Value) -> Observed {
    let kept = |name: &str| name.starts_with("x-gateway-") || name == "content-type";
    let without_times = |text: &str| {
        let attempts =
            text.split(", ").map(|attempt| attempt.rsplit_once(':').map_or(attempt, |(before, _)| before));
        attempts.collect::<Vec<_>>().join(", ")
    };
    let headers = headers.iter().filter(|(name, _)| kept(name.as_str())).map(|(name, value)| {
        let text = value.to_str().unwrap();
        let text = if name == "x-gateway-attempts" { without_times(text) } else { text.to_owned() };
        (name.to_string(), text)
    });
    let headers = headers.collect();
    let members = line.as_object_mut().unwrap();
    for name in ["ts", "key", "caller", "ttfb_ms", "ttft_ms", "total_ms", "overhead_ms"] {
        members.remove(name);
    }
    for attempt in line["attempts"].as_array_mut().unwrap() {
        attempt.as_object_mut().unwrap().remove("ms");
    }
    Observed { status, headers, body: String::from_utf8(body).unwrap(), line }
}

/// The engine in this process, with memory of its own.
pub(crate) struct MemoryEngine {
    pub(crate) engine: Arc<Engine>,
    log: tempfile::NamedTempFile,
}

impl MemoryEngine {
    /// `layers`: what its attempts pass.
    pub(crate) fn new(layers: &'static [Compile]) -> Self {
        install_ring();
        let checks = Checks::NONE;
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let settings = Settings::parse("custom_hosts: {allow_private: true}", &sources, &checks).unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        let access_log = AccessLog::open(&Output::File(log.path().to_owned())).unwrap();
        let shared =
            Shared::new(SettingsSnapshot::new(settings, 0), Metrics::new().unwrap(), access_log, None);
        let engine = Engine::with_layers(
            Arc::new(shared),
            Arc::new(Limits::in_memory(Calendar::default())),
            Arc::new(Caching::new(
                Arc::new(ResponseStore::new(&CacheOptions::default()).unwrap()),
                SemanticIndex::new(0),
            )),
            Connector::new(&ServerConf::default()),
            layers,
        );
        Self { engine: Arc::new(engine), log }
    }

    pub(crate) async fn send(&self, path: &str, config: &Value, body: &Value, trace_id: &str) -> Observed {
        self.send_through(path, config, body, trace_id, |memory| memory).await
    }

    /// Sends a request through a downstream of the test's own, made of one in memory.
    pub(crate) async fn send_through<D: Downstream + Into<MemoryDownstream>>(
        &self,
        path: &str,
        config: &Value,
        body: &Value,
        trace_id: &str,
        wrap: impl FnOnce(MemoryDownstream) -> D,
    ) -> Observed {
        let (header, mut ctx, admitted) = self.admit(path, config, body);
        ctx.span.trace_id = trace_id.into();
        let mut downstream = wrap(MemoryDownstream::new(header, None));
        self.engine.run(&mut downstream, &mut ctx, admitted).await.unwrap();
        self.engine.record(&downstream, &mut ctx);
        // Where tokens are counted, the line is written after that.
        let find = async || {
            self.engine.shared.access_log.flush().unwrap();
            let log = std::fs::read_to_string(self.log.path()).unwrap();
            log.lines().find(|line| line.contains(trace_id)).map(str::to_owned)
        };
        let line = until("the access line", find).await;
        let (header, body, complete) = downstream.into().into_response().unwrap();
        assert!(complete, "{header:?}");
        observed(header.status.as_u16(), &header.headers, body.concat(), serde_json::from_str(&line).unwrap())
    }

    /// The layers of the first target of a request.
    pub(crate) fn layer_names(&self, path: &str, config: &Value, body: &Value) -> Vec<&'static str> {
        let (_, _, admitted) = self.admit(path, config, body);
        self.engine.layer_names(&admitted.first.0)
    }

    fn admit(
        &self,
        path: &str,
        config: &Value,
        body: &Value,
    ) -> (RequestHeader, RequestContext, Box<Admitted>) {
        let request = HttpRequest::post(path).header("x-gateway-config", config.to_string());
        let (parts, ()) = request.header("content-type", "application/json").body(()).unwrap().into_parts();
        let header = RequestHeader::from(parts);
        let mut ctx = RequestContext::new(&self.engine.shared);
        let endpoint = Endpoint::find(&Method::POST, header.uri.path());
        ctx.api = CalledApi::of(&endpoint);
        let bytes = Bytes::from(body.to_string());
        ctx.record.traffic.bytes_in = bytes.len() as u64;
        let admitted = self.admitted(&header, &ctx, bytes);
        (header, ctx, admitted)
    }

    fn admitted(&self, header: &RequestHeader, ctx: &RequestContext, body: Bytes) -> Box<Admitted> {
        let settings = &ctx.snapshot.settings;
        let gateway_headers = GatewayHeaders::read(&header.headers, &settings.header_prefixes).unwrap();
        let sources = Sources {
            settings,
            hosts: &ctx.snapshot.hosts,
            directory: ctx.snapshot.directory(None),
            gateway_headers: &gateway_headers,
            provider_key: None,
            model_slug: None,
            names: ModelNaming::default(),
            prompt: None,
            object: None,
        };
        let config = Arc::new(compile(&sources).unwrap());
        let body = Some(Body::parse(body).unwrap());
        let endpoint = Endpoint::find(&Method::POST, header.uri.path());
        let request = Request::new(endpoint, Method::POST, header.uri.clone(), body);
        let shared = Arc::clone(&self.engine.shared);
        let mut env = RequestEnv::plain(&shared, None);
        let mut plan = Plan::new(config, request.model.clone());
        let first = plan.first(&mut env).unwrap();
        Box::new(Admitted { plan, request, env, first, prepared: None })
    }
}
