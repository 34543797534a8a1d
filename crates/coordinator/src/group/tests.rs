//! The coordinator against a log in memory: what is stored, what is durable when, and what comes back.

mod api;
mod bounds;
mod consumers;
mod fake;
mod load;
mod migration;
mod random;
mod transactions;
