//! A store, with the password `a password`.

use security::Secret;
use security::tls::{Passwords, Pkcs12};

pub(crate) fn run(data: &[u8]) {
    let password = Secret::new("a password".to_owned());
    let passwords = Passwords { name: "ssl.keystore.password", store: Some(&password), key: None };
    if let Ok(store) = Pkcs12::read(data, passwords)
        && let Ok((chain, _)) = store.identity()
    {
        assert!(!chain.is_empty());
    }
    if let Ok(store) = Pkcs12::read(data, passwords)
        && let Ok(trusted) = store.trusted()
    {
        assert!(!trusted.is_empty());
    }
}
