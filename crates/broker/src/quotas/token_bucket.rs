//! A bucket of tokens, of which some are taken now and then (KIP-599, Kafka's `TokenBucket`). It fills by the quota,
//! up to what that is in all windows together, and is full at first. It may be in debt.

#[derive(Debug)]
pub struct TokenBucket {
    tokens: f64,
    filled_ms: Option<i64>,
    /// For how many seconds of the quota there is room.
    room_seconds: f64,
}

impl TokenBucket {
    pub fn new(windows_max: i32, window_seconds: i32) -> Self {
        let room_seconds = f64::from(windows_max) * f64::from(window_seconds);
        Self { tokens: 0.0, filled_ms: None, room_seconds }
    }

    /// Takes tokens. Returns for how many ms there are none then.
    pub fn take(&mut self, tokens: f64, quota: f64, now_ms: i64) -> f64 {
        self.fill(quota, now_ms);
        self.tokens -= tokens;
        self.wait_ms(quota)
    }

    /// Takes tokens unless there is a debt.
    pub fn try_take(&mut self, tokens: f64, quota: f64, now_ms: i64) -> Result<(), f64> {
        self.fill(quota, now_ms);
        if self.tokens < 0.0 {
            return Err(self.wait_ms(quota));
        }
        self.tokens -= tokens;
        Ok(())
    }

    fn wait_ms(&self, quota: f64) -> f64 {
        if self.tokens < 0.0 { (-self.tokens * 1000.0 / quota).round() } else { 0.0 }
    }

    fn fill(&mut self, quota: f64, now_ms: i64) {
        let room = quota * self.room_seconds;
        let more = self.filled_ms.map_or(room, |at| quota * (now_ms - at).max(0) as f64 / 1000.0);
        self.tokens = (self.tokens + more).min(room);
        self.filled_ms = Some(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_may_be_taken_until_there_is_a_debt() {
        let mut bucket = TokenBucket::new(11, 1);
        assert_eq!(bucket.try_take(10.0, 2.0, 100_000), Ok(()));
        assert_eq!(bucket.try_take(13.0, 2.0, 100_000), Ok(()), "there are 12");
        assert_eq!(bucket.try_take(1.0, 2.0, 100_000), Err(500.0));
        assert_eq!(bucket.try_take(1.0, 2.0, 100_500), Ok(()));
        assert_eq!(bucket.take(5.0, 2.0, 101_000), 2500.0);
        assert_eq!(bucket.take(23.0, 2.0, 120_000), 500.0, "no more than 22 are saved up");
    }

    #[test]
    fn a_changed_quota_fills_as_it_is_now() {
        let mut bucket = TokenBucket::new(11, 1);
        assert_eq!(bucket.take(42.0, 2.0, 0), 10_000.0);
        assert_eq!(bucket.try_take(1.0, 20.0, 0), Err(1000.0));
        assert_eq!(bucket.try_take(1.0, 20.0, 1000), Ok(()));
        assert_eq!(bucket.take(0.0, 1.0, 100_000), 0.0);
        assert_eq!(bucket.take(12.0, 1.0, 100_000), 1000.0, "there is room for 11");
    }
}
