//! Who a client is by its certificate: `ssl.principal.mapping.rules` (KIP-371, `SslPrincipalMapper`).
//!
//! Behaviour:
//! - Rules are `RULE:PATTERN/REPLACEMENT/[L|U]` and `DEFAULT`, with commas between them. A backslash keeps the sign
//!   behind it from ending a part. Empty rules are left out.
//! - The first rule whose pattern matches the whole distinguished name makes the name; `DEFAULT` takes it as it is.
//!   Where none does, there is no principal.
//! - `$1` and `${name}` are groups of the pattern. Of more digits than there are groups, the last are text, and so is a
//!   group beyond the last, unless there are none at all. Kafka finds that out, and a group that has no such name, with
//!   the first certificate; here it is refused at the start.
//! - The replacement takes the place of the whole name, once. In Kafka it takes that of each match within the name,
//!   which is the same but for patterns that match parts of it, too.

use regex::Regex;
use rustls::pki_types::CertificateDer;

use crate::certificate::Certificate;
use crate::der::DerError;
use crate::distinguished_name::distinguished_name;
use crate::java_regex::{self, PatternError};

const DEFAULT: &str = "DEFAULT";
const RULE: &str = "RULE:";

/// What is wrong with the rules. The words go on where the name of the setting ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    #[error("has no rule at {text:?}; RULE:PATTERN/REPLACEMENT/ and DEFAULT are rules")]
    Rule { text: String },
    #[error("has the pattern {pattern:?}, which {reason}")]
    Pattern { pattern: String, reason: PatternError },
    #[error("has the replacement {replacement:?}, which names a group that the pattern has not")]
    Group { replacement: String },
    #[error("has the replacement {replacement:?}; a $ that is none of a group needs a backslash")]
    Dollar { replacement: String },
}

/// Why a certificate makes nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    #[error("the certificate cannot be read: {0}")]
    Certificate(#[from] DerError),
    #[error("the certificate of {distinguished_name:?} makes an empty name")]
    Empty { distinguished_name: String },
    #[error("no rule of ssl.principal.mapping.rules applies to {distinguished_name:?}")]
    NoRule { distinguished_name: String },
}

/// The rules, ready.
#[derive(Clone, Debug)]
pub struct PrincipalMapping(Vec<Rule>);

#[derive(Clone, Debug)]
enum Rule {
    Default,
    Pattern { pattern: Regex, replacement: Vec<Piece>, case: Case },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    AsIs,
    Lower,
    Upper,
}

impl Default for PrincipalMapping {
    fn default() -> Self {
        Self(vec![Rule::Default])
    }
}

impl PrincipalMapping {
    pub fn parse(text: &str) -> Result<Self, MappingError> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if !rest.starts_with(',') {
                let wrong = || MappingError::Rule { text: rest.to_owned() };
                let (rule, behind) = split_rule(rest).ok_or_else(wrong)?;
                let behind = behind.trim_start();
                if !behind.is_empty() && !behind.starts_with(',') {
                    return Err(wrong());
                }
                rules.push(rule.compile()?);
                rest = behind;
            }
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        Ok(Self(rules))
    }

    /// The name of a principal `User:NAME`.
    pub fn name(&self, distinguished_name: &str) -> Result<String, PrincipalError> {
        let name = self.0.iter().find_map(|rule| rule.apply(distinguished_name));
        let distinguished_name = || distinguished_name.to_owned();
        match name {
            Some(name) if name.is_empty() => Err(PrincipalError::Empty { distinguished_name: distinguished_name() }),
            Some(name) => Ok(name),
            None => Err(PrincipalError::NoRule { distinguished_name: distinguished_name() }),
        }
    }

    /// The name that the other side's certificates make, the first of which is its own. Without any there is none.
    pub fn name_of_peer(&self, certificates: &[CertificateDer<'_>]) -> Result<Option<String>, PrincipalError> {
        let Some(own) = certificates.first() else { return Ok(None) };
        self.name(&distinguished_name(Certificate::read(own)?.subject)?).map(Some)
    }
}

/// A rule as it is written.
enum RuleText<'a> {
    Default,
    Pattern { pattern: &'a str, replacement: &'a str, case: Case },
}

/// The first rule of a text, and what stands behind it.
fn split_rule(text: &str) -> Option<(RuleText<'_>, &str)> {
    if let Some(behind) = text.strip_prefix(DEFAULT) {
        return Some((RuleText::Default, behind));
    }
    let (pattern, behind) = split_at_slash(text.strip_prefix(RULE)?)?;
    let (replacement, behind) = split_at_slash(behind)?;
    let (case, behind) = match behind.as_bytes() {
        [b'L', ..] => (Case::Lower, &behind[1..]),
        [b'U', ..] => (Case::Upper, &behind[1..]),
        _ => (Case::AsIs, behind),
    };
    Some((RuleText::Pattern { pattern, replacement, case }, behind))
}

/// What stands before and behind the first slash without a backslash.
fn split_at_slash(text: &str) -> Option<(&str, &str)> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' => is_escaped = true,
            '/' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

impl RuleText<'_> {
    fn compile(self) -> Result<Rule, MappingError> {
        let Self::Pattern { pattern, replacement, case } = self else { return Ok(Rule::Default) };
        let compiled = java_regex::compile(pattern);
        let compiled = compiled.map_err(|reason| MappingError::Pattern { pattern: pattern.to_owned(), reason })?;
        let replacement = pieces(replacement, &compiled)?;
        Ok(Rule::Pattern { pattern: compiled, replacement, case })
    }
}

/// A replacement, as `Matcher.appendReplacement` reads it.
fn pieces(replacement: &str, pattern: &Regex) -> Result<Vec<Piece>, MappingError> {
    let group_missing = || MappingError::Group { replacement: replacement.to_owned() };
    let groups = pattern.captures_len() - 1;
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = replacement;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let group = match letter {
            '\\' => {
                if let Some(escaped) = rest.chars().next() {
                    text.push(escaped);
                    rest = &rest[escaped.len_utf8()..];
                }
                None
            }
            '$' => {
                if let Some((name, behind)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                    rest = behind;
                    let named = pattern.capture_names().position(|known| known == Some(name));
                    Some(named.ok_or_else(group_missing)?)
                } else {
                    let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
                    if digits == 0 {
                        return Err(MappingError::Dollar { replacement: replacement.to_owned() });
                    }
                    // The longest number that there is a group for.
                    let number = |length: usize| rest[..length].parse().ok().filter(|number| *number <= groups);
                    let longest = (1..=digits).rev().find_map(|length| Some((number(length)?, length)));
                    match longest {
                        Some((number, length)) => {
                            rest = &rest[length..];
                            Some(number)
                        }
                        None if groups == 0 => return Err(group_missing()),
                        None => {
                            text.push('$');
                            None
                        }
                    }
                }
            }
            _ => {
                text.push(letter);
                None
            }
        };
        if let Some(group) = group {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
            pieces.push(Piece::Group(group));
        }
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}

impl Rule {
    fn apply(&self, distinguished_name: &str) -> Option<String> {
        let Self::Pattern { pattern, replacement, case } = self else { return Some(distinguished_name.to_owned()) };
        let groups = pattern.captures(distinguished_name)?;
        let group = |number: usize| groups.get(number).map_or("", |group| group.as_str());
        let pieces = replacement.iter().map(|piece| match piece {
            Piece::Text(text) => text.as_str(),
            Piece::Group(number) => group(*number),
        });
        let name: String = pieces.collect();
        Some(match case {
            Case::AsIs => name,
            Case::Lower => name.to_lowercase(),
            Case::Upper => name.to_uppercase(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn name(rules: &str, distinguished_name: &str) -> Result<String, PrincipalError> {
        PrincipalMapping::parse(rules).unwrap_or_else(|error| panic!("{rules}: {error}")).name(distinguished_name)
    }

    /// The cases of `SslPrincipalMapperTest`.
    #[test]
    fn the_first_rule_that_matches_makes_the_name() {
        let rules = "RULE:^CN=(.*),OU=ServiceUsers.*$/$1/, \
                     RULE:^CN=(.*),OU=(.*),O=(.*),L=(.*),ST=(.*),C=(.*)$/$1@$2/, \
                     RULE:^cn=(.*),ou=(.*),dc=(.*),dc=(.*)$/$1@$2/U, \
                     RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT";
        for (distinguished_name, expected) in [
            ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
            ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "Duke@SME"),
            ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
            ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
            ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ] {
            assert_eq!(name(rules, distinguished_name).as_deref(), Ok(expected));
        }
        let rules = r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT";
        assert_eq!(name(rules, r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz").as_deref(), Ok(r"Tkac\, Adam"));
        assert_eq!(name("RULE:^CN=(.*?),.*$/$1, your honour/L", "CN=Duke,C=US").as_deref(), Ok("duke, your honour"));
    }

    #[test]
    fn where_no_rule_matches_there_is_nobody() {
        let none = |name: &str| Err(PrincipalError::NoRule { distinguished_name: name.to_owned() });
        assert_eq!(name("RULE:CN=a/a/", "CN=ab"), none("CN=ab"));
        assert_eq!(name("RULE:CN=a/a/", "OU=x,CN=a"), none("OU=x,CN=a"));
        assert_eq!(name("", "CN=a"), none("CN=a"));
        assert_eq!(name("DEFAULT", ""), Err(PrincipalError::Empty { distinguished_name: String::new() }));
        assert_eq!(name("RULE:.*//", "CN=a"), Err(PrincipalError::Empty { distinguished_name: "CN=a".to_owned() }));
    }

    #[test]
    fn replacements_name_groups() {
        let replaced = |replacement: &str| name(&format!("RULE:CN=(.)(?<b>.)(x)?/{replacement}/"), "CN=ab").unwrap();
        assert_eq!(replaced("$1$2$3."), "ab.");
        assert_eq!(replaced("$0"), "CN=ab");
        assert_eq!(replaced("$12-$23"), "a2-b3");
        assert_eq!(replaced("$4 $41"), "$4 $41");
        assert_eq!(replaced("${b}$1"), "ba");
        assert_eq!(replaced(r"\$1\\\/\n"), r"$1\/n");
        assert_eq!(replaced("$1ä$2"), "aäb");
        assert_eq!(name("RULE:CN=(.*)/x/", "CN=aa").as_deref(), Ok("x"));
    }

    #[test]
    fn rules_are_taken_apart_as_kafka_does() {
        for (text, count) in [
            ("", 0),
            ("DEFAULT", 1),
            ("RULE://", 1),
            ("RULE:/.*/L", 1),
            ("  RULE:   /     / ,  DEFAULT  ", 2),
            ("  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ", 3),
            (",   , , ,      , , ,   ", 0),
            (",,RULE://,,,DEFAULT,,", 2),
            (r"RULE:\/\\\(\)\n\t/\/\//", 1),
            (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", 2),
        ] {
            assert_eq!(PrincipalMapping::parse(text).map(|mapping| mapping.0.len()), Ok(count), "{text}");
        }
    }

    #[test]
    fn mistakes_are_found_at_the_start() {
        for text in [
            "default",
            "DEFAUL",
            "DEFAULT/L",
            "DEFAULT/U",
            "RULE:CN=(.*?),OU=ServiceUsers.*/$1)",
            "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
            "DEFAULT DEFAULT",
        ] {
            assert!(matches!(PrincipalMapping::parse(text), Err(MappingError::Rule { .. })), "{text}");
        }
        let error = |text: &str| PrincipalMapping::parse(text).unwrap_err().to_string();
        assert_eq!(error("RULE:(?=a)/b/"), "has the pattern \"(?=a)\", which has lookaround, which is not there");
        assert_eq!(error("RULE:a/$1/"), "has the replacement \"$1\", which names a group that the pattern has not");
        assert_eq!(
            error("RULE:(a)/${x}/"),
            "has the replacement \"${x}\", which names a group that the pattern has not"
        );
        assert_eq!(error("RULE:(a)/a$/"), "has the replacement \"a$\"; a $ that is none of a group needs a backslash");
    }

    #[test]
    fn a_peer_is_who_its_certificate_says() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Org");
        params.distinguished_name.push(DnType::CommonName, "alice");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
        let mapping = PrincipalMapping::default();
        assert_eq!(mapping.name_of_peer(std::slice::from_ref(&certificate)), Ok(Some("CN=alice,O=Org".to_owned())));
        assert_eq!(mapping.name_of_peer(&[]), Ok(None));
        let mapping = PrincipalMapping::parse("RULE:CN=([^,]*),.*/$1/U").unwrap();
        assert_eq!(mapping.name_of_peer(&[certificate]), Ok(Some("ALICE".to_owned())));
        assert_eq!(mapping.name_of_peer(&[vec![0x30].into()]), Err(PrincipalError::Certificate(DerError)));
    }
}
