//! Who asks: what a listener demands of its clients before it serves them, and who they are then.

pub mod audit;
mod certificates;
mod exchange;
mod file;
mod grants;
mod listener;
mod listener_tls;
pub mod nodes;
mod principal;
mod token_keys;
mod token_source;

pub use certificates::{Certificates, CertifiedListener};
pub use exchange::{Authenticated, Exchange, Ground, Step};
pub use grants::Grants;
pub use listener::{ListenerSecurity, SecurityError, tls_of_console};
pub use nodes::NodeSecurity;
pub use principal::{Client, Principal};
pub use token_keys::KeysWait;

use platform::Random;

fn random_bytes<const COUNT: usize>(random: &dyn Random) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    for part in bytes.chunks_mut(16) {
        part.copy_from_slice(&random.bytes()[..part.len()]);
    }
    bytes
}
