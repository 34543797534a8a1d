//! TLS over a socket: rustls makes records of bytes and bytes of records, and this moves them.
//!
//! The handshake takes place while the first bytes are read, so that whoever serves the connection need not know of it.
//! What one system call reads or writes holds several records. Bytes that are on their way between the socket and a
//! session lie in a buffer of the thread: an idle connection has none.

use std::cell::RefCell;
use std::io::{self, BufRead, ErrorKind, IoSlice, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::pki_types::CertificateDer;
use rustls::{ServerConfig, ServerConnection};
use storage::Span;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// How much is read or written at a time.
const SCRATCH_BYTES: usize = 64 * 1024;
/// How much a session may have decrypted that was not taken: rustls takes no further record beyond.
const DECRYPTED_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH_BYTES]);
}

pub struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
    /// What has arrived and does not fit into what the session has decrypted.
    undecrypted: Vec<u8>,
    /// Decrypted bytes that were not taken.
    decrypted_bytes: usize,
    unsent_bytes: usize,
    /// What was encrypted goes together with what comes next.
    holds_back: bool,
    has_ended: bool,
}

impl TlsStream {
    pub fn new(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self {
            socket,
            session,
            undecrypted: Vec::new(),
            decrypted_bytes: 0,
            unsent_bytes: 0,
            holds_back: false,
            has_ended: false,
        })
    }

    /// Has it driven by the runtime that this is called on.
    pub fn moved(self) -> io::Result<Self> {
        let socket = TcpStream::from_std(self.socket.into_std()?)?;
        Ok(Self { socket, ..self })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The peer's certificates, its own first; none if it has shown none.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.session.peer_certificates().unwrap_or_default()
    }

    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Neither makes the socket readable.
        if self.decrypted_bytes > 0 || !self.undecrypted.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_read_ready(cx)
    }

    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        loop {
            self.take_decrypted(buffer)?;
            if buffer.filled().len() > before || buffer.remaining() == 0 || self.has_ended {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_receive(cx, buffer.remaining()))?;
        }
    }

    fn take_decrypted(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        while buffer.remaining() > 0 {
            let mut reader = self.session.reader();
            let taken = match reader.fill_buf() {
                Ok([]) => {
                    self.has_ended = true;
                    break;
                }
                Ok(bytes) => {
                    let taken = bytes.len().min(buffer.remaining());
                    buffer.put_slice(&bytes[..taken]);
                    taken
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The peer has left without saying so. What it has begun to send is a frame that never ends.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.has_ended = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            reader.consume(taken);
            self.decrypted_bytes -= taken;
        }
        Ok(())
    }

    /// Decrypts what has arrived: about `wanted_bytes`, and no more than the buffer of a thread holds.
    fn poll_receive(&mut self, cx: &mut Context<'_>, wanted_bytes: usize) -> Poll<io::Result<()>> {
        let left = std::mem::take(&mut self.undecrypted);
        if !left.is_empty() {
            return Poll::Ready(self.decrypt(&left));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let size = wanted_bytes.clamp(DECRYPTED_BYTES_MAX / 4, SCRATCH_BYTES);
            let mut arrived = ReadBuf::new(&mut scratch[..size]);
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut arrived))?;
            if arrived.filled().is_empty() {
                self.has_ended = true;
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(self.decrypt(arrived.filled()))
        })
    }

    fn decrypt(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.decrypted_bytes >= DECRYPTED_BYTES_MAX {
                self.undecrypted = bytes.to_vec();
                break;
            }
            if self.session.read_tls(&mut bytes)? == 0 {
                // Behind the peer's last word.
                break;
            }
            match self.session.process_new_packets() {
                Ok(state) => self.decrypted_bytes = state.plaintext_bytes_to_read(),
                Err(error) => {
                    // The peer is told why.
                    _ = self.flush();
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            }
        }
        self.flush_some()
    }

    /// Encrypts and sends what the socket takes of these at once. What was encrypted counts as sent: the rest of it
    /// goes first next time. With `more_follows` it waits for what comes at once.
    pub fn try_send(&mut self, slices: &[IoSlice<'_>], more_follows: bool) -> io::Result<usize> {
        self.flush()?;
        let sent = self.session.writer().write_vectored(slices)?;
        self.unsent_bytes += sent;
        self.holds_back = more_follows;
        if more_follows { Ok(sent) } else { self.flush_some().map(|()| sent) }
    }

    /// The same with the first `length` bytes of a span, which have to be in the page cache.
    pub fn try_send_file(&mut self, span: &Span, length: u32) -> io::Result<usize> {
        if !std::mem::take(&mut self.holds_back) {
            self.flush()?;
        }
        let sent = SCRATCH.with_borrow_mut(|scratch| {
            let bytes = &mut scratch[..SCRATCH_BYTES.min(length as usize)];
            storage::disk::read_exact_at(&*span.file, bytes, span.position)?;
            self.session.writer().write(bytes)
        })?;
        self.unsent_bytes += sent;
        self.flush_some().map(|()| sent)
    }

    /// About how much was encrypted and has not left.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    fn flush_some(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.try_send(&[IoSlice::new(bytes)], false) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.socket.poll_write_ready(cx))?,
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.send_close_notify();
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    /// Sends what was encrypted; fails with `WouldBlock` while the socket does not take all of it.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            let sent = self.session.write_tls(&mut SocketWriter(&self.socket))?;
            self.unsent_bytes = self.unsent_bytes.saturating_sub(sent);
        }
        self.unsent_bytes = 0;
        Ok(())
    }
}

/// Writes to a socket that does not block.
struct SocketWriter<'a>(&'a TcpStream);

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let send = || Ok(sendmsg(self.0, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?);
        self.0.try_io(Interest::WRITABLE, send)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
