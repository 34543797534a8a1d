//! docs/protocol.md lists the APIs of `api::TABLE` that are served; this fails when it is out of date.
//! `PARSHALL_WRITE_DOCS=1 cargo test -p parshall-wire --test coverage` writes it anew.

use std::fmt::Write;
use std::path::Path;

use wire::api;

const BEGIN: &str = "<!-- begin table: written by crates/wire/tests/coverage.rs -->\n";
const END: &str = "<!-- end table -->\n";
/// SaslHandshake, AddPartitionsToTxn, EndTxn and SaslAuthenticate, which only our clients speak as yet.
const NOT_SERVED: [i16; 4] = [17, 24, 26, 36];

fn table() -> String {
    let mut out = String::from("\n| Key | Name | Versions | Flexible since |\n| ---: | --- | --- | --- |\n");
    for api in api::TABLE.iter().filter(|api| !NOT_SERVED.contains(&api.key)) {
        let versions = match (*api.versions.start(), *api.versions.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let flexible = match api.flexible_since {
            i16::MAX => "never".to_owned(),
            version => version.to_string(),
        };
        writeln!(out, "| {} | {} | {versions} | {flexible} |", api.key, api.name).unwrap();
    }
    out.push('\n');
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "writes the repository's own file, when asked to")]
fn the_documented_table_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table's begin is marked");
    let (_, after) = rest.split_once(END).expect("the table's end is marked");
    let expected = [before, BEGIN, &table(), END, after].concat();
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
