//! The load client: HTTP/1.1 keep-alive connections on one thread, closed loop or at a fixed rate.
//!
//! A response counts only if it is complete and as expected; a stream only if both `[DONE]` and the end of
//! the HTTP body arrived. Not a general client: no TLS, no redirects, no trailers.

use super::Failure;
use super::response::Response;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// What a response must be to count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    /// A whole chat completion.
    Whole,
    /// A stream with at least this many events before `[DONE]`.
    Stream { events: usize },
}

/// What to send, how, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// Headers and body, sent unchanged but for the number.
    pub(crate) request: Vec<u8>,
    /// Where the request has [`NUMBER`], to be replaced by one that no other request has.
    pub(crate) number_at: Option<usize>,
    pub(crate) connections: usize,
    /// Requests per second over all connections; `None` sends the next one when a response is complete.
    pub(crate) rate: Option<f64>,
    pub(crate) length: Duration,
    pub(crate) expect: Expect,
}

/// The results of one run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// From sending to the end of the response, in nanoseconds.
    pub(crate) whole: Vec<u64>,
    /// From sending to the first byte of the response's body, in nanoseconds.
    pub(crate) first: Vec<u64>,
    pub(crate) elapsed: Duration,
}

/// What stands in a request for its number.
pub(crate) const NUMBER: &str = "000000000000";
/// The next number. No two requests of a process have the same one, so that none finds another's response in a cache.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A response that is this late fails the run.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `load` to its end.
///
/// # Errors
/// The first wrong or missing response: figures that include failures are worthless.
pub(crate) fn drive(load: Load) -> Result<Tally, Failure> {
    let limit = load.length + RESPONSE_TIMEOUT;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        tokio::time::timeout(limit, drive_all(Rc::new(load))).await.map_err(|_| "the responses stopped")?
    })
}

async fn drive_all(load: Rc<Load>) -> Result<Tally, Failure> {
    let ticket = Rc::new(Cell::new(0));
    let start = Instant::now();
    let workers: Vec<_> = (0..load.connections)
        .map(|_| tokio::task::spawn_local(work(Rc::clone(&load), Rc::clone(&ticket), start)))
        .collect();
    let mut tally = Tally::default();
    for worker in workers {
        let part = worker.await??;
        tally.whole.extend(part.whole);
        tally.first.extend(part.first);
    }
    tally.elapsed = start.elapsed();
    Ok(tally)
}

async fn work(load: Rc<Load>, ticket: Rc<Cell<u32>>, start: Instant) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut connection: Option<Connection> = None;
    let mut request = load.request.clone();
    loop {
        if let Some(rate) = load.rate {
            let due = Duration::from_secs_f64(f64::from(ticket.replace(ticket.get() + 1)) / rate);
            if due >= load.length {
                return Ok(tally);
            }
            tokio::time::sleep_until((start + due).into()).await;
        } else if start.elapsed() >= load.length {
            return Ok(tally);
        }
        if let Some(digits) = load.number_at.and_then(|at| request.get_mut(at..at + NUMBER.len())) {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            digits.copy_from_slice(format!("{number:012}").as_bytes());
        }
        let mut open = match connection.take() {
            Some(open) => open,
            None => Connection::open(load.address).await?,
        };
        let sent = Instant::now();
        let first = open.exchange(&request, sent).await?;
        open.response.check(load.expect)?;
        tally.whole.push(nanoseconds(sent.elapsed()));
        tally.first.push(nanoseconds(first));
        if open.response.is_keep_alive() {
            connection = Some(open);
        }
    }
}

/// Opens `count` streams, waits for the first event of each, lets them run for `settle`, calls `measure`
/// while they are open, and closes them.
///
/// # Errors
/// A stream did not open, or ended early.
pub(crate) fn with_open_streams<T>(
    load: Load,
    count: usize,
    settle: Duration,
    measure: impl FnOnce() -> T,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let load = Rc::new(load);
        let opened = Rc::new(Cell::new(0));
        let ended: Rc<Cell<Option<Failure>>> = Rc::default();
        for number in 0..count {
            let (load, opened, ended) = (Rc::clone(&load), Rc::clone(&opened), Rc::clone(&ended));
            tokio::task::spawn_local(async move {
                if let Err(failure) = hold(&load, &opened).await {
                    ended.set(Some(failure));
                }
            });
            // Open a few at a time: this measures open streams, not a thousand concurrent handshakes.
            if number % 20 == 19 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        while opened.get() < count && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(settle).await;
        match ended.take() {
            Some(failure) => Err(failure),
            None if opened.get() < count => Err(format!("{} of {count} streams opened", opened.get()).into()),
            None => Ok(measure()),
        }
    })
}

async fn hold(load: &Load, opened: &Cell<usize>) -> Result<(), Failure> {
    let mut connection = Connection::open(load.address).await?;
    connection.exchange_until(&load.request, |response| response.body().starts_with(b"data:")).await?;
    opened.set(opened.get() + 1);
    connection.read_until(|response| response.is_complete()).await?;
    Err("a stream ended that should have stayed open".into())
}

struct Connection {
    stream: TcpStream,
    response: Response,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, response: Response::default() })
    }

    /// Sends `request`, reads the whole response, returns the time to its first body byte.
    async fn exchange(&mut self, request: &[u8], sent: Instant) -> Result<Duration, Failure> {
        self.exchange_until(request, |response| !response.body().is_empty() || response.is_complete())
            .await?;
        let first = sent.elapsed();
        self.read_until(Response::is_complete).await?;
        Ok(first)
    }

    async fn exchange_until(
        &mut self,
        request: &[u8],
        done: impl Fn(&Response) -> bool,
    ) -> Result<(), Failure> {
        self.response.restart();
        self.stream.write_all(request).await?;
        self.read_until(done).await
    }

    async fn read_until(&mut self, done: impl Fn(&Response) -> bool) -> Result<(), Failure> {
        while !done(&self.response) {
            if self.stream.read_buf(self.response.input()).await? == 0 {
                return self.response.closed();
            }
            self.response.advance()?;
        }
        Ok(())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
