//! Requests that the controller decides.

use std::future::Future;
use std::time::Duration;

use wire::ErrorCode;

use crate::controller::ControllerError;

/// Waits for the controller for as long as the client does. A request without time is not begun; one that times out
/// may still be carried out.
pub(super) async fn within<T>(
    timeout_ms: i32,
    answer: impl Future<Output = Result<T, ControllerError>>,
) -> Result<T, ErrorCode> {
    let timeout = u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0).ok_or(ErrorCode::REQUEST_TIMED_OUT)?;
    match tokio::time::timeout(Duration::from_millis(timeout), answer).await {
        Ok(answer) => answer.map_err(|error| error.code()),
        Err(_) => Err(ErrorCode::REQUEST_TIMED_OUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_waited_for_as_long_as_the_client_waits() {
        let late = |ms| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(7)
        };
        assert_eq!(within(100, late(99)).await, Ok(7));
        assert_eq!(within(100, late(101)).await, Err(ErrorCode::REQUEST_TIMED_OUT));
        for timeout_ms in [0, -1] {
            assert_eq!(within(timeout_ms, async { Ok(()) }).await, Err(ErrorCode::REQUEST_TIMED_OUT));
        }
        let stopped = within(100, async { Err::<(), _>(ControllerError::Stopped) }).await;
        assert_eq!(stopped, Err(ErrorCode::NOT_CONTROLLER));
    }
}
