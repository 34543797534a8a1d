//! `parshall lab history` from outside, over runs that nobody has measured.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn history(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command.args(["lab", "history"]).args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

fn ok(dir: &Path, args: &[&str]) -> String {
    let output = history(dir, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(dir: &Path, args: &[&str]) -> String {
    let output = history(dir, args);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{args:?}: {text}");
    text
}

#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn write(path: &Path, value: &Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, value.to_string()).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn read(path: &Path) -> String {
    String::from_utf8(std::fs::read(path).unwrap()).unwrap()
}

/// A run of one case, with these records per second in its repetitions.
fn run(directory: &Path, suite: &str, day: u32, rates: &[f64]) {
    let host = json!({ "os": "Linux", "kernel": "6.1", "cpu": "a processor", "cores": 2, "memory_bytes": 1_u64 << 30,
        "virtualized": null });
    write(
        &directory.join("run.json"),
        &json!({ "schema": 1, "name": suite, "title": "Invented", "description": "", "scenario": "", "scale": null,
            "started": format!("2026-11-{day:02}T10:00:00.000Z"), "command": "parshall lab run", "charts": [],
            "program_version": format!("0.1.0 (abcdef{day:02}0123 2026-11-{day:02})"),
            "program_checksum": format!("{day:08x}"), "host": host, "preflight": { "disk": null, "network": [] },
            "targets": [{ "label": "parshall", "version": format!("parshall 0.1.0 (abcdef{day:02}0123 2026-11-{day:02})"),
                "brokers": 1, "is_local": true }] }),
    );
    for (repetition, records_per_s) in (1..).zip(rates) {
        let repetition: u32 = repetition;
        let flow = json!({ "records": 1000, "bytes": 1000, "records_per_s": records_per_s, "mib_per_s": 1.0,
            "requests": 10 });
        let latency = json!({ "counts_from": "due", "mean_us": 500.0, "p50_us": 400, "p95_us": 800, "p99_us": 1000,
            "p99_9_us": 2000, "p99_99_us": 2000, "max_us": 2000, "distribution": [] });
        let cost = json!({ "client_cpu_s": 1.0, "brokers": [], "others_cpu_s": 0.0, "cores": 2,
            "broker_cpu_s_per_million": 4.0, "broker_cpu_s_per_gib": 4.0, "client_cpu_s_per_million": 1.0 });
        let verdict = json!({ "limit": "broker_cpu", "evidence": "", "is_saturated": false, "warnings": [] });
        let measured = json!({ "seconds": 1.0, "produced": flow, "consumed": null, "latency": latency,
            "end_to_end": null, "failures": {}, "cost": cost, "series": [], "verdict": verdict });
        write(
            &directory.join(format!("cases/0001-A.parshall.{repetition}.json")),
            &json!({ "schema": 1, "number": 1, "id": "A", "group": "A", "title": "Small records", "axes": {},
                "parameters": {}, "target": "parshall", "repetition": repetition, "started": "", "reproduce": "",
                "published": null, "outcome": { "measured": measured } }),
        );
    }
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let results = home.path().join("parshall-results");
    // Their names are in another order than their times.
    run(&results.join("c"), "quick", 1, &[1000.0, 1010.0, 990.0]);
    run(&results.join("b"), "quick", 2, &[1004.0, 1011.0, 993.0]);
    run(&results.join("a"), "quick", 3, &[700.0, 705.0, 695.0]);
    run(&results.join("mine"), "mine", 2, &[5.0]);
    write(&results.join("broken/run.json"), &json!({ "schema": 1 }));
    home
}

#[test]
fn the_runs_of_the_suite_that_ran_last_are_shown_in_the_order_of_time() {
    let home = home();
    let text = ok(home.path(), &[]);
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], "quick  Invented");
    assert_eq!(lines[3], "1  2026-11-01 10:00  0.1.0 (abcdef010123 2026-11-01)  c");
    assert!(lines.iter().any(|line| line.starts_with("run  records/s")), "{text}");
    assert!(text.contains("2  1004 (993 to 1011)  +0.3 % ~  +0.3 % ~  1.00 (1.00 to 1.00)  +0.0 % ~"), "{text}");
    assert!(text.contains("3  700 (695 to 705)       -30 %     -30 %"), "{text}");
    assert!(text.contains("  against the run before: worse: records/s -30 %\n"), "{text}");
    assert!(text.contains("  against the first run: worse: records/s -30 %\n"), "{text}");
    assert!(text.ends_with("\nrun 3 against the run before: 1 worse (A)\nrun 3 against the first run: 1 worse (A)\n"));
    assert!(text.contains("  broken: ") && text.contains("is no result of ours"), "{text}");
    let newest = ok(home.path(), &["quick", "--last", "2"]);
    assert!(!newest.contains("abcdef01") && newest.contains("run 2 against the run before: 1 worse (A)"), "{newest}");
}

#[test]
fn json_and_the_page_have_the_same() {
    let home = home();
    let text = ok(home.path(), &["quick", "--in", "parshall-results", "--json", "--out", "history.html"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let directories: Vec<_> = json["runs"].as_array().unwrap().iter().map(|run| &run["directory"]).collect();
    assert_eq!(directories, ["c", "b", "a"]);
    let case = &json["cases"][0];
    assert_eq!((&case["before"]["trend"], &case["first"]["text"]), (&json!("worse"), &json!("worse: records/s -30 %")));
    assert_eq!(case["points"][0]["throughput"]["median"], 1000.0);
    assert_eq!(case["points"][1]["throughput"]["before"]["is_noise"], true);
    assert_eq!(case["points"][2]["throughput"]["before"]["is_noise"], false);
    assert_eq!(case["points"][0]["throughput"]["before"], Value::Null);
    assert_eq!(json["left_out"][0]["directory"], "broken");
    let page = read(&home.path().join("history.html"));
    assert!(page.contains("worse: records/s -30 %") && page.contains(">abcdef0</text>"), "{page}");
}

#[test]
fn directories_can_be_named_and_mistakes_are_one_clear_line() {
    let home = home();
    let text = ok(home.path(), &["parshall-results/a", "parshall-results/mine", "parshall-results/b"]);
    assert!(text.contains("parshall-results/mine: another suite: mine, and not quick"), "{text}");
    assert!(text.contains("  2026-11-02 10:00  ") && !text.contains("  2026-11-01 10:00  "), "{text}");
    let error = fails(home.path(), &["nosuch"]);
    assert!(error.contains("there is no run of nosuch in parshall-results; it has quick (3), mine (1)"), "{error}");
    let error = fails(home.path(), &["parshall-results/a", "nowhere"]);
    assert!(error.contains("nowhere is no run; name directories of runs, or one suite"), "{error}");
    let error = fails(home.path(), &["--in", "."]);
    assert!(error.contains("there is no run in .; parshall lab run makes one"), "{error}");
    let output = history(home.path(), &["--in", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
}
