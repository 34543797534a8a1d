//! Memory of the process that peers may take: a pool with a bound, of which no address gets all.
//!
//! There is one pool for what has arrived of requests, and one for answers that have not left, so that neither waits
//! for the other. A [`Permit`] is a piece of a pool for as long as it lives. Taking one costs two additions while
//! memory is available; otherwise the connection waits in a queue of its address, and addresses take turns.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A request up to this size is small: what is large leaves [`RESERVE_BYTES`] to what is small.
pub const SMALL_BYTES_MAX: usize = 1 << 20;
/// Memory that large permits leave free; half of it they leave free of their address's share.
const RESERVE_BYTES: usize = 16 << 20;
/// Brokers may take this part of the pool beyond its end, so that clients that took all of it do not silence a node.
const INTER_BROKER_PART: usize = 8;

pub struct Budget {
    size: usize,
    /// What always fits.
    largest: usize,
    address_max: usize,
    large_max: usize,
    used: AtomicUsize,
    used_large: AtomicUsize,
    /// How many wait, including waiters that gave up until their queue is looked at.
    waiters: AtomicUsize,
    /// Shares with waiters. The first is served next.
    turns: Mutex<VecDeque<Arc<Share>>>,
    shares: Mutex<HashMap<Origin, Weak<Share>>>,
}

/// An address, at a listener for clients or for brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin {
    address: IpAddr,
    is_inter_broker: bool,
}

/// What an address has of a pool.
pub struct Share {
    budget: Arc<Budget>,
    origin: Origin,
    used: AtomicUsize,
    used_large: AtomicUsize,
    waiting: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    small: VecDeque<Waiter>,
    large: VecDeque<Waiter>,
    has_turn: bool,
}

struct Waiter {
    bytes: usize,
    granted: oneshot::Sender<Permit>,
}

/// A piece of a pool, until it is dropped.
pub struct Permit {
    share: Arc<Share>,
    bytes: usize,
    is_large: bool,
}

/// A permit that is waited for.
pub struct Waiting(oneshot::Receiver<Permit>);

impl Budget {
    /// A pool in which one piece of `largest` always fits.
    pub fn new(bytes: usize, largest: usize) -> Arc<Self> {
        let size = bytes.max(largest + RESERVE_BYTES);
        Arc::new(Self {
            size,
            largest,
            address_max: (size / 2).max(largest + RESERVE_BYTES / 2),
            large_max: size - RESERVE_BYTES,
            used: AtomicUsize::new(0),
            used_large: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
            turns: Mutex::default(),
            shares: Mutex::default(),
        })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size as u64
    }

    /// The maximum size of a large permit: it fits when there is no other one.
    pub fn large_max(&self) -> usize {
        self.large_max.min(self.address_max - RESERVE_BYTES / 2)
    }

    /// How much of it is taken.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(SeqCst) as u64
    }

    /// Whether there are waiters.
    pub fn is_short(&self) -> bool {
        self.waiters.load(SeqCst) > 0
    }

    /// The share of an address. A network of IPv6 counts as one address: a single host may use any of its addresses.
    pub fn share(self: &Arc<Self>, address: IpAddr, is_inter_broker: bool) -> Arc<Share> {
        let address = match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
            v4 => v4,
        };
        let origin = Origin { address, is_inter_broker };
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&origin).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Share {
            budget: Arc::clone(self),
            origin,
            used: AtomicUsize::new(0),
            used_large: AtomicUsize::new(0),
            waiting: Mutex::default(),
        });
        shares.insert(origin, Arc::downgrade(&share));
        share
    }

    /// Serves waiters as far as memory is available.
    fn serve_waiters(&self) {
        while self.is_short()
            && let Some((granted, permit)) = self.next_grant()
        {
            // A waiter that gave up in this moment gives it back.
            granted.send(permit).ok();
        }
    }

    fn next_grant(&self) -> Option<(oneshot::Sender<Permit>, Permit)> {
        let mut turns = self.turns.lock();
        for _ in 0..turns.len() {
            let share = turns.pop_front()?;
            let mut waiting = share.waiting.lock();
            let next = waiting.pop_fitting(&share);
            waiting.has_turn = !(waiting.small.is_empty() && waiting.large.is_empty());
            let has_turn = waiting.has_turn;
            drop(waiting);
            if has_turn {
                turns.push_back(Arc::clone(&share));
            }
            if let Some((waiter, is_large)) = next {
                let mut permit = share.empty_permit();
                permit.is_large = is_large;
                permit.resize_up(waiter.bytes);
                return Some((waiter.granted, permit));
            }
        }
        None
    }
}

impl Queues {
    fn pop_fitting(&mut self, share: &Share) -> Option<(Waiter, bool)> {
        for (queue, is_large) in [(&mut self.small, false), (&mut self.large, true)] {
            while let Some(first) = queue.front() {
                let is_gone = first.granted.is_closed();
                if !is_gone && !share.has_room(first.bytes, is_large) {
                    break;
                }
                let first = queue.pop_front()?;
                share.budget.waiters.fetch_sub(1, SeqCst);
                if !is_gone {
                    return Some((first, is_large));
                }
            }
        }
        None
    }
}

impl Share {
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether so much more may be taken now.
    pub fn has_room(&self, bytes: usize, is_large: bool) -> bool {
        let budget = &*self.budget;
        let (total_max, address_max) = if self.origin.is_inter_broker {
            (budget.size + budget.size / INTER_BROKER_PART, budget.size)
        } else {
            (budget.size, budget.address_max)
        };
        budget.used.load(SeqCst) + bytes <= total_max
            && self.used.load(SeqCst) + bytes <= address_max
            && (!is_large || self.has_room_for_large(bytes, address_max - RESERVE_BYTES / 2))
    }

    fn has_room_for_large(&self, bytes: usize, address_max: usize) -> bool {
        self.used_large.load(SeqCst) + bytes <= address_max
            && self.budget.used_large.load(SeqCst) + bytes <= self.budget.large_max
    }

    /// Whether an incomplete request may take so much more now, and the rest of any request fits beside it. If not, it
    /// waits for all that it lacks: so holders of permits never wait only for each other.
    pub fn may_grow(&self, bytes: usize, is_large: bool) -> bool {
        self.has_room(bytes + if is_large { self.budget.largest } else { SMALL_BYTES_MAX }, is_large)
    }

    /// Whether what may become anything may begin with so much, and the rest of anything fits beside it.
    pub fn may_begin(&self, bytes: usize) -> bool {
        self.has_room(bytes + self.budget.largest, false)
    }

    /// A permit for nothing, which can be made larger.
    pub fn empty_permit(self: &Arc<Self>) -> Permit {
        Permit { share: Arc::clone(self), bytes: 0, is_large: false }
    }

    /// Enqueues a waiter.
    pub fn wait_for(self: &Arc<Self>, bytes: usize, is_large: bool) -> Waiting {
        let (granted, receiver) = oneshot::channel();
        let budget = &self.budget;
        {
            let mut turns = budget.turns.lock();
            let mut waiting = self.waiting.lock();
            let queue = if is_large { &mut waiting.large } else { &mut waiting.small };
            if queue.len() == queue.capacity() {
                let before = queue.len();
                queue.retain(|waiter| !waiter.granted.is_closed());
                budget.waiters.fetch_sub(before - queue.len(), SeqCst);
            }
            queue.push_back(Waiter { bytes, granted });
            budget.waiters.fetch_add(1, SeqCst);
            if !waiting.has_turn {
                waiting.has_turn = true;
                turns.push_back(Arc::clone(self));
            }
        }
        budget.serve_waiters();
        Waiting(receiver)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.budget.shares.lock();
        if shares.get(&self.origin).is_some_and(|share| share.strong_count() == 0) {
            shares.remove(&self.origin);
        }
    }
}

impl Future for Waiting {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        Pin::new(&mut self.0).poll(cx).map(|permit| permit.expect("who waits is in the queue until it is served"))
    }
}

impl Permit {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Resizes the permit, whether memory is available or not, and gives back what is too much.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.resize_up(bytes);
        } else if bytes < self.bytes {
            let less = self.bytes - bytes;
            self.bytes = bytes;
            self.share.used.fetch_sub(less, SeqCst);
            if self.is_large {
                self.share.used_large.fetch_sub(less, SeqCst);
                self.share.budget.used_large.fetch_sub(less, SeqCst);
            }
            self.share.budget.used.fetch_sub(less, SeqCst);
            // An empty one can become small or large.
            self.is_large &= bytes > 0;
            self.share.budget.serve_waiters();
        }
    }

    fn resize_up(&mut self, bytes: usize) {
        let more = bytes - self.bytes;
        self.bytes = bytes;
        self.share.used.fetch_add(more, SeqCst);
        if self.is_large {
            self.share.used_large.fetch_add(more, SeqCst);
            self.share.budget.used_large.fetch_add(more, SeqCst);
        }
        self.share.budget.used.fetch_add(more, SeqCst);
    }

    /// Has it count as large: it leaves a reserve to what is small.
    pub fn make_large(&mut self) {
        if !self.is_large {
            self.is_large = true;
            self.share.used_large.fetch_add(self.bytes, SeqCst);
            self.share.budget.used_large.fetch_add(self.bytes, SeqCst);
        }
    }

    /// Makes one of two, of the same share.
    pub fn merge(&mut self, mut other: Self) {
        if other.is_large {
            self.make_large();
        }
        if self.is_large {
            other.make_large();
        }
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const MIB: usize = 1 << 20;
    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn take(share: &Arc<Share>, bytes: usize, is_large: bool) -> Permit {
        let mut permit = share.empty_permit();
        permit.is_large = is_large;
        permit.resize(bytes);
        permit
    }

    fn poll(waiting: &mut Waiting) -> Option<Permit> {
        match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn large_requests_leave_room_to_small_ones_of_their_address() {
        let budget = Budget::new(200 * MIB, 10 * MIB);
        let share = budget.share(A, false);
        let mut held = Vec::new();
        while share.has_room(MIB, true) {
            held.push(take(&share, MIB, true));
        }
        assert!(share.has_room(RESERVE_BYTES / 2, false));
        assert!(!share.has_room(RESERVE_BYTES / 2 + 1, false));
    }

    #[test]
    fn an_address_never_gets_all() {
        let budget = Budget::new(200 * MIB, 10 * MIB);
        let (a, b) = (budget.share(A, false), budget.share(B, false));
        let mut held = Vec::new();
        while a.has_room(MIB, false) {
            held.push(take(&a, MIB, false));
        }
        assert_eq!(held.len(), 100);
        assert!(b.has_room(100 * MIB, false));
    }

    #[test]
    fn the_largest_request_fits_and_leaves_room_for_small_ones_and_for_others() {
        let budget = Budget::new(0, 100 * MIB);
        assert_eq!(budget.size_bytes(), 116 << 20);
        let (a, b) = (budget.share(A, false), budget.share(B, false));
        assert!(a.has_room(100 * MIB, true));
        let _large = take(&a, 100 * MIB, true);
        assert!(!a.has_room(1, true) && !b.has_room(1, true));
        assert!(a.has_room(8 * MIB, false) && !a.has_room(8 * MIB + 1, false));
        let _small = take(&a, 8 * MIB, false);
        assert!(b.has_room(8 * MIB, false));
    }

    #[test]
    fn brokers_find_room_when_clients_have_taken_all() {
        let budget = Budget::new(200 * MIB, 10 * MIB);
        let _all = [A, B].map(|address| take(&budget.share(address, false), 100 * MIB, false));
        assert!(!budget.share("10.0.0.3".parse().unwrap(), false).has_room(1, false));
        let broker = budget.share(A, true);
        assert!(broker.has_room(25 * MIB, false) && !broker.has_room(25 * MIB + 1, false));
    }

    #[test]
    fn addresses_take_turns_and_small_requests_do_not_wait_behind_large_ones() {
        let budget = Budget::new(64 * MIB, MIB);
        let (a, b) = (budget.share(A, false), budget.share(B, false));
        let mut of_a = take(&a, 32 * MIB, true);
        let of_b = take(&b, 32 * MIB, false);
        let mut large = a.wait_for(20 * MIB, true);
        let mut first = a.wait_for(MIB, false);
        let mut second = a.wait_for(MIB, false);
        let mut other = b.wait_for(MIB, false);
        assert!(budget.is_short());
        assert!([&mut large, &mut first, &mut second, &mut other].into_iter().all(|waiting| poll(waiting).is_none()));
        of_a.resize(31 * MIB);
        let first = poll(&mut first).expect("there is room for the first");
        assert!(poll(&mut second).is_none() && poll(&mut large).is_none());
        drop(of_b);
        let _other = poll(&mut other).expect("the other address has room");
        assert!(poll(&mut second).is_none(), "the share of the first is used up");
        drop(first);
        assert!(poll(&mut second).is_some());
        drop(of_a);
        assert_eq!(poll(&mut large).map(|permit| permit.bytes()), Some(20 * MIB));
        assert!(!budget.is_short());
        assert_eq!(budget.used_bytes(), 1 << 20);
    }

    #[test]
    fn who_gave_up_is_forgotten() {
        let budget = Budget::new(64 * MIB, MIB);
        let a = budget.share(A, false);
        let held = take(&a, 32 * MIB, false);
        let patient = a.wait_for(MIB, false);
        for _ in 0..10_000 {
            drop(a.wait_for(MIB, false));
        }
        assert!(a.waiting.lock().small.capacity() < 100);
        let mut last = a.wait_for(MIB, false);
        drop((held, patient));
        assert!(poll(&mut last).is_some());
        assert!(!budget.is_short());
        drop((a, last));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_is_forgotten_with_its_last_permit() {
        let budget = Budget::new(64 * MIB, MIB);
        let share = |address: &str| budget.share(address.parse().unwrap(), false);
        let one = share("2001:db8::1");
        assert!(Arc::ptr_eq(&one, &share("2001:db8::ffff:1")));
        assert!(!Arc::ptr_eq(&one, &share("2001:db8:0:1::1")));
        let v4 = share("10.0.0.1");
        assert!(Arc::ptr_eq(&v4, &share("::ffff:10.0.0.1")));
        drop(v4);
        let permit = take(&one, 1, false);
        drop(one);
        assert_eq!(budget.shares.lock().len(), 1);
        drop(permit);
        assert!(budget.shares.lock().is_empty());
    }
}
