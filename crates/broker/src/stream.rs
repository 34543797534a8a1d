//! Sockets: the kernel's, with TLS or without, or a simulation's in tests.

mod dialer;
mod tls;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use client::{Connection, ConnectionConfig, ConnectionError};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::ServerConfig;
use storage::Span;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

pub use self::dialer::Dialer;
pub use self::tls::TlsStream;

/// A socket that listens.
pub enum Socket {
    Tcp(TcpListener),
    #[cfg(test)]
    Simulated(crate::simulation::sockets::SimListener),
}

impl Socket {
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match self {
            Self::Tcp(socket) => socket.accept().await.map(|(stream, address)| (Stream::Tcp(stream), address)),
            #[cfg(test)]
            Self::Simulated(socket) => Ok(socket.accept().await),
        }
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr(),
            #[cfg(test)]
            Self::Simulated(socket) => Ok(socket.address()),
        }
    }
}

/// A connection.
pub enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    #[cfg(test)]
    Simulated(crate::simulation::sockets::SimStream),
}

impl Stream {
    pub async fn connect(address: &str) -> io::Result<Self> {
        #[cfg(test)]
        if let Some(machine) = crate::simulation::machine::current() {
            return machine.connect(address).await.map(Self::Simulated);
        }
        TcpStream::connect(address).await.map(Self::Tcp)
    }

    /// The same connection with TLS, of which this is the server.
    pub fn secured(self, config: Arc<ServerConfig>) -> io::Result<Self> {
        match self {
            Self::Tcp(socket) => TlsStream::new(socket, config).map(Box::new).map(Self::Tls),
            secured => Ok(secured),
        }
    }

    /// Has a connection driven by the runtime that this is called on.
    pub fn moved(self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => TcpStream::from_std(stream.into_std()?).map(Self::Tcp),
            Self::Tls(stream) => stream.moved().map(Box::new).map(Self::Tls),
            #[cfg(test)]
            simulated @ Self::Simulated(_) => Ok(simulated),
        }
    }

    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Tls(stream) => stream.poll_read_ready(cx),
            #[cfg(test)]
            Self::Simulated(stream) => stream.poll_read_ready(cx).map(Ok),
        }
    }

    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(cx),
            Self::Tls(stream) => stream.socket().poll_write_ready(cx),
            #[cfg(test)]
            Self::Simulated(stream) => stream.poll_write_ready(cx).map(Ok),
        }
    }

    /// Sends what the socket takes of these at once. With `more_follows` another send comes at once.
    pub fn try_send(&mut self, slices: &[IoSlice<'_>], more_follows: bool) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => {
                let flags = if more_follows { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
                let send = || Ok(sendmsg(&*stream, slices, &mut SendAncillaryBuffer::default(), flags)?);
                stream.try_io(Interest::WRITABLE, send)
            }
            Self::Tls(stream) => stream.try_send(slices, more_follows),
            #[cfg(test)]
            Self::Simulated(stream) => stream.try_send(slices),
        }
    }

    /// About how many bytes were taken and have not left.
    pub fn unsent_bytes(&self) -> usize {
        if let Self::Tls(stream) = self { stream.unsent_bytes() } else { 0 }
    }

    /// Sends what was taken and has not left. Fails with `WouldBlock` while the socket does not take all of it.
    pub fn try_flush(&mut self) -> io::Result<()> {
        if let Self::Tls(stream) = self { stream.flush() } else { Ok(()) }
    }

    /// Sends what the socket takes of the first `length` bytes at once.
    pub fn try_send_file(&mut self, span: &Span, length: u32) -> io::Result<usize> {
        let copy = |buffer_bytes: usize| {
            let mut buffer = vec![0; (length as usize).min(buffer_bytes)];
            storage::disk::read_exact_at(&*span.file, &mut buffer, span.position).map(|()| buffer)
        };
        match self {
            Self::Tcp(stream) => stream.try_io(Interest::WRITABLE, || match span.file.fd() {
                Some(file) => {
                    let mut position = span.position;
                    Ok(rustix::fs::sendfile(&*stream, file, Some(&mut position), length as usize)?)
                }
                // A simulated disk has no descriptors.
                None => Ok(rustix::net::send(&*stream, &copy(64 * 1024)?, SendFlags::NOSIGNAL)?),
            }),
            Self::Tls(stream) => stream.try_send_file(span, length),
            #[cfg(test)]
            Self::Simulated(stream) => stream.try_send(&[IoSlice::new(&copy(64 * 1024)?)]),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => stream.poll_read(cx, buffer),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => stream.poll_write(cx, bytes),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => stream.poll_flush(cx),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => stream.poll_shutdown(cx),
            #[cfg(test)]
            Self::Simulated(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Connects to another node, as [`Connection::connect`] does.
pub async fn connect(address: &str, config: &ConnectionConfig) -> Result<Connection, ConnectionError> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        let failed = |reason: String| ConnectionError::Connect { address: address.to_owned(), reason };
        let connecting = tokio::time::timeout(config.connect_timeout, machine.connect(address)).await;
        let stream = connecting.map_err(|_| failed("no answer in time".to_owned()))?;
        return Connection::over(stream.map_err(|error| failed(error.to_string()))?, address, config).await;
    }
    Connection::connect(address, config).await
}
