//! Kafka's own argument forms, as scripts and reports have them: `topic --create --topic orders` is
//! `topic create orders`. They are written anew before the command line is read.

use std::ffi::OsString;

/// Subcommands by the flags of `kafka-topics.sh`, `kafka-consumer-groups.sh`, `kafka-configs.sh` and `kafka-acls.sh`.
const ACTIONS: [(&str, &[&str]); 4] = [
    ("topic", &["create", "list", "describe", "alter", "delete"]),
    ("group", &["list", "describe", "reset-offsets", "delete-offsets", "delete"]),
    ("config", &["describe", "alter"]),
    ("acl", &["add", "list", "remove"]),
];

/// The commands of `kafka-transactions.sh`, and ours.
const TRANSACTION_COMMANDS: [(&str, [&str; 2]); 6] = [
    ("list", ["transaction", "list"]),
    ("describe", ["transaction", "describe"]),
    ("describe-producers", ["partition", "producers"]),
    ("abort", ["transaction", "abort"]),
    ("find-hanging", ["transaction", "find-hanging"]),
    ("forceTerminateTransaction", ["transaction", "terminate"]),
];

/// The words behind the program's name, in our form where they are in Kafka's.
pub(crate) fn translated(words: Vec<OsString>) -> Vec<OsString> {
    let texts: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let translated = texts.and_then(|texts| {
        let (command, rest) = texts.split_first()?;
        let flags = split_values(rest);
        match *command {
            "produce" | "consume" => topic_first(command, &flags),
            "transaction" => transaction(&flags),
            _ => action(command, &flags),
        }
    });
    translated.map_or(words, |words| words.into_iter().map(OsString::from).collect())
}

/// `--flag=value` as two words.
fn split_values<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut split = Vec::new();
    for word in words {
        match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => split.extend([flag, value]),
            _ => split.push(*word),
        }
    }
    split
}

/// `--create --topic orders` and the like. A subcommand in place of the first flag is our own form.
fn action(command: &str, words: &[&str]) -> Option<Vec<String>> {
    let (_, actions) = ACTIONS.iter().find(|(name, _)| *name == command)?;
    if !words.first()?.starts_with("--") {
        return None;
    }
    let action = *actions.iter().find(|action| words.contains(&format!("--{action}").as_str()))?;
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match (command, word) {
            _ if word.strip_prefix("--") == Some(action) => {}
            ("topic", "--topic") | ("group", "--group") => {
                let name = value();
                // Kafka takes names of topics for patterns.
                if command == "topic" && action != "create" && !is_plain(name) {
                    rest.push("--regex".to_owned());
                }
                named.push(name.to_owned());
            }
            // That is the default.
            ("group", "--offsets") => {}
            ("config", "--entity-type") => named.insert(0, singular(value())),
            ("config", "--entity-name") => named.push(value().to_owned()),
            ("config", "--entity-default") => named.push("default".to_owned()),
            ("config", "--topic" | "--broker" | "--broker-logger") => {
                named = vec![word.trim_start_matches('-').to_owned(), value().to_owned()];
            }
            ("config", "--add-config") => {
                for setting in settings(value()) {
                    rest.extend(["--set".to_owned(), setting]);
                }
            }
            ("config", "--delete-config") => {
                for name in value().split(',') {
                    rest.extend(["--delete".to_owned(), name.trim().to_owned()]);
                }
            }
            _ => rest.push(word.to_owned()),
        }
    }
    Some([vec![command.to_owned(), action.to_owned()], named, rest].concat())
}

/// `--topic orders` of the console producer and consumer.
fn topic_first(command: &str, words: &[&str]) -> Option<Vec<String>> {
    let at = words.iter().position(|word| *word == "--topic")?;
    let mut translated = vec![command.to_owned(), (*words.get(at + 1)?).to_owned()];
    let mut rest = words[..at].iter().chain(&words[at + 2..]);
    while let Some(word) = rest.next() {
        match (*word, command) {
            ("--timeout-ms", "consume") => {
                translated.extend(["--timeout".to_owned(), format!("{}ms", rest.next().copied().unwrap_or_default())]);
            }
            _ => translated.push((*word).to_owned()),
        }
    }
    Some(translated)
}

/// `--bootstrap-server k:9 abort --topic orders --partition 0`: where to connect stands before the command.
fn transaction(words: &[&str]) -> Option<Vec<String>> {
    let at = words.chunks(2).position(|pair| !pair[0].starts_with("--"))? * 2;
    let (_, ours) = TRANSACTION_COMMANDS.iter().find(|(kafkas, _)| *kafkas == words[at])?;
    let (mut topic, mut partition, mut ids, mut rest) = (None, None, Vec::new(), Vec::new());
    let mut others = words[..at].iter().chain(&words[at + 1..]);
    while let Some(word) = others.next() {
        let mut value = || others.next().map(|value| (*value).to_owned());
        match *word {
            "--topic" => topic = value(),
            "--partition" => partition = value(),
            "--transactional-id" => ids.extend(value()),
            _ => rest.push((*word).to_owned()),
        }
    }
    let partition = partition.map_or(String::new(), |partition| format!(":{partition}"));
    let named = topic.map(|topic| topic + &partition).into_iter().chain(ids).collect();
    Some([ours.map(str::to_owned).to_vec(), named, rest].concat())
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter))
}

/// `topics` is `topic` here.
fn singular(entity_type: &str) -> String {
    entity_type.strip_suffix('s').unwrap_or(entity_type).to_owned()
}

/// `a=b,c=[d,e]` as its settings; the brackets are Kafka's way to have commas in a value.
fn settings(text: &str) -> Vec<String> {
    let mut settings = vec![String::new()];
    let mut depth = 0_u32;
    for letter in text.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => settings.push(String::new()),
            _ => settings.last_mut().expect("there is one").push(letter),
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translate(line: &str) -> String {
        let words = translated(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn kafkas_forms_become_ours() {
        for (kafka, ours) in [
            ("topic --create --topic orders --partitions 3", "topic create orders --partitions 3"),
            ("topic --bootstrap-server k:9 --topic orders --describe", "topic describe orders --bootstrap-server k:9"),
            ("topic --list --bootstrap-server=k:9", "topic list --bootstrap-server k:9"),
            ("topic --delete --topic test-.*", "topic delete test-.* --regex"),
            ("topic --create --topic a --config=retention.ms=1", "topic create a --config retention.ms=1"),
            ("group --describe --group a --group b --offsets", "group describe a b"),
            (
                "group --group a --reset-offsets --to-earliest --all-topics --execute",
                "group reset-offsets a --to-earliest --all-topics --execute",
            ),
            (
                "config --alter --entity-name orders --entity-type topics --add-config a=b,c=[d,e] --delete-config f,g",
                "config alter topic orders --set a=b --set c=d,e --delete f --delete g",
            ),
            ("config --describe --entity-type brokers --entity-default", "config describe broker default"),
            ("config --describe --broker 1 --all", "config describe broker 1 --all"),
            (
                "acl --bootstrap-server k:9 --add --allow-principal User:a --operation=Read --topic orders",
                "acl add --bootstrap-server k:9 --allow-principal User:a --operation Read --topic orders",
            ),
            ("produce --bootstrap-server k:9 --topic orders", "produce orders --bootstrap-server k:9"),
            ("transaction --bootstrap-server k:9 list", "transaction list --bootstrap-server k:9"),
            (
                "transaction --bootstrap-server k:9 describe --transactional-id a",
                "transaction describe a --bootstrap-server k:9",
            ),
            (
                "transaction --bootstrap-server k:9 abort --topic orders --partition 2 --start-offset=5",
                "transaction abort orders:2 --bootstrap-server k:9 --start-offset 5",
            ),
            (
                "transaction --bootstrap-server k:9 describe-producers --broker-id 1 --topic orders --partition 2",
                "partition producers orders:2 --bootstrap-server k:9 --broker-id 1",
            ),
            ("transaction find-hanging --topic orders", "transaction find-hanging orders"),
            ("transaction forceTerminateTransaction --transactional-id a", "transaction terminate a"),
            ("consume --topic orders --timeout-ms 500", "consume orders --timeout 500ms"),
        ] {
            assert_eq!(translate(kafka), ours);
        }
    }

    #[test]
    fn our_own_forms_stay() {
        for line in [
            "topic create --create",
            "acl list --topic orders",
            "topic --help",
            "transaction --help",
            "transaction list --state Ongoing",
            "transaction terminate a",
            "group reset-offsets a --topic t",
            "produce orders --value --topic",
            "perf produce --topic t",
            "serve --config=a",
        ] {
            assert_eq!(translate(line), line);
        }
    }
}
