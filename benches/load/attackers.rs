//! Clients that attack a gateway on loopback until they are stopped: large and deep bodies, slow senders, readers that do
//! not read, garbage, bursts. They do not look at what they get.

use super::process::SERVICE_KEY;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

const MIB: usize = 1 << 20;
/// Pause of each attacker between two attacks.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an attack waits for its response.
const PATIENCE: Duration = Duration::from_secs(10);

type Attack = fn(Rc<Prepared>) -> Pin<Box<dyn Future<Output = std::io::Result<()>>>>;

/// The attacks, and how many attackers perform each at the same time.
const ATTACKS: [(&str, usize, Attack); 11] = [
    ("31 MiB bodies", 2, |all| Box::pin(async move { send(&all, &all.large).await })),
    ("31 MiB bodies to translate", 2, |all| Box::pin(async move { send(&all, &all.large_translated).await })),
    ("a million messages", 1, |all| Box::pin(async move { send(&all, &all.million).await })),
    ("deep JSON", 1, |all| Box::pin(async move { send(&all, &all.deep).await })),
    ("120 patterns", 1, |all| Box::pin(async move { send(&all, &all.new_patterns()).await })),
    ("slow heads", 20, |all| Box::pin(async move { trickle(&all, &all.head).await })),
    ("slow bodies", 20, |all| Box::pin(async move { trickle(&all, &all.large).await })),
    ("unread streams", 20, |all| Box::pin(async move { unread(&all).await })),
    ("garbage", 2, |all| Box::pin(async move { send(&all, &all.garbage).await })),
    ("broken HTTP/2", 2, |all| Box::pin(async move { send(&all, &all.h2).await })),
    ("bursts of connections", 1, |all| Box::pin(async move { burst(&all).await })),
];

/// What attackers send, made once.
struct Prepared {
    address: SocketAddr,
    large: Vec<u8>,
    large_translated: Vec<u8>,
    million: Vec<u8>,
    deep: Vec<u8>,
    /// What no config before had in its patterns.
    fresh: Cell<u32>,
    head: Vec<u8>,
    stream: Vec<u8>,
    garbage: Vec<u8>,
    h2: Vec<u8>,
}

impl Prepared {
    fn new(address: SocketAddr) -> Self {
        let (up, claude) = ("chat", "messages");
        let large = chat(&"All work and no play. ".repeat(31 * MIB / 22));
        let message = r#"{"role":"user","content":"x"},"#.repeat(1_000_000);
        let million = format!(r#"{{"model":"bench","messages":[{}]}}"#, message.trim_end_matches(','));
        let deep = format!(r#"{{"model":"bench","messages":{}{}}}"#, "[".repeat(MIB), "]".repeat(MIB));
        let many_events = chat("hello")
            .replace("\"bench\"", "\"bench?tokens=40000\"")
            .replace("\"max_tokens\":9", "\"stream\":true");
        let mut rng = 0x9E37_79B9_u32;
        let mut random = || {
            rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (rng >> 24) as u8
        };
        Self {
            address,
            large: request(address, up, &large),
            large_translated: request(address, claude, &large),
            million: request(address, claude, &million),
            deep: request(address, claude, &deep),
            fresh: Cell::new(0),
            head: request(address, up, "").into_iter().take(200).collect(),
            stream: request(address, up, &many_events),
            garbage: (0..4096).map(|_| random()).collect(),
            h2: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                .iter()
                .copied()
                .chain((0..4096).map(|_| random()))
                .collect(),
        }
    }

    /// A config of 120 patterns that no request had before.
    fn new_patterns(&self) -> Vec<u8> {
        self.fresh.set(self.fresh.get() + 1);
        let fresh = self.fresh.get();
        let condition = |number: usize| {
            format!(r#"{{"query":{{"params.user":{{"$regex":".*a.*b.*{number}x{fresh}$"}}}},"then":"t"}}"#)
        };
        let conditions: Vec<_> = (0..120).map(condition).collect();
        let config = format!(
            r#"{{"strategy":{{"mode":"conditional","conditions":[{}],"default":"t"}},"targets":[{{"name":"t","provider":"@up"}}]}}"#,
            conditions.join(",")
        );
        let user = "ab ".repeat(16_384 / 3);
        request(self.address, &config, &chat("hello").replacen('{', &format!(r#"{{"user":"{user}","#), 1))
    }
}

/// A conversation of one message.
fn chat(content: &str) -> String {
    format!(r#"{{"model":"bench","max_tokens":9,"messages":[{{"role":"user","content":"{content}"}}]}}"#)
}

fn request(address: SocketAddr, config: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         x-gateway-api-key: {SERVICE_KEY}\r\nx-gateway-config: {config}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends everything and reads the response to its end.
async fn send(all: &Prepared, bytes: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(all.address).await?;
    let exchange = async {
        // A refused client may be cut off while it still sends.
        let _ = stream.write_all(bytes).await;
        let mut response = vec![0; 16_384];
        while stream.read(&mut response).await? > 0 {}
        Ok(())
    };
    timeout(PATIENCE, exchange).await.unwrap_or(Ok(()))
}

/// Sends a byte every 50 ms.
async fn trickle(all: &Prepared, bytes: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(all.address).await?;
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Asks for a long stream and does not read it.
async fn unread(all: &Prepared) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(all.address).await?;
    stream.write_all(&all.stream).await?;
    sleep(PATIENCE).await;
    Ok(())
}

/// Asks for a long stream and leaves after its first bytes: what was delivered must be counted by the gateway itself.
///
/// # Errors
/// The gateway does not respond.
pub(crate) fn leave_a_stream(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.write_all(&Prepared::new(address).stream)?;
    stream.read_exact(&mut [0; 4096])
}

/// Opens a hundred connections and closes them.
async fn burst(all: &Prepared) -> std::io::Result<()> {
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(TcpStream::connect(all.address).await?);
    }
    Ok(())
}

/// The names of the attacks.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ATTACKS.into_iter().map(|(name, ..)| name)
}

/// The attackers at work, on one thread.
pub(crate) struct Attackers {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<&'static str, usize>>,
}

impl Attackers {
    /// Starts all kinds of attack, or the one of this name.
    pub(crate) fn start(address: SocketAddr, only: Option<&'static str>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || attack(address, only, &stopped));
        Self { stop, thread }
    }

    /// Ends the attacks; how many of each there were.
    pub(crate) fn stop(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.join().unwrap_or_default();
        let done: Vec<_> = done.iter().map(|(name, count)| format!("{name} {count}")).collect();
        format!("attacks: {}", done.join(", "))
    }
}

fn attack(address: SocketAddr, only: Option<&str>, stop: &AtomicBool) -> BTreeMap<&'static str, usize> {
    let done = Rc::new(RefCell::new(BTreeMap::new()));
    // Attackers have machines of their own. Where this is refused, they merely take more of this one.
    let _ = rustix::process::setpriority_process(None, 19);
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return BTreeMap::new();
    };
    let all = Rc::new(Prepared::new(address));
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        for (name, count, perform) in
            ATTACKS.into_iter().filter(|(name, ..)| only.is_none_or(|only| only == *name))
        {
            for _ in 0..count {
                let (all, done) = (Rc::clone(&all), Rc::clone(&done));
                tokio::task::spawn_local(async move {
                    loop {
                        // A refused or broken connection is what attackers get.
                        let _ = perform(Rc::clone(&all)).await;
                        *done.borrow_mut().entry(name).or_insert(0) += 1;
                        sleep(PAUSE).await;
                    }
                });
            }
        }
        while !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(50)).await;
        }
    });
    done.take()
}
