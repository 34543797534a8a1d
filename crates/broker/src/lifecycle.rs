//! A broker's lifecycle: it registers, sends heartbeats, and shuts down in a controlled way (`BrokerLifecycleManager`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use wire::ErrorCode;
use wire::api::broker_heartbeat::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};
use wire::api::broker_registration::{BrokerRegistrationRequest, BrokerRegistrationResponse};

use crate::Broker;
use crate::cluster::{Members, membership};
use crate::controller::ControllerError;

/// How long it takes until a registration that was refused is tried again.
const REGISTRATION_INTERVAL: Duration = Duration::from_millis(50);
/// How long a controlled shutdown is retried, while other brokers take over.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
const LEAVE_INTERVAL: Duration = Duration::from_millis(20);

/// Why a broker cannot register.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error("node {node_id} is there already, with another data directory or in another process; stop that one first")]
    Duplicate { node_id: i32 },
    #[error("the controller refuses it: {0}")]
    Refused(ErrorCode),
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

/// Sends registrations and heartbeats.
pub struct Lifecycle {
    broker: Arc<Broker>,
    members: Arc<Members>,
    registration: BrokerRegistrationRequest,
}

impl Lifecycle {
    pub fn new(broker: Arc<Broker>, members: Arc<Members>, registration: BrokerRegistrationRequest) -> Self {
        Self { broker, members, registration }
    }

    /// Registers and returns the broker's epoch, when that metadata is published here. Retriable errors are retried for
    /// as long as `max_wait`.
    pub async fn register(&self, max_wait: Duration) -> Result<i64, RegistrationError> {
        let give_up = Instant::now() + max_wait;
        loop {
            let error = match self.broker.controller.ask(self.registration.clone()).await {
                Ok(BrokerRegistrationResponse { error_code: ErrorCode::NONE, broker_epoch, .. }) => {
                    self.broker.metadata.wait_for(broker_epoch).await;
                    return Ok(broker_epoch);
                }
                Ok(BrokerRegistrationResponse { error_code: ErrorCode::DUPLICATE_BROKER_REGISTRATION, .. }) => {
                    RegistrationError::Duplicate { node_id: self.broker.node_id }
                }
                Ok(refused) => return Err(RegistrationError::Refused(refused.error_code)),
                Err(ControllerError::NotController) => ControllerError::NotController.into(),
                Err(error) => return Err(error.into()),
            };
            if Instant::now() >= give_up {
                return Err(error);
            }
            sleep(REGISTRATION_INTERVAL).await;
        }
    }

    /// Sends heartbeats until it is dropped, and registers again should the cluster have forgotten this broker.
    pub async fn run(self: Arc<Self>, mut epoch: i64) {
        let session = &self.broker.session;
        session.extend(Instant::now());
        let mut ticks = interval(self.period());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let sent = Instant::now();
            // A heartbeat that took longer than the session does not count.
            match timeout(session.timeout(), self.heartbeat(epoch, false)).await {
                Ok(Ok(answer)) => match answer.error_code {
                    ErrorCode::NONE => self.extend_session(sent).await,
                    ErrorCode::STALE_BROKER_EPOCH | ErrorCode::BROKER_ID_NOT_REGISTERED => {
                        tracing::warn!("the cluster has forgotten this broker, which registers again");
                        match self.register(session.timeout()).await {
                            Ok(new) => epoch = new,
                            Err(error) => tracing::error!(%error, "the broker cannot register again"),
                        }
                    }
                    code => tracing::warn!(%code, "the controller does not take a sign of life"),
                },
                Ok(Err(error)) => tracing::debug!(%error, "no sign of life reaches the controller"),
                Err(_) => tracing::debug!("no sign of life reaches the controller in time"),
            }
        }
    }

    /// A controller has accepted a heartbeat that was sent then. After the end of a session others may lead what this
    /// broker has led. It does not know before it has the metadata of the meantime, and does not go on until then.
    async fn extend_session(&self, sent: Instant) {
        if self.broker.quorum.is_disk_stalled() {
            return;
        }
        let session = &self.broker.session;
        if session.is_over() {
            // The next heartbeat comes in time whatever becomes of this.
            let max_wait = session.timeout() / 2;
            let catching_up = membership::catch_up(&self.members, &self.broker.peers, &self.broker.metadata, max_wait);
            if !matches!(timeout(max_wait, catching_up).await, Ok(Ok(()))) {
                tracing::debug!("a new session has to wait for the metadata");
                return;
            }
        }
        session.extend(sent);
    }

    /// Watches whether the disk answers and a controller still takes this broker for alive, until it is dropped. If
    /// not, others may lead instead, and requests that wait for followers wait in vain.
    pub async fn watch_session(self: Arc<Self>) {
        let mut ticks = interval(self.period());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_over = false;
        loop {
            ticks.tick().await;
            let is_stalled = self.look_at_disk();
            let was_over = std::mem::replace(&mut is_over, self.broker.session.is_over());
            if is_over {
                self.broker.partitions.refuse_stalled(self.broker.session.timeout().as_millis() as i64);
            } else if was_over {
                self.broker.partitions.resume();
            }
            if is_over && !was_over && !is_stalled {
                tracing::warn!(
                    "no controller is heard of; what followers that are silent would have to confirm is refused"
                );
            }
        }
    }

    /// Refuses requests that wait for a stalled disk. Others take over, and this broker cannot follow the metadata that
    /// says so: its session ends here. Returns whether the disk is stalled.
    fn look_at_disk(&self) -> bool {
        let is_stalled = self.broker.quorum.is_disk_stalled();
        let is_news = self.broker.shared.disk_pressure.set_stalled(is_stalled);
        if is_stalled {
            // Each time: a request may have begun to wait before the stall was known.
            self.broker.partitions.refuse_for_stall();
            self.broker.session.give_up();
        }
        match (is_news, is_stalled) {
            (true, true) => tracing::error!("the disk does not answer; others take over what this broker leads"),
            (true, false) => tracing::info!("the disk answers again"),
            (false, _) => {}
        }
        is_stalled
    }

    /// `broker.heartbeat.interval.ms`.
    fn period(&self) -> Duration {
        Duration::from_millis(self.broker.config().broker_heartbeat_interval_ms.unsigned_abs().into())
    }

    /// Has all leaderships that others can take over moved to them, before this broker stops.
    pub async fn leave(&self) {
        let ready = timeout(LEAVE_TIMEOUT, async {
            loop {
                let epoch = self.broker.metadata.load().broker(self.broker.node_id).map_or(-1, |broker| broker.epoch);
                match self.heartbeat(epoch, true).await {
                    Ok(answer) if answer.should_shut_down || !answer.error_code.is_none() => return,
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "the controller does not hear that this broker leaves"),
                }
                sleep(LEAVE_INTERVAL).await;
            }
        });
        if ready.await.is_err() {
            tracing::warn!("the broker stops although others have not taken over all that it leads");
        }
    }

    async fn heartbeat(&self, broker_epoch: i64, leaves: bool) -> Result<BrokerHeartbeatResponse, ControllerError> {
        let is_cordoned = self.broker.shared.disk_pressure.is_cordoned();
        let request = BrokerHeartbeatRequest {
            broker_id: self.broker.node_id,
            broker_epoch,
            current_metadata_offset: self.broker.metadata.load().offset(),
            want_fence: self.broker.quorum.is_disk_stalled(),
            want_shut_down: leaves,
            cordoned_log_dirs: Some(is_cordoned.then_some(self.broker.directory_id).into_iter().collect()),
            ..Default::default()
        };
        self.broker.controller.ask(request).await
    }
}
