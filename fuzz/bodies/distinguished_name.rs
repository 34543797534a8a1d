//! A certificate, or a distinguished name, of a stranger; and mapping rules, if it is text.

use security::{Certificate, PrincipalMapping, distinguished_name};

pub(crate) fn run(data: &[u8]) {
    if let Ok(certificate) = Certificate::read(data) {
        let _ = distinguished_name(certificate.subject);
    }
    if let Ok(name) = distinguished_name(data) {
        assert!(!name.contains('\0'));
        let rules = PrincipalMapping::parse("RULE:^.*CN=([^,]*).*$/$1/L,DEFAULT").expect("they are rules");
        assert!(rules.name(&name).is_ok() != name.is_empty() || name.contains("CN="));
    }
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(rules) = PrincipalMapping::parse(text) {
        let _ = rules.name("CN=alice,O=Org,C=US");
    }
}
