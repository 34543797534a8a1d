//! `sasl.jaas.config`: one login module and its options, as `JaasConfig` and Java's `StreamTokenizer` read them.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use crate::Secret;

const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

#[derive(Debug, PartialEq)]
pub struct Login {
    /// With its package.
    pub module: String,
    /// Some of them are passwords, and only the module knows which.
    pub options: BTreeMap<String, Secret>,
}

impl Login {
    /// The name of the module without its package.
    pub fn module_name(&self) -> &str {
        self.module.rsplit('.').next().unwrap_or_default()
    }
}

/// What is wrong with the text. The words go on where the name of the setting ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JaasError {
    #[error("does not begin with a login module")]
    NoModule,
    #[error("has no control flag behind the login module: required")]
    NoFlag,
    #[error("has an option without a value; NAME=\"VALUE\" is expected")]
    NoValue,
    #[error("has a value without a name")]
    NoName,
    #[error("does not end in a semicolon")]
    NoSemicolon,
    #[error("has more than one login module")]
    SeveralModules,
    #[error("has a quote that is not closed")]
    OpenQuote,
}

type Result<T> = std::result::Result<T, JaasError>;

/// `MODULE FLAG NAME=VALUE NAME="VALUE" ... ;`. Of an option that is there twice, the last value counts.
pub fn parse(text: &str) -> Result<Login> {
    let mut tokens = Tokens(text.chars().peekable());
    let Some(Token::Text(module)) = tokens.next()? else { return Err(JaasError::NoModule) };
    match tokens.next()? {
        Some(Token::Text(flag)) if FLAGS.contains(&flag.to_ascii_lowercase().as_str()) => {}
        _ => return Err(JaasError::NoFlag),
    }
    let mut options = BTreeMap::new();
    loop {
        match tokens.next()? {
            Some(Token::Text(name)) => match (tokens.next()?, tokens.next()?) {
                (Some(Token::Equals), Some(Token::Text(value))) => options.insert(name, Secret::new(value)),
                _ => return Err(JaasError::NoValue),
            },
            Some(Token::Semicolon) => break,
            Some(Token::Equals) => return Err(JaasError::NoName),
            None => return Err(JaasError::NoSemicolon),
        };
    }
    match tokens.next()? {
        None => Ok(Login { module, options }),
        Some(_) => Err(JaasError::SeveralModules),
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Text(String),
    Equals,
    Semicolon,
}

struct Tokens<'a>(Peekable<Chars<'a>>);

impl Tokens<'_> {
    fn next(&mut self) -> Result<Option<Token>> {
        while self.0.next_if(|letter| letter.is_whitespace()).is_some() {}
        Ok(match self.0.peek() {
            None => None,
            Some('=') => self.mark(Token::Equals),
            Some(';') => self.mark(Token::Semicolon),
            Some(&quote @ ('"' | '\'')) => {
                self.0.next();
                Some(Token::Text(self.quoted(quote)?))
            }
            Some(_) => {
                let mut text = String::new();
                let is_word = |letter: &char| !letter.is_whitespace() && !matches!(letter, '=' | ';' | '"' | '\'');
                while let Some(letter) = self.0.next_if(is_word) {
                    text.push(letter);
                }
                Some(Token::Text(text))
            }
        })
    }

    fn mark(&mut self, token: Token) -> Option<Token> {
        self.0.next();
        Some(token)
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.0.next().ok_or(JaasError::OpenQuote)? {
                '\\' => {
                    let letter = self.0.next().ok_or(JaasError::OpenQuote)?;
                    text.push(self.escaped(letter));
                }
                '\n' | '\r' => return Err(JaasError::OpenQuote),
                letter if letter == quote => return Ok(text),
                letter => text.push(letter),
            }
        }
    }

    /// C's escapes, octal ones included; any other letter stands for itself.
    fn escaped(&mut self, letter: char) -> char {
        match letter {
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' => {
                let digits_max = if letter <= '3' { 3 } else { 2 };
                let mut code = letter.to_digit(8).unwrap_or_default();
                for _ in 1..digits_max {
                    let Some(digit) = self.0.next_if(|next| next.is_digit(8)) else { break };
                    code = code * 8 + digit.to_digit(8).unwrap_or_default();
                }
                char::from_u32(code).unwrap_or(letter)
            }
            letter => letter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<(String, String)> {
        let login = parse(&format!("x.PlainLoginModule required {text}")).unwrap();
        login.options.into_iter().map(|(name, value)| (name, value.expose().clone())).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn the_usual_form() {
        let text =
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"x\" password=\"a secret\";";
        let login = parse(text).unwrap();
        assert_eq!(login.module, "org.apache.kafka.common.security.plain.PlainLoginModule");
        assert_eq!(login.module_name(), "PlainLoginModule");
        let secret = |(name, value)| (name, Secret::new(value));
        let expected = [pair("username", "x"), pair("password", "a secret")].map(secret);
        assert_eq!(login.options, BTreeMap::from(expected));
        assert!(!format!("{login:?}").contains("a secret"), "{login:?}");
    }

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(options(r#"password="a\"b\\c;=d e" ;"#), [pair("password", r#"a"b\c;=d e"#)]);
        assert_eq!(options(r#"password='it"s';"#), [pair("password", "it\"s")]);
        assert_eq!(options(r#"password="\t\101\q";"#), [pair("password", "\tAq")]);
        assert_eq!(options("username = alice\n\tpassword =\"\";"), [pair("password", ""), pair("username", "alice")]);
        assert_eq!(options(";"), []);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("", "begin with a login module"),
            ("; x", "begin with a login module"),
            ("x.Module", "no control flag"),
            ("x.Module username=\"x\";", "no control flag"),
            ("x.Module required username=\"x\"", "semicolon"),
            ("x.Module required username;", "without a value"),
            ("x.Module required username=;", "without a value"),
            ("x.Module required =x;", "without a name"),
            ("x.Module required username=\"x;", "not closed"),
            ("x.Module required; y.Module required;", "more than one"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(wrong), "{text}: {error}");
        }
    }
}
