//! Attempts to log in: those of one address one after the other, and none of them in the way of another address.
//!
//! An address is remembered as long as one of its attempts is looked at or waits, so there are never more of them than
//! connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

/// Attempts of one address that wait for their turn, with the one that has it.
const WAITING_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<IpAddr, Arc<Turns<()>>>>);

/// The turn of an address. The next one of the address has it when this is dropped.
pub(super) struct Turn<'a> {
    attempts: &'a Attempts,
    address: IpAddr,
    turn: Option<OwnedMutexGuard<()>>,
}

/// Too many attempts of an address wait already.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl IntoResponse for TooMany {
    fn into_response(self) -> Response {
        let reason = "too many passwords from this address are being looked at: try again\n";
        (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")], reason).into_response()
    }
}

impl Attempts {
    pub(super) async fn turn(&self, address: IpAddr) -> Result<Turn<'_>, TooMany> {
        let address = source(address);
        let turns = {
            let mut known = self.0.lock();
            let turns = known.entry(address).or_default();
            // One is the table's own.
            if Arc::strong_count(turns) > WAITING_MAX {
                return Err(TooMany);
            }
            Arc::clone(turns)
        };
        // Dropped with this future as well, when its connection ends while it waits.
        let mut turn = Turn { attempts: self, address, turn: None };
        turn.turn = Some(turns.lock_owned().await);
        Ok(turn)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turn = None;
        let mut known = self.attempts.0.lock();
        if known.get(&self.address).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            known.remove(&self.address);
        }
    }
}

/// Whose attempts are counted together: whoever has an IPv6 address has all of its network.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn attempts_of_an_address_take_turns_and_are_forgotten() {
        let attempts = Attempts::default();
        let [a, b] = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
        let first = now(attempts.turn(a)).unwrap().unwrap();
        let mut waiting: Vec<_> = (1..WAITING_MAX).map(|_| Box::pin(attempts.turn(a))).collect();
        for turn in &mut waiting {
            assert!(now(turn.as_mut()).is_none());
        }
        assert_eq!(now(attempts.turn(a)).unwrap().err(), Some(TooMany));
        drop(now(attempts.turn(b)).unwrap().unwrap());
        assert_eq!(attempts.0.lock().len(), 1);
        // Those that are gone before their turn leave nothing behind.
        waiting.truncate(1);
        drop(first);
        drop(now(waiting[0].as_mut()).unwrap().unwrap());
        drop(waiting);
        assert_eq!(attempts.0.lock().len(), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let address = |text: &str| source(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    }
}
