//! Histories of runs that nobody has measured.

use super::*;
use crate::bottleneck::Limit;
use crate::report::sample;
use crate::result::{Durability, Outcome};

/// A run of so many days after the first, of a build.
fn run(day: usize, build: &str, cases: Vec<CaseResult>) -> PastRun {
    let mut facts = sample::run();
    facts.started = format!("2026-11-{:02}T04:10:02.548Z", day + 1);
    facts.program_version = format!("0.1.0 ({build} 2026-11-01)");
    facts.program_checksum = Some(build.to_owned());
    for target in &mut facts.targets {
        target.version = match target.label.as_str() {
            "kafka" => "Apache Kafka 4.3.1".to_owned(),
            _ => format!("parshall {}", facts.program_version),
        };
    }
    PastRun { directory: format!("run-{day}"), facts, cases }
}

/// Repetitions of a case that nothing but the broker limits, with these rates.
fn case(id: &str, target: &str, rates: &[f64]) -> Vec<CaseResult> {
    let case = |(repetition, rate): (u32, &f64)| {
        let mut case = sample::measured(id, target, repetition, *rate);
        if let Outcome::Measured(measured) = &mut case.outcome {
            measured.verdict.limit = Limit::BrokerCpu;
            measured.cost.broker_cpu_s_per_million = Some(4.0);
        }
        case
    };
    (1..).zip(rates).map(case).collect()
}

/// Of one case over runs, the oldest first.
fn history(runs: &[(&str, &[f64])]) -> History {
    let runs = runs.iter().enumerate().map(|(day, (build, rates))| run(day, build, case("H1", "parshall", rates)));
    History::of(runs.rev()).unwrap()
}

fn findings(history: &History) -> [String; 2] {
    let case = &history.cases[0];
    [case.before.to_string(), case.first.to_string()]
}

#[test]
fn the_newest_run_is_held_against_the_one_before_and_the_first() {
    let history =
        history(&[("a", &[100.0, 101.0, 99.0]), ("b", &[150.0, 151.0, 149.0]), ("c", &[149.5, 150.5, 151.0])]);
    assert_eq!(findings(&history), ["no difference within the noise", "better: records/s +50 %"]);
    let directories: Vec<_> = history.runs.iter().map(|run| run.directory.as_str()).collect();
    assert_eq!(directories, ["run-0", "run-1", "run-2"], "the oldest first");
    let points = &history.cases[0].points;
    assert_eq!((points[0].before.as_ref(), points[0].first.as_ref()), (None, None));
    assert_eq!(points[1].before.as_ref().unwrap().finding.to_string(), "better: records/s +50 %");
    let spread = points[1].figures[HistoryFigure::RecordsPerS as usize].unwrap();
    assert_eq!([spread.least, spread.median, spread.most].map(f64::round), [149.0, 150.0, 151.0]);
    assert_eq!(history.summary(), ["1 without a difference", "1 better (H1)"]);
}

#[test]
fn single_repetitions_of_different_builds_tell_nothing() {
    let history = history(&[("a", &[100.0]), ("b", &[150.0])]);
    assert_eq!(findings(&history), ["unknown: one repetition only", "unknown: one repetition only"]);
}

#[test]
fn the_noise_of_single_repetitions_is_that_of_runs_of_one_build() {
    let steady: [(&str, &[f64]); 5] =
        [("a", &[100.0]), ("a", &[101.0]), ("a", &[99.0]), ("a", &[100.5]), ("b", &[150.0])];
    assert_eq!(findings(&history(&steady))[0], "better: records/s +49 %");
    let restless: [(&str, &[f64]); 5] =
        [("a", &[100.0]), ("a", &[130.0]), ("a", &[80.0]), ("a", &[125.0]), ("b", &[150.0])];
    assert_eq!(findings(&history(&restless))[0], "no difference within the noise");
    // Means of several are nearer to each other than single ones.
    let means: [(&str, &[f64]); 3] = [("a", &[90.0, 100.0, 110.0]), ("a", &[110.0, 100.0, 90.0]), ("b", &[120.0])];
    assert_eq!(findings(&history(&means))[0], "no difference within the noise");
    // Two runs alike may be so by chance.
    let few: [(&str, &[f64]); 3] = [("a", &[100.0]), ("a", &[101.0]), ("b", &[110.0])];
    assert_eq!(findings(&history(&few))[0], "no difference within the noise");
}

#[test]
fn what_two_runs_of_one_build_differ_by_is_no_difference_of_others() {
    let runs: [(&str, &[f64]); 3] =
        [("a", &[100.0, 100.1, 100.2]), ("a", &[108.0, 108.1, 108.2]), ("b", &[115.0, 115.1, 115.2])];
    assert_eq!(findings(&history(&runs))[0], "no difference within the noise", "two runs of a are apart as far");
    let mut others = runs;
    others[1].0 = "other";
    assert_eq!(findings(&history(&others))[0], "better: records/s +6.5 %");
}

#[test]
fn builds_that_nothing_tells_apart_are_not_taken_for_one() {
    let unknown = |change: fn(&mut PastRun)| {
        let mut runs: Vec<_> = [100.0, 101.0, 99.0, 150.0]
            .into_iter()
            .enumerate()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(day, rate)| run(day, if rate > 101.0 { "b" } else { "a" }, case("H1", "parshall", &[rate])))
            .collect();
        runs.iter_mut().for_each(change);
        findings(&History::of(runs.into_iter().rev()).unwrap())[0].clone()
    };
    assert_eq!(unknown(|_| {}), "better: records/s +52 %");
    assert_eq!(unknown(|run| run.facts.program_checksum = None), "unknown: one repetition only");
    assert_eq!(unknown(|run| run.facts.targets[0].version.clear()), "unknown: one repetition only");
}

#[test]
fn runs_that_other_processes_limited_conclude_nothing() {
    let mut disturbed = case("H1", "parshall", &[50.0, 51.0]);
    for case in &mut disturbed {
        if let Outcome::Measured(measured) = &mut case.outcome {
            measured.verdict.limit = Limit::Noise;
        }
    }
    let undisturbed = |day, build| run(day, build, case("H1", "parshall", &[100.0, 101.0]));
    let history = History::of([run(1, "b", disturbed.clone()), undisturbed(0, "a")]).unwrap();
    assert_eq!(findings(&history)[0], "unknown: other processes limited the newer run");
    let step = history.cases[0].points[1].before.as_ref().unwrap();
    assert_eq!(step.ratios.map(|ratio| ratio.and_then(|ratio| ratio.is_noise())), [None; 3]);
    // Nor do they tell how far runs of a build are apart.
    let build_b = run(3, "b", case("H1", "parshall", &[120.0, 121.0]));
    let history = History::of([build_b, undisturbed(2, "a"), run(0, "a", disturbed)]).unwrap();
    assert_eq!(findings(&history)[0], "better: records/s +20 %");
}

#[test]
fn what_is_left_out_is_listed_with_its_reason() {
    let of = |day| run(day, "a", case("H1", "parshall", &[100.0, 101.0]));
    let changed = |day, change: fn(&mut RunFacts)| {
        let mut run = of(day);
        change(&mut run.facts);
        run
    };
    let mut runs = vec![
        changed(0, |facts| facts.host.cores = 4),
        changed(1, |facts| facts.host.memory_bytes -= 1 << 30),
        changed(2, |facts| facts.scenario = "name = \"other\"".to_owned()),
        changed(3, |facts| facts.duration_s = Some(5.0)),
        changed(4, |facts| facts.scale = Some(0.1)),
        changed(5, |facts| facts.targets[0].brokers = 3),
        changed(6, |facts| {
            facts.targets[0].durability =
                Some(Durability { is_synced: false, setting: "log.ack.durability=os".to_owned() });
        }),
        changed(7, |facts| _ = facts.targets[0].settings.insert("num.io.threads".to_owned(), "1".to_owned())),
        changed(8, |facts| facts.name = "another".to_owned()),
        PastRun { cases: Vec::new(), ..of(9) },
        of(10),
    ];
    runs.push(PastRun { directory: "copy".to_owned(), ..of(10) });
    let history = History::of(runs.into_iter().rev()).unwrap();
    let shown: Vec<_> = history.cases[0].points.iter().map(|point| &history.runs[point.run].directory).collect();
    assert_eq!(shown, ["run-1", "copy"], "a kernel may take some memory");
    let reasons: Vec<_> =
        history.left_out.iter().rev().map(|run| format!("{}: {}", run.directory, run.reason)).collect();
    assert_eq!(
        reasons,
        [
            "run-0: another host: 4 x AMD EPYC 7763 64-Core Processor with 33.0 GiB under KVM, and not 8 x AMD EPYC 7763 \
         64-Core Processor with 33.0 GiB under KVM",
            "run-2: the text of its scenario is another",
            "run-3: another length: --duration 5s, and not the scenario's own",
            "run-4: another length: --scale 0.1, and not the scenario's own",
            "run-5: parshall: 3 brokers, and not 1 broker",
            "run-6: parshall: log.ack.durability=os, and not log.ack.durability=disk",
            "run-7: parshall: num.io.threads=1, and not no --broker-set",
            "run-8: another suite: another, and not huawei-dms",
            "run-9: it has measured nothing",
            "run-10: it is a copy of another run",
        ]
    );
    assert!(History::of([PastRun { cases: Vec::new(), ..of(0) }]).is_none());
}

#[test]
fn targets_have_histories_of_their_own() {
    let on_both =
        |rate: f64| [case("H1", "parshall", &[rate, rate + 1.0]), case("H1", "kafka", &[50.0, 50.5])].concat();
    let mut runs = vec![run(0, "a", on_both(100.0)), run(1, "b", on_both(200.0)), run(2, "c", on_both(400.0))];
    runs[0].facts.targets[1].brokers = 3;
    runs[1].facts.targets[1].version = "Apache Kafka 4.1.0".to_owned();
    runs[2].cases.extend(case("H2", "parshall", &[1.0, 2.0]));
    runs[0].cases.extend(case("H3", "parshall", &[1.0, 2.0]));
    runs[1].facts.host.kernel = "6.2".to_owned();
    let history = History::of(runs.into_iter().rev()).unwrap();
    let told: Vec<_> =
        history.cases.iter().map(|case| (history.name_of(case), case.points.len(), case.first.to_string())).collect();
    assert_eq!(
        told.iter().map(|(name, points, first)| (name.as_str(), *points, first.as_str())).collect::<Vec<_>>(),
        [
            ("H1 on parshall", 3, "better: records/s +299 %"),
            ("H1 on kafka", 2, "no difference within the noise"),
            ("H2 on parshall", 1, "unknown: measured in one run only"),
            ("H3 on parshall", 1, "unknown: the newest run has not measured it"),
        ]
    );
    assert_eq!(history.by_case().map(<[_]>::len).collect::<Vec<_>>(), [2, 1, 1]);
    let remarks: Vec<_> = history.runs.iter().map(|run| run.remarks.as_str()).collect();
    assert!(remarks[1].contains("kafka: Apache Kafka 4.1.0") && remarks[1].contains("kernel 6.2, and not 6.1.0"));
    assert!(!remarks[2].contains("kernel"), "{remarks:?}");
}
