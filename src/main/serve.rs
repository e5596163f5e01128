//! `turnpike run`: builds the shared state, the two services and the background tasks, and runs them.
//!
//! The only place that knows how a Pingora server is built. Pingora's configuration is made from ours in code;
//! Pingora reads no files or flags of its own.

use super::acme::{Acme, AcmeRenewer};
use super::announcement::Announcement;
use super::background::{
    AccessLogWriter, AlertTask, BackgroundTasks, BatchWorker, CertificateReloader, EmulatorService,
    EngineReader, HostFinder, KeySetRefresher, LogExpirer, LogWriter, MemoryReturner, NodeReporter,
    PriceRefresher, ReadinessNotifier, RollupMerger, SettingsReloader, StoreFollower, Task,
};
use super::certificate::Certificate;
use super::demo::Demo;
use super::hand_over::{ListenerTable, Predecessor, Successor};
use super::log_queue::LogQueue;
use super::logging::ProcessLog;
use super::start_checks::Addresses;
use super::stop::{DRAIN_MARGIN, Drain, FINAL_FLUSH_TIMEOUT, ShutdownSignals};
use super::store_opening::Opened;
use super::{
    batch_opening, cache_opening, ledger_opening, logging, read, span_exporter, start_checks, store_opening,
};
use crate::proxy::{ControlRoutes, DownstreamApp, Gateway};
use control::{self, Port, Services};
use emulator::{Emulator, Options};
use jiff::Timestamp;
use judgment::route::config_cache::ConfigCache;
use knowledge::price::Catalog;
use memory::limits::{Limits as RequestLimits, LimitsOptions};
use memory::net::inbound::axum_bridge::{AxumApp, ConnectionLimits};
use memory::net::inbound::challenge_certificates::ChallengeResponder;
use memory::net::inbound::checked_app::CheckedApp;
use memory::net::inbound::client_certificate::CertificateCheck;
use memory::net::inbound::h2c_guard::H2cGuard;
use memory::net::inbound::proxy_protocol::ProxyProtocol;
use memory::net::outbound::connector::Connector;
use memory::state::Shared;
use memory::state::access_log::AccessLog;
use memory::state::metrics::Metrics;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::system_limits::raise_descriptor_limit;
use motion::batch::Batches;
use motion::engine::Engine;
use motion::engine::caching::Caching;
use motion::engine::planner::Planner;
use pingora_core::apps::{HttpServerOptions, ServerApp};
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::listeners::{L4BufferSettings, ListenerConfig, PreTlsCallback};
use pingora_core::server::configuration::{Opt, ServerConf};
use pingora_core::server::{RunArgs, Server};
use pingora_core::services::ServiceHandle;
use pingora_core::services::background::background_service;
use pingora_core::services::listening::Service;
use pingora_proxy::http_proxy;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use words::settings::{Listener, ListenerTls, Settings};

/// Serves until a signal stops the process. `takes_over`: another process has started this one to serve in its place. `demo`: what is
/// filled, and removed at the end.
pub fn run(file: &Path, takes_over: bool, demo: Option<&Demo>) -> ExitCode {
    let successor = match takes_over.then(Successor::start).transpose() {
        Ok(successor) => successor.map(Arc::new),
        Err(why) => return logging::fatal(&why),
    };
    let fatal = |why: &str| {
        if let Some(successor) = &successor {
            successor.fail(why);
        }
        logging::fatal(why)
    };
    let addresses = if takes_over { Addresses::Held } else { Addresses::MustBeFree };
    let usable = match read::for_start(file, addresses) {
        Ok(usable) => usable,
        Err(error) => return fatal(&read::unusable(file, &error)),
    };
    let log = logging::start(&usable.settings.log);
    read::log_warnings(file, &usable.warnings);
    read_prices_ahead();
    raise_descriptor_limit();
    match build(file, usable, successor.as_ref(), demo, &log) {
        Ok((server, signals)) => {
            server.run(RunArgs { shutdown_signal: Box::new(signals) });
            ExitCode::SUCCESS
        }
        Err(why) => {
            log.queue.flush(FINAL_FLUSH_TIMEOUT);
            fatal(&why)
        }
    }
}

/// Has the catalogue of prices read by a thread of its own, while the store is opened and the listeners are made: neither the
/// start nor the first request waits for it. Without the thread the first request reads it.
fn read_prices_ahead() {
    let read = || {
        Catalog::shipped();
    };
    if let Err(why) = std::thread::Builder::new().name("prices".to_owned()).spawn(read) {
        log::warn!(target: "turnpike", "prices: no thread to read the catalogue: {why}");
    }
}

fn build(
    file: &Path,
    usable: read::Usable,
    successor: Option<&Arc<Successor>>,
    demo: Option<&Demo>,
    log: &ProcessLog,
) -> Result<(Server, ShutdownSignals), String> {
    let read::Usable { settings, warnings, overlay } = usable;
    let mut server = Server::new_with_opt_and_conf(Opt::default(), conf(&settings));
    server.bootstrap();
    let metrics = Metrics::new().map_err(|why| format!("metrics: {why}"))?;
    let access_log = AccessLog::open(&settings.access_log).map_err(|why| format!("access_log: {why}"))?;
    // The process id of a successor is that of the service once it serves.
    if successor.is_none() {
        write_pid(&settings)?;
    }
    let Opened { store, administrator_key } = store_opening::open(file, &settings)?;
    let snapshot = SettingsSnapshot::new(settings, 0);
    let shared = Arc::new(Shared::new(snapshot, metrics, access_log, Some(store)));
    shared.install_overlay(overlay);
    span_exporter::start(&shared)?;
    ledger_opening::start(file, &shared)?;
    let announcement = Announcement::new(file, &shared.settings(), &warnings, administrator_key.as_deref());

    let limits = Arc::new(open_limits(file, &shared.settings())?);
    let caching = cache_opening::open(&shared)?;
    let state = ProcessState { shared: &shared, limits: &limits, caching: &caching };
    let table = ListenerTable::default();
    let planes = add_planes(&mut server, file, state, &table)?;
    let predecessor = Arc::new(Predecessor::new(file, &shared, &limits, table.clone())?);
    let notifier = ReadinessNotifier {
        shared: Arc::clone(&shared),
        listeners: addresses(&shared.settings().settings),
        announcement,
        log: Arc::clone(&log.queue),
        successor: successor.cloned(),
    };
    let mut tasks =
        background_tasks(file, state, planes, log, drain(state, &log.queue, &predecessor, successor, demo));
    tasks.push(Box::new(notifier));
    tasks.extend(demo.map(|demo| Box::new(demo.task(&shared)) as Task));
    let kept_for_requests = tasks_for_requests(state);
    let tasks = BackgroundTasks { tasks, kept_for_requests, predecessor: Arc::clone(&predecessor) };
    server.add_service(background_service("background", tasks));
    // Last, when nothing else can fail.
    if let Some(successor) = successor {
        let sockets = wanted(successor.take_over(&shared)?, &shared.settings().settings);
        can_listen_elsewhere(&sockets, &shared.settings().settings)?;
        table.take_over(sockets);
    }
    let delay = shared.settings().settings.server.drain_delay;
    Ok((
        server,
        ShutdownSignals {
            shared,
            limits,
            log: Arc::clone(&log.queue),
            delay,
            is_demo: demo.is_some(),
            predecessor,
            successor: successor.cloned(),
        },
    ))
}

/// What the two planes have that background tasks work on.
struct Planes {
    config_cache: ConfigCache,
    batches: Option<Arc<Batches>>,
    certificates: Vec<Arc<Certificate>>,
    /// What orders certificates, where an authority issues them.
    renewer: Option<AcmeRenewer>,
    threads: usize,
}

/// The services of both ports, and of the emulator. Those that listen wait for `table`.
fn add_planes(
    server: &mut Server,
    file: &Path,
    state: ProcessState<'_>,
    table: &ListenerTable,
) -> Result<Planes, String> {
    let shared = state.shared;
    let listen = shared.settings().settings.listen.clone();
    let state_dir = store_opening::state_dir(file, &shared.settings().settings);
    let mut certificates =
        ListenerCertificates { acme: Acme::new(&shared.settings().settings, &state_dir), loaded: Vec::new() };
    let engine = Arc::new(new_engine(server, state));
    let config_cache = ConfigCache::default();
    // Not on the connections of clients' requests.
    let planner = Planner::new(engine, config_cache.clone());
    let batches = batch_opening::open(file, planner.clone())?;
    let services = Services::new(Arc::clone(shared), Arc::clone(state.limits), planner);
    let control_routes =
        ControlRoutes::new(control::router(services.clone(), Port::Data), control::control_paths());
    let routing = Routing { control_routes, config_cache: config_cache.clone(), batches: batches.clone() };
    add_emulator(server, shared.settings().settings.emulator.listen);
    let table = server.add_service(table.clone());
    let mut listening = Listening::new(server, shared, &mut certificates, table);
    add_data_services(&mut listening, &listen.data, state, &routing)?;
    listening.add("control", control_app(services), &[&listen.control], Some(1))?;
    if let Some(address) = shared.settings().settings.acme_http() {
        let app = listening.certificates.acme.http_app();
        listening.add("acme", app, &[&Listener::plain(address)], Some(1))?;
    }
    let ListenerCertificates { acme, loaded } = certificates;
    let renewer = acme.renewer(shared);
    Ok(Planes { config_cache, batches, certificates: loaded, renewer, threads: server.configuration.threads })
}

fn background_tasks(
    file: &Path,
    state: ProcessState<'_>,
    planes: Planes,
    log: &ProcessLog,
    drain: Drain,
) -> Vec<Task> {
    let ProcessState { shared, limits, caching } = state;
    let Planes { config_cache, batches, certificates, renewer, threads } = planes;
    let mut tasks: Vec<Task> = vec![
        Box::new(AccessLogWriter(Arc::clone(shared))),
        Box::new(PriceRefresher(Arc::clone(shared))),
        Box::new(EngineReader(Arc::clone(shared))),
        Box::new(HostFinder(Arc::clone(shared))),
        Box::new(BatchWorker { batches, threads }),
        Box::new(LogExpirer(Arc::clone(shared))),
        Box::new(memory_returner(shared, &config_cache, limits, caching)),
        Box::new(RollupMerger(Arc::clone(shared))),
        Box::new(SettingsReloader::new(shared, file, log)),
        Box::new(CertificateReloader { shared: Arc::clone(shared), certificates }),
        Box::new(LogWriter { queue: Arc::clone(&log.queue), shared: Arc::clone(shared) }),
        Box::new(drain),
    ];
    tasks.extend(renewer.map(|renewer| Box::new(renewer) as Task));
    tasks
}

/// The tasks that requests need to their end.
fn tasks_for_requests(ProcessState { shared, limits, .. }: ProcessState<'_>) -> Vec<Task> {
    vec![
        Box::new(KeySetRefresher(Arc::clone(shared))),
        Box::new(AlertTask { shared: Arc::clone(shared), limits: Arc::clone(limits) }),
        Box::new(StoreFollower(Arc::clone(shared))),
        Box::new(NodeReporter(Arc::clone(shared))),
    ]
}

/// Every address that is listened on.
fn addresses(settings: &Settings) -> Vec<SocketAddr> {
    let data = settings.listen.data.iter().map(|listener| listener.address);
    let control = settings.listen.control.address;
    data.chain([control]).chain(settings.acme_http()).chain(settings.emulator.listen).collect()
}

/// Whether the addresses can be listened on that the predecessor does not have. If another process has one, Pingora would try again for half
/// a minute, and readiness would take that process for this one.
fn can_listen_elsewhere(sockets: &[(String, OwnedFd)], settings: &Settings) -> Result<(), String> {
    let has_socket = |address: &SocketAddr| sockets.iter().any(|(of, _)| *of == address.to_string());
    let of_emulator = |address: &SocketAddr| settings.emulator.listen == Some(*address);
    let all = addresses(settings);
    let mut others = all.iter().filter(|address| !has_socket(address) && !of_emulator(address));
    others.try_for_each(|address| start_checks::can_listen(*address))
}

/// Those of the predecessor's sockets that are listened on by these settings, too. The others are closed here.
fn wanted(sockets: Vec<(String, OwnedFd)>, settings: &Settings) -> Vec<(String, OwnedFd)> {
    let addresses: Vec<_> = addresses(settings).iter().map(SocketAddr::to_string).collect();
    sockets.into_iter().filter(|(address, _)| addresses.contains(address)).collect()
}

/// What the services of this process count requests in and keep responses in.
#[derive(Clone, Copy)]
struct ProcessState<'a> {
    shared: &'a Arc<Shared>,
    limits: &'a Arc<RequestLimits>,
    caching: &'a Arc<Caching>,
}

/// What all listeners of the data port have in common, beyond the [`ProcessState`].
#[derive(Clone)]
struct Routing {
    control_routes: ControlRoutes,
    config_cache: ConfigCache,
    batches: Option<Arc<Batches>>,
}

/// An engine with a pool of upstream connections of its own.
fn new_engine(server: &Server, state: ProcessState<'_>) -> Engine {
    let ProcessState { shared, limits, caching } = state;
    let connector = Connector::new(&server.configuration);
    Engine::new(Arc::clone(shared), Arc::clone(limits), Arc::clone(caching), connector)
}

fn memory_returner(
    shared: &Arc<Shared>,
    config_cache: &ConfigCache,
    limits: &Arc<RequestLimits>,
    caching: &Arc<Caching>,
) -> MemoryReturner {
    MemoryReturner {
        shared: Arc::clone(shared),
        config_cache: config_cache.clone(),
        limits: Arc::clone(limits),
        caching: Arc::clone(caching),
    }
}

fn drain(
    state: ProcessState<'_>,
    log: &Arc<LogQueue>,
    predecessor: &Arc<Predecessor>,
    successor: Option<&Arc<Successor>>,
    demo: Option<&Demo>,
) -> Drain {
    let server = &state.shared.settings().settings.server;
    Drain {
        shared: Arc::clone(state.shared),
        log: Arc::clone(log),
        caching: Arc::clone(state.caching),
        limits: Arc::clone(state.limits),
        grace: server.grace_period,
        drain: server.drain(),
        predecessor: Arc::clone(predecessor),
        successor: successor.cloned(),
        demo: demo.cloned(),
    }
}

fn add_emulator(server: &mut Server, listen: Option<SocketAddr>) {
    let Some(listen) = listen else { return };
    let emulator_service = EmulatorService::new(Emulator::new(Options::default()), listen);
    server.add_service(background_service("emulator", emulator_service));
}

/// One service, and so one pool of upstream connections, for all listeners with the same protocols.
fn add_data_services(
    listening: &mut Listening<'_>,
    listeners: &[Listener],
    state: ProcessState<'_>,
    routing: &Routing,
) -> Result<(), String> {
    for h2 in [true, false] {
        for proxy_protocol in [false, true] {
            let is_such =
                |listener: &&Listener| listener.h2 == h2 && listener.proxy_protocol == proxy_protocol;
            let such: Vec<&Listener> = listeners.iter().filter(is_such).collect();
            if !such.is_empty() {
                let app = data_app(listening.server, state, routing.clone(), h2);
                listening.add("data", app, &such, None)?;
            }
        }
    }
    Ok(())
}

fn control_app(services: Services) -> H2cGuard<AxumApp> {
    let router = control::router(services, Port::Control);
    let limits = ConnectionLimits::default();
    let header_timeout = limits.header_timeout;
    H2cGuard::new(AxumApp::new(router, limits, control::invalid_head()), header_timeout)
}

/// The certificates of all listeners.
struct ListenerCertificates {
    acme: Acme,
    loaded: Vec<Arc<Certificate>>,
}

/// The server to which services with listeners are added.
struct Listening<'a> {
    server: &'a mut Server,
    header: Arc<ProxyProtocol>,
    certificates: &'a mut ListenerCertificates,
    /// What every service that listens waits for.
    table: ServiceHandle,
}

impl<'a> Listening<'a> {
    /// The header of the PROXY protocol is believed of the proxies that are trusted at that time.
    fn new(
        server: &'a mut Server,
        shared: &Arc<Shared>,
        certificates: &'a mut ListenerCertificates,
        table: ServiceHandle,
    ) -> Self {
        let shared = Arc::clone(shared);
        let trusts = move |ip| shared.settings().settings.listen.trusted_proxies.contains(ip);
        Self { server, header: Arc::new(ProxyProtocol::new(Arc::new(trusts))), certificates, table }
    }

    /// Adds a service for these listeners, all of which have the PROXY protocol or none. `threads`: of its own; `None`: the server's.
    fn add<A: ServerApp + Send + Sync + 'static>(
        &mut self,
        name: &str,
        app: A,
        listeners: &[&Listener],
        threads: Option<usize>,
    ) -> Result<(), String> {
        let wants_certificates = |tls: &ListenerTls| tls.clients.is_some();
        let has_header = listeners.iter().any(|listener| listener.proxy_protocol);
        let is_checked = |listener: &&Listener| listener.tls.as_ref().is_some_and(wants_certificates);
        if !has_header && !listeners.iter().any(is_checked) {
            return self.open(Service::new(name.to_owned(), app), listeners, threads);
        }
        let app = CheckedApp::new(app, has_header.then(|| Arc::clone(&self.header)));
        self.open(Service::new(name.to_owned(), app), listeners, threads)
    }

    /// What is done with connections before TLS.
    fn before_tls(&self, listeners: &[&Listener]) -> Result<Option<PreTlsCallback>, String> {
        let has_header = listeners.iter().any(|listener| listener.proxy_protocol);
        let header = has_header.then(|| Arc::clone(&self.header));
        let has_tls = listeners.iter().any(|listener| listener.tls.is_some());
        match self.certificates.acme.challenges().filter(|_| has_tls) {
            Some(challenges) => {
                let responder = ChallengeResponder::new(header, Arc::clone(challenges));
                Ok(Some(Arc::new(responder.map_err(|why| format!("acme: {why}"))?)))
            }
            None => Ok(header.map(|header| header as PreTlsCallback)),
        }
    }

    fn open<A: ServerApp + Send + Sync + 'static>(
        &mut self,
        mut service: Service<A>,
        listeners: &[&Listener],
        threads: Option<usize>,
    ) -> Result<(), String> {
        service.threads = threads;
        for listener in listeners {
            open(&mut service, listener, self.certificates)?;
        }
        if let Some(before_tls) = self.before_tls(listeners)? {
            service.endpoints().set_pre_tls_callback(before_tls);
        }
        self.server.add_service(service).add_dependency(&self.table);
        Ok(())
    }
}

/// The counters of limits, with the usage of before.
fn open_limits(file: &Path, snapshot: &SettingsSnapshot) -> Result<RequestLimits, String> {
    let settings = &snapshot.settings;
    let options = LimitsOptions::new(settings, &store_opening::options(file, settings));
    let limits = RequestLimits::open(&options.map_err(|why| why.to_string())?, Timestamp::now())?;
    // To compile those of many keys takes a while: no request waits for it.
    limits.in_force(snapshot);
    Ok(limits)
}

fn data_app(
    server: &Server,
    state: ProcessState<'_>,
    Routing { control_routes, config_cache, batches }: Routing,
    h2: bool,
) -> DownstreamApp {
    let gateway = Gateway::new(new_engine(server, state), config_cache, control_routes, batches);
    let mut proxy = http_proxy(&server.configuration, gateway.clone());
    let mut options = HttpServerOptions::default();
    options.h2c = h2;
    options.h2_idle_timeout = Some(state.shared.settings().settings.limits.idle_timeout);
    proxy.server_options = Some(options);
    DownstreamApp::new(Arc::new(proxy), gateway, h2)
}

/// Pingora's configuration, made from our settings.
fn conf(settings: &Settings) -> ServerConf {
    let server = &settings.server;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut conf = ServerConf {
        threads: server.threads.unwrap_or(cores),
        work_stealing: server.work_stealing,
        upstream_keepalive_pool_size: server.upstream_pool_size,
        grace_period_seconds: Some((server.grace_period.max(server.drain()) + DRAIN_MARGIN).as_secs()),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    };
    conf.ca_file = settings.tls.ca_file.as_ref().map(|path| path.display().to_string());
    conf
}

fn open<A>(
    service: &mut Service<A>,
    listener: &Listener,
    certificates: &mut ListenerCertificates,
) -> Result<(), String> {
    let endpoint = ListenerConfig::tcp(listener.address.to_string()).l4_buffer(buffers(listener));
    let Some(tls) = &listener.tls else {
        service.add_listener(endpoint);
        return Ok(());
    };
    let certificate = certificates.acme.certificate(tls).map_err(|error| error.why)?;
    certificates.loaded.push(Arc::clone(&certificate));
    let mut tls = match certificate.clients() {
        Some(clients) => {
            let check = CertificateCheck(clients.clone());
            let mut tls = TlsSettings::with_callbacks(Box::new(check)).map_err(|why| why.to_string())?;
            tls.set_client_cert_verifier(clients.clone());
            tls
        }
        // The resolver has the certificate, not these files.
        None => TlsSettings::intermediate("", "").map_err(|why| why.to_string())?,
    };
    tls.set_cert_resolver(certificate);
    if listener.h2 {
        tls.enable_h2();
    }
    service.add_listener(endpoint.tls(tls));
    Ok(())
}

/// The buffers of a client's socket, held for as long as the connection is open.
///
/// No read buffer on plain connections, because headers and bodies are read into large buffers anyway; TLS reads in
/// small pieces and needs one. The write buffer sends a small response in one write. Pingora's defaults are 64 KiB for
/// reading, more than everything else an open stream holds, and 1,460 bytes for writing.
fn buffers(listener: &Listener) -> L4BufferSettings {
    let read = if listener.tls.is_some() { 16 << 10 } else { 0 };
    L4BufferSettings::default().read(read).write(4 << 10)
}

/// Writes the process id, where the settings have a file for it.
pub fn write_pid(settings: &Settings) -> Result<(), String> {
    let Some(path) = &settings.server.pid_file else { return Ok(()) };
    let pid = format!("{}\n", std::process::id());
    std::fs::write(path, pid).map_err(|why| format!("server.pid_file {}: {why}", path.display()))
}
