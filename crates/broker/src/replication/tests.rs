//! Several nodes in one process: their partition tables on simulated disks, followers that fetch through the same code
//! as over the network, and a controller that is a few lines. Nothing runs by itself: each step is the test's.

mod cluster;
mod consumers;
mod deletion;
mod scenarios;
mod throttles;
