//! A token of PLAIN. Who is let in has sent a name and its password.

use security::plain::Users;

pub(crate) fn run(data: &[u8]) {
    let users =
        Users::from_jaas("x.PlainLoginModule required user_alice=\"a secret\" user_bob=b;").expect("it has users");
    if let Ok(username) = users.authenticate(data) {
        let password = if username == "alice" { "a secret" } else { "b" };
        let known = format!("\0{username}\0{password}");
        assert!(data.ends_with(known.as_bytes()) && ["alice", "bob"].contains(&username.as_str()));
    }
}
