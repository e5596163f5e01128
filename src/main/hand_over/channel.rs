//! The socket between a process and its successor: messages in JSON with their length before them, and the listening sockets.
//!
//! Blocking, with a time limit for each message. Members that one of two versions does not know are ignored.

use memory::state::handed_over::HandedOver;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest message, bytes: a hundred thousand sticky choices take some 15 MiB.
const MAX_MESSAGE: u32 = 64 << 20;
/// How long the other process may take to read a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the two tell each other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// The successor runs, and begins to check everything.
    Started { version: String, process: i32 },
    /// It could start.
    Ready,
    /// The successor cannot start, or cannot serve.
    Failed { why: String },
    /// What the predecessor has. One socket for each address follows.
    Listeners {
        addresses: Vec<String>,
        /// The predecessor's own id.
        #[serde(default)]
        process: i32,
        #[serde(default)]
        learned: HandedOver,
    },
    /// The successor accepts connections.
    Serving,
    /// The predecessor's metrics, and the requests that it still serves.
    Metrics { page: String, in_flight: u64 },
}

/// One end.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self(stream))
    }

    pub fn send(&mut self, message: &Message) -> Result<()> {
        let body = serde_json::to_vec(message)?;
        let length = u32::try_from(body.len()).ok().filter(|length| *length <= MAX_MESSAGE);
        let length = length.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "the message is too long"))?;
        self.0.write_all(&length.to_be_bytes())?;
        self.0.write_all(&body)
    }

    /// The next message; waits for it for at most `limit`, for ever without one.
    ///
    /// # Errors
    /// `UnexpectedEof` where the other process has ended, `WouldBlock` where it took too long.
    pub fn receive(&mut self, limit: Option<Duration>) -> Result<Message> {
        self.0.set_read_timeout(limit)?;
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > MAX_MESSAGE {
            return Err(Error::new(ErrorKind::InvalidData, "the message is too long"));
        }
        let mut body = Vec::new();
        (&mut self.0).take(u64::from(length)).read_to_end(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Sends a copy of an open socket.
    pub fn send_socket(&self, socket: RawFd) -> Result<()> {
        let sockets = [socket];
        let rights = [ControlMessage::ScmRights(&sockets)];
        let sent =
            sendmsg::<UnixAddr>(self.0.as_raw_fd(), &[IoSlice::new(b"s")], &rights, MsgFlags::empty(), None);
        sent.map(drop).map_err(Error::from)
    }

    /// The next socket. Nothing that this process starts inherits it.
    pub fn receive_socket(&self) -> Result<OwnedFd> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let sockets = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        sockets.flatten().next().ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "no socket came"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn messages_and_sockets_arrive() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut one = Channel::new(one).unwrap();
        let mut other = Channel::new(other).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        one.send(&Message::Listeners {
            addresses: vec![address.to_string()],
            process: 7,
            learned: HandedOver::default(),
        })
        .unwrap();
        one.send_socket(listener.as_raw_fd()).unwrap();
        drop(listener);
        let Message::Listeners { addresses, .. } = other.receive(None).unwrap() else { panic!() };
        let socket = TcpListener::from(other.receive_socket().unwrap());
        assert_eq!(addresses, [socket.local_addr().unwrap().to_string()]);
        let _client = TcpStream::connect(address).unwrap();
        socket.accept().unwrap();

        assert_eq!(other.receive(Some(Duration::from_millis(1))).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(one);
        assert_eq!(other.receive(None).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.write_all(&u32::MAX.to_be_bytes()).unwrap();
        let error = Channel::new(other).unwrap().receive(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
