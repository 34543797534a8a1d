//! Which configs of a connector are secret, and keeping their values out of what is shown.

use super::Config;

/// What is shown in place of a secret.
pub(crate) const HIDDEN: &str = "(hidden)";
/// A config whose name contains one of these is secret.
const WORDS: [&str; 7] = ["password", "secret", "token", "key", "credential", "user.info", "jaas"];
/// What is shorter is too frequent in other texts.
const SECRET_CHARS_MIN: usize = 4;

pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    // Every connector has one, and it is a class.
    let name = name.strip_prefix("key.converter").unwrap_or(&name);
    WORDS.iter().any(|word| name.contains(word))
}

/// A text of Connect's, which may repeat what a connector was configured with.
pub(crate) fn without_secrets(text: &str, config: &Config) -> String {
    let secrets = config.iter().filter(|(name, _)| is_secret(name)).filter_map(|(_, value)| value.as_deref());
    let mut secrets: Vec<_> = secrets.filter(|secret| secret.chars().count() >= SECRET_CHARS_MIN).collect();
    // One that is a part of another comes after it.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        let secret = [
            "database.password",
            "aws.secret.access.KEY",
            "ssl.key.password",
            "api.Token",
            "gcp.credentials.json",
            "key.converter.basic.auth.user.info",
            "producer.override.sasl.jaas.config",
        ];
        assert_eq!(secret.map(is_secret), [true; 7]);
        let open = ["topics", "key.converter", "key.converter.schemas.enable", "connection.url", "tasks.max"];
        assert_eq!(open.map(is_secret), [false; 5]);
    }

    #[test]
    fn texts_repeat_no_secret() {
        let value = |value: &str| Some(value.to_owned());
        let config = [
            ("a.password".to_owned(), value("open sesame")),
            ("b.token".to_owned(), value("open")),
            ("c.key".to_owned(), value("a")),
            ("d.key".to_owned(), None),
            ("topics".to_owned(), value("orders")),
        ];
        let text = without_secrets("login with open sesame at orders: open failed", &config.into());
        assert_eq!(text, "login with (hidden) at orders: (hidden) failed");
    }
}
