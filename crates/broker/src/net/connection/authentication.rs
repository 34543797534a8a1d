//! Who uses a connection: what is served before that is known, and how a connection ends whose client is not let in.
//!
//! Over TLS the handshake takes place while the first bytes are read; the first frame finds it done. A listener with
//! SASL serves nothing but an exchange then, one request at a time, until it knows the user. A client that fails waits
//! for its answer, and for the end of the connection, so that guessing takes time; nothing is read meanwhile.

use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use platform::Env;
use security::Mechanism;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use wire::Reader;
use wire::api as table;
use wire::api::Request;
use wire::api::sasl_handshake::SaslHandshakeRequest;

use super::pending::PendingRequest;
use super::{Connection, read_header};
use crate::api::{self, Peer, Started};
use crate::close_reason::CloseReason;
use crate::frame::Frame;
use crate::partition::PendingCommits;
use crate::security::{Authenticated, Exchange, Ground, KeysWait, Step};
use crate::stats::{Stage, Stopwatch};
use crate::stream::Stream;

/// How long a client may take from the first byte on until it is known who it is.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(15);
/// How soon a client that has said again who it is may say so once more.
const AGAIN_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// How long a client that is told why it is not served may take to read that, and how much of what it sends meanwhile
/// is thrown away: a connection that is closed with something unread takes the last answer with it.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 * 1024;

/// Whether it is known who uses a connection.
pub(super) enum Phase {
    /// Not before the handshake of TLS is done.
    Handshaking {
        until: Instant,
    },
    Authenticating {
        exchange: Box<Exchange>,
        until: Instant,
        /// A frame that is to come once more.
        held: Option<Box<HeldFrame>>,
    },
    Open(Session),
}

/// A token whose key was not known, until the keys have been fetched anew.
pub(super) struct HeldFrame {
    frame: Bytes,
    /// `None` when they have been.
    wait: Option<KeysWait>,
}

/// A connection whose client is known.
#[derive(Default)]
pub(super) struct Session {
    /// When it has to say again who it is, at the latest.
    expires: Option<Instant>,
    mechanism: Option<Mechanism>,
    /// When it has said so again. The first time may come at once.
    renewed: Option<Instant>,
}

impl Phase {
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// When the connection ends unless it is open by then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Handshaking { until } | Self::Authenticating { until, .. } => Some(*until),
            Self::Open(_) => None,
        }
    }

    fn authenticating(exchange: Exchange, until: Instant) -> Self {
        Self::Authenticating { exchange: Box::new(exchange), until, held: None }
    }

    /// Whether a frame is to come once more before the next one.
    pub(super) fn holds_frame(&self) -> bool {
        matches!(self, Self::Authenticating { held: Some(_), .. })
    }

    /// Until the frame that is held may come once more. Pending where none is held.
    pub(super) fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self::Authenticating { held: Some(held), .. } = self else { return Poll::Pending };
        if let Some(wait) = &mut held.wait {
            std::task::ready!(wait.as_mut().poll(cx));
            held.wait = None;
        }
        Poll::Ready(())
    }

    /// The frame that may come once more.
    pub(super) fn take_held(&mut self) -> Option<Bytes> {
        let Self::Authenticating { held, .. } = self else { return None };
        held.take_if(|held| held.wait.is_none()).map(|held| held.frame)
    }

    /// Whether the next frame has no header.
    pub(super) fn takes_raw_tokens(&self) -> bool {
        matches!(self, Self::Authenticating { exchange, .. } if exchange.takes_raw_tokens())
    }
}

impl Connection {
    pub(super) fn first_phase(peer: &Peer, now: Instant) -> Phase {
        let until = now + AUTHENTICATION_TIMEOUT;
        let protocol = peer.security.protocol();
        match (protocol.has_tls(), protocol.has_sasl()) {
            (true, _) => Phase::Handshaking { until },
            (false, true) => Phase::authenticating(Exchange::new(), until),
            (false, false) => Phase::Open(Session::default()),
        }
    }

    /// Waits for a turn to go on with a handshake of TLS. Each step takes long beside a request: many at once take
    /// turns, and whoever is served finds a thread in between.
    pub(super) async fn handshake_turn(&mut self) -> Result<Option<OwnedSemaphorePermit>, CloseReason> {
        let Phase::Handshaking { until } = self.phase else { return Ok(None) };
        let turn = Arc::clone(&self.broker.handshake_turns).acquire_owned();
        let turn = timeout_at(until, turn).await.map_err(|_| CloseReason::SlowAuthentication)?;
        Ok(Some(turn.expect("the turns never end")))
    }

    /// Bytes have come of a client whose handshake of TLS was not done: now it is.
    pub(super) fn end_handshake(&mut self) -> Result<(), CloseReason> {
        let Phase::Handshaking { until } = &self.phase else { return Ok(()) };
        let Stream::Tls(stream) = &self.stream else { unreachable!("only TLS has a handshake") };
        let certificates = stream.peer_certificates();
        if self.peer.is_inter_broker {
            let certificate = certificates.first().cloned().map(Arc::new);
            self.peer = Peer { certificate, ..Peer::clone(&self.peer) }.into();
        }
        if self.peer.security.protocol().has_sasl() {
            self.phase = Phase::authenticating(Exchange::new(), *until);
            return Ok(());
        }
        let principal = self.peer.security.principal_of(certificates)?;
        self.open(Authenticated { principal, mechanism: None, lifetime: None });
        Ok(())
    }

    /// Whether the client may send what comes first, where it has to say again from time to time who it is (KIP-368).
    pub(super) fn check_session(&mut self) -> Result<(), CloseReason> {
        let Phase::Open(Session { expires: Some(expires), mechanism: Some(mechanism), renewed }) = &self.phase else {
            return Ok(());
        };
        let now = Instant::now();
        let is_soon = renewed.is_some_and(|renewed| now < renewed + AGAIN_INTERVAL_MIN);
        if self.first_key() == Some(SaslHandshakeRequest::API.key) && !is_soon {
            let exchange = Exchange::again(self.peer.principal.clone(), *mechanism);
            self.phase = Phase::authenticating(exchange, now + AUTHENTICATION_TIMEOUT);
        } else if now >= *expires {
            return Err(CloseReason::SessionExpired);
        }
        Ok(())
    }

    fn open(&mut self, authenticated: Authenticated) {
        let Authenticated { principal, mechanism, lifetime } = authenticated;
        let now = Instant::now();
        let is_renewal = matches!(&self.phase, Phase::Authenticating { exchange, .. } if exchange.is_renewal());
        let (expires, renewed) = (lifetime.map(|lifetime| now + lifetime), is_renewal.then_some(now));
        self.phase = Phase::Open(Session { expires, mechanism, renewed });
        self.peer = Peer { principal, ..Peer::clone(&self.peer) }.into();
    }

    /// Starts a request of a client that is not known yet.
    pub(super) fn start_authentication(
        &mut self,
        frame: &Bytes,
        commits: &mut PendingCommits,
    ) -> Result<(), CloseReason> {
        let body = frame.slice(4..);
        let listener = self.peer.security.clone();
        let image = self.broker.metadata.load();
        let Env { clock, random, .. } = &self.broker.env;
        let ground = Ground { listener: &listener, image: &image, random: &**random, now_ms: clock.now_ms() };
        let Phase::Authenticating { exchange, held, .. } = &mut self.phase else { unreachable!("it is not open") };
        let mut row = table::row(SaslHandshakeRequest::API.key);
        let step = if exchange.takes_raw_tokens() {
            exchange.raw_token(&ground, &body)
        } else {
            let mut reader = Reader::new(&body, 0, false);
            let header = read_header(&mut reader)?;
            row = table::row(header.api_key);
            match exchange.request(&ground, &header, &mut reader)? {
                Step::Versions => {
                    let started = api::start(&self.broker, &self.peer, header, reader, commits)?;
                    self.wait_for(started, row);
                    return Ok(());
                }
                step => step,
            }
        };
        match step {
            Step::Versions => unreachable!("it has been answered"),
            Step::Later(wait) => *held = Some(Box::new(HeldFrame { frame: frame.clone(), wait: Some(wait) })),
            Step::Answer(answer) => self.wait_for(answered(answer), row),
            Step::Authenticated(answer, authenticated) => {
                self.open(authenticated);
                self.wait_for(answered(answer), row);
            }
            // That is no guess.
            Step::Refused(None, reason @ CloseReason::NotAuthenticated { .. }) => return Err(reason),
            Step::Refused(answer, reason) => {
                let delay = listener.failure_delay();
                let refused = match answer {
                    Some(answer) => {
                        self.closing = Some(reason);
                        Ok(answer)
                    }
                    None => Err(reason),
                };
                let late = Box::pin(async move {
                    sleep(delay).await;
                    refused
                });
                self.wait_for(Started::Other(late), row);
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, started: Started, row: Option<usize>) {
        let mut watch = Stopwatch::new(row.expect("its API is in the table"), self.arrived);
        watch.lap(Stage::Queue, self.now());
        self.pending.push_back(PendingRequest { started, watch, metered: None, _frame: None, _permits: [None, None] });
    }

    /// Lets the peer read what it was told last.
    pub(super) async fn linger(&mut self) {
        _ = timeout(LINGER_TIMEOUT, async {
            self.stream.shutdown().await?;
            let mut rest = vec![0; 1024];
            let mut bytes = 0;
            while bytes < LINGER_BYTES_MAX {
                match self.stream.read(&mut rest).await? {
                    0 => break,
                    read => bytes += read,
                }
            }
            Ok::<_, std::io::Error>(())
        })
        .await;
    }
}

fn answered(answer: Frame) -> Started {
    Started::Other(Box::pin(ready(Ok(answer))))
}
