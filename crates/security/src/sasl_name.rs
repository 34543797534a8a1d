//! Names in messages of SASL (`saslname` of RFC 5801): comma and equals sign stand escaped there.

/// The name that is meant. `None` if it is none, or an equals sign begins anything else.
pub(crate) fn unescape(value: &str) -> Option<String> {
    let mut parts = value.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (letter, rest) = match part.split_at_checked(2) {
            Some(("2C", rest)) => (',', rest),
            Some(("3D", rest)) => ('=', rest),
            _ => return None,
        };
        name.push(letter);
        name.push_str(rest);
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_equals_signs_are_escaped() {
        assert_eq!(unescape("a=2Cb=3D").as_deref(), Some("a,b="));
        assert_eq!(unescape("alice").as_deref(), Some("alice"));
        for value in ["", "=", "a=", "a=2", "a=2c", "a=b"] {
            assert_eq!(unescape(value), None, "{value}");
        }
    }
}
