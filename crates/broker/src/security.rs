//! Who asks: what a listener demands of its clients before it serves them, and who they are then.

mod exchange;
mod listener;
pub mod nodes;
mod principal;

pub use exchange::{Authenticated, Exchange, Ground, Step};
pub use listener::{ListenerSecurity, SecurityError, tls_of_console};
pub use principal::Principal;

use platform::Random;

fn random_bytes<const COUNT: usize>(random: &dyn Random) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    for part in bytes.chunks_mut(16) {
        part.copy_from_slice(&random.bytes()[..part.len()]);
    }
    bytes
}
