//! The minimal Pingora proxy: forwards everything to one upstream. `plain_proxy LISTEN UPSTREAM THREADS`.
//!
//! The baseline of `benches/load`: what the gateway costs beyond this is our own overhead. No keys, no
//! config, no metrics, no log, and the system's allocator.

use async_trait::async_trait;
use pingora::prelude::{HttpPeer, ProxyHttp, Result, Server, Session, http_proxy_service};
use pingora::server::configuration::ServerConf;
use std::net::SocketAddr;

struct Plain {
    upstream: SocketAddr,
}

#[async_trait]
impl ProxyHttp for Plain {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream, threads] = arguments.as_slice() else {
        return Err("usage: plain_proxy LISTEN UPSTREAM THREADS".into());
    };
    let conf = ServerConf { threads: threads.parse()?, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Plain { upstream: upstream.parse()? });
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever();
}
