//! Moving replicas to other brokers: which ones shall have them, what that copies, and how fast.

mod balance;
mod plan;
mod throttle;

pub(crate) use balance::{Aim, Replicas, Target, balance};
pub(crate) use plan::{PLAN_BYTES_MAX, Plan, replicas_now};
pub(crate) use throttle::{FOLLOWER_REPLICAS, LEADER_REPLICAS, Throttle, read_rate, remove_throttles, throttle_rates};
