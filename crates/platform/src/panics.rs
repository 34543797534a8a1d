//! Mistakes of this program: each is one line in the log and counted. A panic in a request ends its connection; a panic
//! in a task that the broker needs ends the process, so that it is not half alive.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::pin::pin;
use std::process::exit;
use std::task::Poll;
use std::thread::{Builder, JoinHandle};

use crate::count::Count;
use crate::log_limit::{Allowed, LogLimit};

/// Of this process.
static PANICS: Count = Count::new();

/// A panic ended the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

/// Has panics counted and logged in one line each, a few a minute, instead of the standard library's output.
pub fn count_and_log() {
    let limit = LogLimit::default();
    set_hook(Box::new(move |info| {
        PANICS.add(1);
        if let Some(Allowed { left_out }) = limit.allow_other() {
            tracing::error!(error = describe(info), left_out, "a mistake in this program; please report it");
        }
    }));
}

/// How many there were.
pub fn count() -> u64 {
    PANICS.get()
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let location = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let current = std::thread::current();
    let thread = current.name().unwrap_or("without a name");
    format!("{} at {location} in thread {thread}", message(info.payload()).escape_debug())
}

fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

/// Works until it is done or panics.
pub async fn catch<F: Future>(work: F) -> Result<F::Output, Panicked> {
    let mut work = pin!(work);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}

/// Runs an essential task: its panic ends the process.
pub async fn essential<F: Future>(name: &'static str, work: F) -> F::Output {
    match catch(work).await {
        Ok(output) => output,
        Err(Panicked) => end_process(name),
    }
}

/// Starts an essential thread: its panic ends the process.
pub fn essential_thread<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new().name(name.clone());
    builder.spawn(move || match catch_unwind(AssertUnwindSafe(work)) {
        Ok(output) => output,
        Err(_) => end_process(&name),
    })
}

fn end_process(name: &str) -> ! {
    #[cfg(any(test, feature = "simulation"))]
    if crate::simulation::is_simulated() {
        panic!("{name} cannot go on");
    }
    tracing::error!(
        "{name} has met a mistake in this program (the line before says which), and without it this node would be half \
         alive: the process ends; start it again, what it acknowledged is kept"
    );
    exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_work_and_nothing_else() {
        assert_eq!(catch(async { 7 }).await, Ok(7));
        let later = async {
            tokio::task::yield_now().await;
            panic!("after a wait");
        };
        assert_eq!(catch::<_>(later).await.map(|(): ()| ()), Err(Panicked));
    }

    #[test]
    fn what_a_panic_says_is_told() {
        let said = |work: fn()| message(&*catch_unwind(work).unwrap_err()).to_owned();
        assert_eq!(said(|| panic!("seven")), "seven");
        assert_eq!(said(|| panic!("{}", 7)), "7");
        assert_eq!(said(|| std::panic::panic_any(7)), "a panic without words");
    }
}
