//! What one group does, step by step, and in [`random`] whatever happens.

mod classic;
mod fake;
mod heartbeats;
mod random;
mod subscriptions;
