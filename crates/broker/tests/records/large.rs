//! Requests that take long to check.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use platform::{Clock, Env};
use storage::Now;
use wire::api::api_versions::ApiVersionsRequest;

use super::*;
use crate::common::TestBroker;

/// A clock that stands still for those who check batches, until the test lets go of it.
struct StandingClock {
    clock: Arc<dyn Clock>,
    stands_still: Arc<RwLock<()>>,
    waiting: Arc<AtomicUsize>,
}

impl Clock for StandingClock {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn now_ms(&self) -> i64 {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(self.stands_still.read());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.clock.now_ms()
    }
}

#[test]
fn the_check_of_a_large_request_keeps_only_what_is_behind_it_waiting() {
    let (stands_still, waiting) = (Arc::<RwLock<()>>::default(), Arc::<AtomicUsize>::default());
    let env = Env::real();
    let clock = StandingClock {
        clock: Arc::clone(&env.clock),
        stands_still: Arc::clone(&stands_still),
        waiting: Arc::clone(&waiting),
    };
    let broker = TestBroker::start_in(Env { clock: Arc::new(clock), ..env }, &[("message.max.bytes", "4000000")]);
    let mut client = broker.connect();
    create(&mut client, 1, &[]);
    let (large, small) = (batch(&[&"x".repeat(2 << 20)]), batch(&["y"]));
    let mut producers: Vec<_> = (0..3).map(|_| broker.connect()).collect();
    let check = stands_still.write().expect("no test has panicked");
    for producer in &mut producers {
        send(producer, -1, &large);
        send(producer, -1, &small);
    }
    // As many as the runtime has threads.
    while waiting.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    for _ in 0..10 {
        let others = broker.connect().call(0, &ApiVersionsRequest::default());
        assert_eq!(others.error_code, ErrorCode::NONE);
    }
    drop(check);
    for producer in &mut producers {
        let [first, second] = [(); 2].map(|()| answer(producer));
        assert_eq!((first.error_code, second.error_code), (ErrorCode::NONE, ErrorCode::NONE));
        assert!(first.base_offset < second.base_offset);
    }
}
