//! Translates Pingora's errors into ours, and decides which of them allow another connection.
//!
//! Does not send errors to the client (`error_response`), and does not pick the next target (`route`).

use super::attempt_state::AttemptState;
use super::peer_selection::PeerSelection;
use judgment::route::target::Target;
use memory::net::outbound::dns::ResolveError;
use memory::net::outbound::proxy_connector::{ProxyFailure, Why};
use memory::state::Shared;
use pingora_core::{Error as PingoraError, ErrorSource, ErrorType};
use words::error::Error;

/// Why an attempt has no response, or no more of it.
#[derive(Debug)]
pub(crate) struct UpstreamFailure {
    /// Boxed to keep the `Result`s small: failures are rare.
    pub error: Box<Error>,
    /// Whether a timeout of the provider's connection was the cause.
    pub timed_out: bool,
}

impl UpstreamFailure {
    pub(crate) fn from_pingora(error: &PingoraError, target: &Target) -> Self {
        let by_proxy = ProxyFailure::of(error).is_some_and(|failure| failure.why == Why::TimedOut);
        let timed_out = by_proxy
            || matches!(
                error.etype(),
                ErrorType::ConnectTimedout
                    | ErrorType::TLSHandshakeTimedout
                    | ErrorType::ReadTimedout
                    | ErrorType::WriteTimedout
            );
        Self { error: Box::new(translate(error, Some(target))), timed_out }
    }

    /// The upstream connection ended without a response.
    pub fn no_response(target: &Target) -> Self {
        let error = PingoraError::explain(ErrorType::ConnectionClosed, "no answer");
        Self::from_pingora(&error.into_up(), target)
    }
}

impl From<Error> for UpstreamFailure {
    fn from(error: Error) -> Self {
        Self { error: Box::new(error), timed_out: false }
    }
}

/// The error for a provider's host without an address we may connect to.
pub(crate) fn dns_error(target: &Target, why: ResolveError) -> Error {
    let provider = target.display_name();
    let error = match why {
        ResolveError::Refused(why) => Error::bad_request(why).with_param("x-gateway-custom-host"),
        ResolveError::NotFound => Error::unreachable(
            format!(
                "The host of provider {provider} does not exist (DNS). Check the provider or custom host."
            ),
            "dns: no such name",
        ),
        ResolveError::Proxy { proxy, cause } => {
            proxy_error(&ProxyFailure { proxy, why: Why::Unreachable(cause) }, &provider)
        }
        ResolveError::Failed(cause) => Error::unreachable(
            format!("The host of provider {provider} could not be looked up (DNS). Try again."),
            format!("dns: {cause}"),
        ),
    };
    error.with_provider(target.provider.id())
}

/// After a failure to connect: whether to try another address. Not if TLS failed: that does not depend on the address,
/// and the error of the next address would hide the cause.
pub fn may_try_next_address(
    shared: &Shared,
    error: &PingoraError,
    target: &Target,
    peers: &PeerSelection,
) -> bool {
    let origin = peers.origin(target);
    let failed = match peers.proxied() {
        None => peers.last_address().map(|address| (origin, address)),
        // The proxy works, so it is the host's address that failed; no other address of the proxy changes that.
        Some(proxied) if is_refused(error) => proxied.handed_address().map(|address| (origin, address)),
        Some(proxied) => peers.last_address().map(|address| (&proxied.proxy.origin, address)),
    };
    if let Some((origin, address)) = failed {
        // Later requests start with another address.
        shared.dns.connect_failed(origin, address);
    }
    peers.has_untried() && !is_tls(error.etype()) && !is_refused(error)
}

fn is_refused(error: &PingoraError) -> bool {
    ProxyFailure::of(error).is_some_and(|failure| matches!(failure.why, Why::Refused(..)))
}

fn is_tls(error: &ErrorType) -> bool {
    matches!(
        error,
        ErrorType::TLSHandshakeFailure
            | ErrorType::TLSHandshakeTimedout
            | ErrorType::TLSWantX509Lookup
            | ErrorType::InvalidCert
    )
}

/// After a connection broke: whether it was a dead one from the pool, so that its request is sent again on a new
/// connection, whatever its method, without counting as a retry. In practice the provider had closed the connection
/// before our request arrived. (A provider that reads a request and closes without sending a byte gets it twice.)
/// Only once, and on a new connection: the pool may be full of dead ones.
pub fn is_stale_connection(
    error: &PingoraError,
    state: &AttemptState,
    peers: &PeerSelection,
    reused: bool,
) -> bool {
    let broken = matches!(
        error.etype(),
        ErrorType::ConnectionClosed | ErrorType::ReadError | ErrorType::WriteError | ErrorType::H2Error
    );
    let from_upstream = *error.esource() == ErrorSource::Upstream;
    reused && broken && from_upstream && state.header_at.is_none() && !peers.bypass_pool
}

/// Our error for one of Pingora's. `target` is `None` while nothing was sent to a provider.
pub fn translate(error: &PingoraError, target: Option<&Target>) -> Error {
    if *error.esource() == ErrorSource::Downstream {
        return translate_downstream(error);
    }
    let Some(target) = target else { return Error::internal(error.to_string()) };
    translate_upstream(error, &target.display_name()).with_provider(target.provider.id())
}

/// The error for a request that the proxy before the provider did not let pass.
pub fn refused_by_proxy(failure: &ProxyFailure, target: &Target) -> Error {
    proxy_error(failure, &target.display_name()).with_provider(target.provider.id())
}

fn proxy_error(failure: &ProxyFailure, provider: &str) -> Error {
    let ProxyFailure { proxy, why } = failure;
    let before = format!("The proxy {proxy}, through which this gateway reaches the provider {provider},");
    match why {
        Why::Refused(407, _) => Error::proxy_refused(
            format!(
                "{before} demands credentials or does not take those it got (407). The operator writes them into the \
                 proxy's URL: outbound.proxy, or HTTPS_PROXY of the environment."
            ),
            failure.to_string(),
        ),
        Why::Refused(status @ 500.., _) => Error::proxy_refused(
            format!(
                "{before} could not connect to it ({status}). Retry your request, or check the provider's address and what \
                 the proxy may reach."
            ),
            failure.to_string(),
        ),
        Why::Refused(status, _) => Error::proxy_refused(
            format!(
                "{before} refused the connection ({status}). Ask its operator whether it may reach this provider, or use \
                 another provider."
            ),
            failure.to_string(),
        ),
        Why::Unreachable(_) => Error::proxy_unreachable(
            format!("{before} cannot be used. Check its address, or that it runs."),
            failure.to_string(),
        ),
        Why::TimedOut => Error::proxy_unreachable(
            format!("{before} did not connect in time. Retry your request, or use another provider."),
            failure.to_string(),
        ),
    }
}

/// Errors of the client's connection.
fn translate_downstream(error: &PingoraError) -> Error {
    match error.etype() {
        ErrorType::ReadTimedout => Error::slow_client(
            "The request body stopped arriving. Send it faster, or ask the operator to raise \
             limits.body_timeout_ms.",
        ),
        // A Connection header that names a protected header, or a chunk without a size: the client is still connected
        // and can read the response.
        ErrorType::InvalidHTTPHeader
        | ErrorType::H1Error
        | ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd") => Error::malformed_http(error.to_string()),
        _ => Error::client_closed(),
    }
}

/// Errors of the provider's connection. Agents know an error in a stream that they may retry by its words alone: opencode 1.18 by a list
/// in which OpenAI's own "retry your request" is, and "try again" is not.
fn translate_upstream(error: &PingoraError, provider: &str) -> Error {
    if let Some(failure) = ProxyFailure::of(error) {
        return proxy_error(failure, provider);
    }
    let cause = error.to_string();
    match error.etype() {
        ErrorType::ConnectTimedout => Error::unreachable(
            format!(
                "The provider {provider} did not accept a connection in time. Retry your request, or use another provider."
            ),
            cause,
        ),
        ErrorType::ConnectRefused | ErrorType::ConnectNoRoute | ErrorType::ConnectError => {
            Error::unreachable(
                format!("The provider {provider} refuses connections. Check its address, or that it runs."),
                cause,
            )
        }
        kind if is_tls(kind) => Error::unreachable(
            format!(
                "No trusted TLS connection to the provider {provider}. Check its certificate and host name."
            ),
            cause,
        ),
        ErrorType::ReadTimedout | ErrorType::WriteTimedout => Error::upstream_timeout(
            format!(
                "The provider {provider} went silent. Retry your request, or use another provider; the operator bounds \
                 the silence with limits.upstream_read_timeout_ms."
            ),
            cause,
        ),
        ErrorType::InvalidHTTPHeader
        | ErrorType::H1Error
        | ErrorType::InvalidH2
        | ErrorType::H2Error
        | ErrorType::H2Downgrade => Error::invalid_response(
            format!(
                "The provider {provider} answered something that is no HTTP answer. Retry your request, or use \
                 another provider."
            ),
            cause,
        ),
        _ => Error::unreachable(
            format!(
                "The connection to the provider {provider} broke before the answer was complete. Retry your request."
            ),
            cause,
        ),
    }
}
