//! docs/protocol.md lists the APIs of `api::TABLE`: those that clients are served, and those that only brokers use
//! among themselves. This fails when it is out of date.
//! `PARSHALL_WRITE_DOCS=1 cargo test -p parshall-wire --test coverage` writes it anew.

use std::fmt::Write;
use std::path::Path;

use wire::api::{self, Api};

/// The tables of the page, by their marks.
const SERVED: &str = "table";
const BETWEEN_BROKERS: &str = "table of what brokers say to each other";
/// What comes in a Forward: AlterPartition, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds and
/// AlterScramKeys.
const NOT_SERVED: [i16; 5] = [56, 62, 63, 67, 121];
/// What a client listener refuses.
const ONLY_BETWEEN_BROKERS: [i16; 6] = [122, 123, 124, 125, 126, 127];

fn table(rows: impl Fn(&Api) -> bool) -> String {
    let mut out =
        String::from("\n| Key | Name | Versions | Flexible since | Elements |\n| ---: | --- | --- | --- | ---: |\n");
    for api in api::TABLE.iter().filter(|api| rows(api)) {
        let versions = match (*api.versions.start(), *api.versions.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let flexible = match api.flexible_since {
            i16::MAX => "never".to_owned(),
            version => version.to_string(),
        };
        writeln!(out, "| {} | {} | {versions} | {flexible} | {} |", api.key, api.name, api.elements_max).unwrap();
    }
    out.push('\n');
    out
}

/// The page with another table between the marks.
fn replaced(text: &str, mark: &str, table: &str) -> String {
    let (begin, end) =
        (format!("<!-- begin {mark}: written by crates/wire/tests/coverage.rs -->\n"), "<!-- end table -->\n");
    let (before, rest) = text.split_once(&begin).expect("the table's begin is marked");
    let (_, after) = rest.split_once(end).expect("the table's end is marked");
    [before, &begin, table, end, after].concat()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "writes the repository's own file, when asked to")]
fn the_documented_tables_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let between_brokers = |api: &Api| ONLY_BETWEEN_BROKERS.contains(&api.key);
    let served = table(|api| !between_brokers(api) && !NOT_SERVED.contains(&api.key));
    let expected = replaced(&replaced(&text, SERVED, &served), BETWEEN_BROKERS, &table(between_brokers));
    if std::env::var_os("PARSHALL_WRITE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(text == expected, "docs/protocol.md is out of date: run this test with PARSHALL_WRITE_DOCS=1");
    }
}

#[test]
fn the_table_is_sorted_and_its_rows_make_sense() {
    for pair in api::TABLE.windows(2) {
        assert!(pair[0].key < pair[1].key, "{} and {}", pair[0].name, pair[1].name);
    }
    for row in api::TABLE {
        assert!(row.versions.start() <= row.versions.end(), "{}", row.name);
        assert_eq!(api::find(row.key), Some(row));
    }
    assert_eq!(api::find(4), None);
    assert_eq!(api::find(-1), None);
}
