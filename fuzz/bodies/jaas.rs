//! The value of `sasl.jaas.config`. What has been read can be written, with quotes and escapes, and read again.

use security::jaas;
use security::plain::Users;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let _ = Users::from_jaas(text);
    let Ok(login) = jaas::parse(text) else { return };
    let quoted = |text: &str| {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
        format!("\"{escaped}\"")
    };
    let mut written = format!("{} required", quoted(&login.module));
    for (name, value) in &login.options {
        written.push_str(&format!(" {}={}", quoted(name), quoted(value.expose())));
    }
    written.push(';');
    assert_eq!(jaas::parse(&written), Ok(login));
}
