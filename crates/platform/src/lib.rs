//! What a broker runs on: the process and its machine.
//!
//! [`Env`] is all I/O of the process except the network. The rest guards what all parts share: the disk
//! ([`DiskWatch`]), descriptors ([`OpenFiles`]), essential threads ([`panics`]), the log ([`loggers`], [`LogLimit`])
//! and the fairness of tasks ([`Pace`]).

mod count;
mod disk_watch;
mod env;
mod log_limit;
pub mod loggers;
mod open_files;
mod pace;
pub mod panics;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;

pub use count::Count;
pub use disk_watch::{DiskWatch, WatchedDisk};
pub use env::{Clock, Env, Random};
pub use log_limit::{Allowed, LogLimit};
pub use open_files::OpenFiles;
pub use pace::{ELEMENTS_PER_TURN, Pace};
