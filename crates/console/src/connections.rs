//! The console's connections: so many at a time, each with deadlines, and some that are kept for those who watch.
//!
//! When all ordinary places are taken, further connections are still accepted, into a reserve: there one request is
//! answered, and only if it asks for health or metrics. Who keeps a place of the reserve without asking gives way to
//! the next. So a flood may keep pages from people for a while, but does not make a broker look dead.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig as TlsConfig;

/// Ordinary connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// Connections beyond, for health and metrics.
const RESERVE_MAX: usize = 16;
/// After this time a connection ends, so that none holds a place for nothing. A page that listens connects anew.
const LIFETIME: Duration = Duration::from_secs(300);
const RESERVE_LIFETIME: Duration = Duration::from_secs(30);
/// Until the head of a request has come, since the connection was there or the last answer went out.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take none of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Of a request's head, with its query: positions in a topic of many partitions are long.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long nothing is accepted after the process has run out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Answers until it is dropped.
pub(crate) async fn serve(listener: TcpListener, tls: Option<watch::Receiver<Arc<TlsConfig>>>, routes: Router) {
    serve_at(listener, tls, TowerToHyperService::new(routes), Places::default()).await;
}

async fn serve_at(
    listener: TcpListener,
    tls: Option<watch::Receiver<Arc<TlsConfig>>>,
    routes: TowerToHyperService<Router>,
    places: Places,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "the console cannot accept connections for now");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = places.take().await;
        let tls = tls.as_ref().map(|current| TlsAcceptor::from(Arc::clone(&current.borrow())));
        tokio::spawn(answer(stream, tls, address, place, routes.clone()));
    }
}

/// Whose request it is, for those who answer it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// Who may be served at a time.
#[derive(Clone)]
struct Places {
    ordinary: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    idle: Arc<Idle>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            ordinary: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            reserve: Arc::new(Semaphore::new(RESERVE_MAX)),
            idle: Arc::default(),
        }
    }
}

/// Connections of the reserve that have not asked yet, those that came first in front.
#[derive(Default)]
struct Idle(Mutex<VecDeque<oneshot::Sender<Infallible>>>);

impl Idle {
    fn push(&self) -> oneshot::Receiver<Infallible> {
        let (place, given_up) = oneshot::channel();
        let mut idle = self.0.lock();
        // Those that have asked, or are gone.
        idle.retain(|place| !place.is_closed());
        idle.push_back(place);
        given_up
    }

    /// Has the one that came first give way, if there is one.
    fn evict(&self) {
        let mut idle = self.0.lock();
        while idle.pop_front().is_some_and(|place| place.is_closed()) {}
    }
}

/// A connection's place, free again when it is dropped.
struct Place {
    _permit: OwnedSemaphorePermit,
    /// Of the reserve: ends when another one needs the place, until it is taken away because a request has come.
    given_up: Option<oneshot::Receiver<Infallible>>,
}

impl Places {
    async fn take(&self) -> Place {
        if let Ok(permit) = Arc::clone(&self.ordinary).try_acquire_owned() {
            return Place { _permit: permit, given_up: None };
        }
        if self.reserve.available_permits() == 0 {
            self.idle.evict();
        }
        tokio::select! {
            biased;
            permit = Arc::clone(&self.reserve).acquire_owned() => {
                let permit = permit.expect("the semaphore is never closed");
                Place { _permit: permit, given_up: Some(self.idle.push()) }
            }
            permit = Arc::clone(&self.ordinary).acquire_owned() => {
                Place { _permit: permit.expect("the semaphore is never closed"), given_up: None }
            }
        }
    }
}

/// Answers the requests of one connection.
async fn answer<S>(
    stream: S,
    tls: Option<TlsAcceptor>,
    address: SocketAddr,
    place: Place,
    routes: TowerToHyperService<Router>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Place { _permit, given_up } = place;
    let is_reserve = given_up.is_some();
    let idle = Arc::new(Mutex::new(given_up));
    let visitor = Visitor { routes, peer: PeerAddress(address.ip()), is_reserve, idle: Arc::clone(&idle) };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    let stream = Patient { stream, stalled: None };
    let connection = async {
        let Some(tls) = tls else {
            return http.serve_connection(TokioIo::new(stream), visitor).await.map_err(|error| error.to_string());
        };
        let stream = match timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(format!("TLS: {error}")),
            Err(_) => return Err("no TLS in time".to_owned()),
        };
        http.serve_connection(TokioIo::new(stream), visitor).await.map_err(|error| error.to_string())
    };
    let evicted = std::future::poll_fn(|cx| {
        let mut idle = idle.lock();
        match idle.as_mut() {
            Some(given_up) => Pin::new(given_up).poll(cx).map(|_| ()),
            None => Poll::Pending,
        }
    });
    let lifetime = if is_reserve { RESERVE_LIFETIME } else { LIFETIME };
    tokio::select! {
        // One whose request has come is answered, even when its place is wanted at that very moment.
        biased;
        ended = timeout(lifetime, connection) => match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%address, %error, "a connection to the console has ended"),
            Err(_) => tracing::debug!(%address, "a connection to the console has ended: its time is over"),
        },
        () = evicted => tracing::debug!(%address, "a connection to the console gave way to another one"),
    }
}

/// Hands requests of one connection on.
struct Visitor {
    routes: TowerToHyperService<Router>,
    peer: PeerAddress,
    is_reserve: bool,
    idle: Arc<Mutex<Option<oneshot::Receiver<Infallible>>>>,
}

impl Service<Request<Incoming>> for Visitor {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.idle.lock().take();
        request.extensions_mut().insert(self.peer);
        let path = request.uri().path();
        if self.is_reserve && path != "/metrics" && !path.starts_with("/health/") {
            return Box::pin(async { Ok(last(full())) });
        }
        let (answer, is_last) = (self.routes.call(request), self.is_reserve);
        Box::pin(async move { answer.await.map(|response| if is_last { last(response) } else { response }) })
    }
}

fn full() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the console has as many connections as it can serve: try again\n")
        .into_response()
}

/// An answer after which the connection ends.
fn last(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A stream that is given up when its peer takes nothing for [`WRITE_TIMEOUT`].
struct Patient<S> {
    stream: S,
    /// Since a write found no room.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(outcome) => {
                self.stalled = None;
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
                stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
