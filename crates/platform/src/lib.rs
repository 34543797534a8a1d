//! What a broker stands on: the process and its machine.
//!
//! [`Env`] is every way out of the process but the network. The rest guards what all parts share: the disk
//! ([`DiskWatch`]), descriptors ([`OpenFiles`]), the threads that cannot be done without ([`panics`]), the log
//! ([`loggers`], [`LogLimit`]) and the turns of tasks ([`Pace`]).

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
