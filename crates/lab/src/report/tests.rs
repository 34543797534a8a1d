//! What the page says and what it must not say.

use std::slice;

use super::{format, report_html, sample};
use crate::bottleneck::Limit;
use crate::result::{BrokerCost, BrokerLimits, CaseResult, Measure, Outcome, Published};

/// A section of the page.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("<h2 id=\"{id}\"")).unwrap();
    let to = page[from..].find("</section>").unwrap();
    &page[from..from + to]
}

#[test]
fn nothing_is_fetched_or_run() {
    let page = report_html(&sample::run(), &sample::cases());
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
}

#[test]
fn hostile_text_is_escaped() {
    let hostile = "<script>alert('1')</script>";
    let mut run = sample::run();
    (run.title, run.description, run.command) = (hostile.to_owned(), hostile.to_owned(), hostile.to_owned());
    run.targets[0].label = hostile.to_owned();
    run.host.cpu = hostile.to_owned();
    for chart in &mut run.charts {
        chart.title = hostile.to_owned();
    }
    let mut cases = sample::cases();
    for case in &mut cases {
        (case.title, case.reproduce) = (hostile.to_owned(), hostile.to_owned());
        case.target = hostile.to_owned();
        case.parameters.insert(hostile.to_owned(), hostile.to_owned());
        for value in case.axes.values_mut() {
            *value += hostile;
        }
    }
    let page = report_html(&run, &cases);
    assert!(!page.contains("<script") && !page.contains("alert('1')"));
    assert!(page.contains("&#60;script&#62;"));
}

#[test]
fn a_saturated_case_has_no_latency_in_the_summary() {
    let run = sample::run();
    let p99 = |case: &CaseResult| {
        let latency = case.measured().unwrap().latency.as_ref().unwrap();
        format::milliseconds(latency.p99_us as f64)
    };
    let honest = sample::measured("H1", "parshall", 1, 1000.0);
    let page = report_html(&run, slice::from_ref(&honest));
    let summary = section(&page, "summary");
    assert!(summary.contains(&format!(">{}</td>", p99(&honest))) && !summary.contains("aturated"), "{summary}");
    let saturated = sample::saturated(honest, Limit::ClientBuffer, "the buffer was full");
    let page = report_html(&run, slice::from_ref(&saturated));
    let summary = section(&page, "summary");
    assert!(!summary.contains(&p99(&saturated)) && summary.contains(">saturated</td>"), "{summary}");
    let detail = section(&page, "cases");
    assert!(detail.contains(&p99(&saturated)) && detail.contains("class=\"queue\""), "{detail}");
}

#[test]
fn published_figures_stand_beside_ours() {
    let published = Published { records_per_s: Some(500.0), latency_p99_ms: Some(164.0), ..Published::default() };
    let case = CaseResult { published: Some(published), ..sample::measured("H1", "parshall", 1, 1000.0) };
    let page = report_html(&sample::run(), &[case]);
    let summary = section(&page, "summary");
    assert!(summary.contains("<span>500<small>records/s</small>") && summary.contains("2.00×"), "{summary}");
    assert!(section(&page, "cases").contains("<td class=\"n\">164</td>"));
}

#[test]
fn cases_without_figures_say_why() {
    let case = sample::measured("H1", "parshall", 1, 1000.0);
    let skipped = CaseResult { outcome: Outcome::Skipped { reason: "needs 3 brokers".to_owned() }, ..case.clone() };
    let failed = CaseResult { outcome: Outcome::Failed { reason: "no topic".to_owned() }, id: "H2".to_owned(), ..case };
    let page = report_html(&sample::run(), &[skipped, failed]);
    let summary = section(&page, "summary");
    assert!(summary.contains("0 cases measured, 1 skipped, 1 failed"), "{summary}");
    assert!(summary.contains("needs 3 brokers") && summary.contains("no topic"), "{summary}");
    assert!(section(&page, "charts").contains("None of its cases was measured."));
    assert!(report_html(&sample::run(), &[]).contains("0 cases measured"));
}

#[test]
fn warnings_that_are_alike_are_one() {
    let page = report_html(&sample::run(), &sample::cases());
    let summary = section(&page, "summary");
    assert_eq!(summary.matches("17 records were not delivered").count(), 1, "{summary}");
    assert!(summary.contains(">H4 on parshall</a>, <a"), "{summary}");
    assert!(page.contains("2026-11-22 04:10:02 UTC"), "when it was made");
}

#[test]
fn two_targets_are_compared() {
    let cases = [sample::measured("H1", "parshall", 1, 2000.0), sample::measured("H1", "kafka", 1, 1000.0)];
    let page = report_html(&sample::run(), &cases);
    let comparison = section(&page, "comparison");
    assert!(comparison.contains("parshall beside kafka"), "{comparison}");
    assert!(comparison.contains("<span class=\"ratio better\">2.00×</span>"), "{comparison}");
    assert!(!report_html(&sample::run(), &cases[..1]).contains("id=\"comparison\""));
}

#[test]
fn charts_show_lines_published_values_and_how_to_run_them_again() {
    let page = report_html(&sample::run(), &sample::cases());
    let charts = section(&page, "charts");
    assert_eq!(charts.matches("<figure").count(), 5, "those of the run, and the CPU");
    assert!(charts.contains("mark hollow c0") && charts.contains("</svg>published</li>"));
    assert!(charts.contains("class=\"spread"), "three repetitions");
    assert!(charts.contains("parshall lab run huawei-dms --case D3/partitions=2 --target kafka"));
}

#[test]
fn charts_name_what_is_swept_and_tooltips_the_case() {
    let mut run = sample::run();
    run.charts[0].x = None;
    let swept = |linger: &str| {
        let id = format!("D3/partitions=3,producer.linger.ms={linger}");
        let axes = [("partitions", "3"), ("producer.linger.ms", linger)];
        let axes = axes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        CaseResult { axes, ..sample::measured(&id, "parshall", 1, 1000.0) }
    };
    let page = report_html(&run, &["0", "5", "50"].map(swept));
    let charts = section(&page, "charts");
    assert_eq!(charts.matches(">linger.ms=5</text>").count(), 2, "the bars, and the CPU: {charts}");
    assert!(charts.contains("<title>D3/partitions=3,producer.linger.ms=5 on parshall: 1,000 records/s</title>"));
    assert!(!charts.contains("partitions=3</text>") && !charts.contains("=5 · Batches"), "{charts}");
    run.charts[0].x = Some("producer.linger.ms".to_owned());
    let page = report_html(&run, &["0", "5", "50"].map(swept));
    let title = "<title>D3/partitions=3,producer.linger.ms=5 on parshall: 1,000 records/s</title>";
    assert!(section(&page, "charts").contains(title));
}

#[test]
fn published_cpu_is_related_to_its_base_case_and_so_is_ours() {
    let case = |id: &str, target: &str, percent: f64, base_case: Option<&str>| {
        let (records_per_s, base_case) = (Some(percent * 100.0), base_case.map(str::to_owned));
        let broker_cpu_percent = vec![percent];
        let published = Published { records_per_s, broker_cpu_percent, base_case, ..Published::default() };
        let mut case = sample::measured(id, target, 1, 1000.0);
        if let Outcome::Measured(measured) = &mut case.outcome {
            measured.cost.brokers[0].cpu_s = if id == "H1" { 8.0 } else { 2.0 };
        }
        CaseResult { published: Some(published), ..case }
    };
    let h2 = case("H2", "parshall", 75.0, Some("H1"));
    let mut run = sample::run();
    (run.charts[2].y, run.charts[2].cases) = (Measure::BrokerCpuRatio, vec!["H2".to_owned()]);
    // The first one is another target's.
    let other = case("H1", "kafka", 50.0, None);
    let page = report_html(&run, &[other.clone(), h2.clone(), case("H1", "parshall", 50.0, None)]);
    let row = |name: &str, figures: [&str; 2]| {
        let [ours, theirs] = figures.map(|figure| format!("<td class=\"n\">{figure}</td>"));
        format!("<tr><th scope=\"row\">{name}</th>{ours}{theirs}")
    };
    let cases = section(&page, "cases");
    assert!(cases.contains(&row("CPU of the busiest broker, times that of H1", ["0.250×", "1.50×"])), "{cases}");
    assert!(cases.contains(&row("The same for a record, times that of H1", ["0.250×", "1.00×"])), "{cases}");
    let charts = section(&page, "charts");
    assert!(charts.contains(">H2 over H1</text>") && charts.contains("H2, published: 1.50 CPU of the"), "{charts}");
    assert!(!section(&report_html(&run, &[other, h2]), "cases").contains("times that of"), "no base on its target");
}

#[test]
fn brokers_are_called_by_their_ids_and_their_size_is_said() {
    let mut case = sample::measured("H1", "kafka", 1, 1000.0);
    let Outcome::Measured(measured) = &mut case.outcome else { panic!("{case:?}") };
    let broker = |id, cpu_s| BrokerCost { id: Some(id), cpu_s, ..BrokerCost::default() };
    measured.seconds = 10.0;
    measured.cost.brokers = vec![broker(4, 5.0), broker(7, 20.0)];
    measured.series.iter_mut().for_each(|second| second.broker_cpu = vec![0.5, 2.0]);
    let means = "cgroup v2: 2 CPUs, 4GiB each".to_owned();
    measured.broker_limits = Some(BrokerLimits { cpus: Some(2.0), memory_bytes: Some(4 << 30), means });
    let page = report_html(&sample::run(), &[case]);
    let cases = section(&page, "cases");
    let row = |name: &str, ours: &str| format!("<th scope=\"row\">{name}</th><td class=\"n\">{ours}</td>");
    for (name, ours) in [
        ("Broker CPU, cores", "4: 0.500, 7: 2.00"),
        ("Size of each", "cgroup v2: 2 CPUs, 4GiB each"),
        ("Client memory, most", "61.0\u{a0}MiB"),
    ] {
        assert!(cases.contains(&row(name, ours)), "{name}: {cases}");
    }
    assert!(cases.contains("broker 4 0.500, broker 7 2.00, whole machine"), "{cases}");
    assert!(cases.contains("client 61.0, broker 4 "), "its memory has a line: {cases}");
}

#[test]
fn many_cases_are_folded() {
    let page = report_html(&sample::run(), &sample::cases());
    assert!(page.contains("<details class=\"case\"") && !page.contains("<article"));
    let page = report_html(&sample::run(), &sample::cases()[..5]);
    assert!(page.contains("<article class=\"case\"") && !page.contains("<details class=\"case\""));
}

#[test]
fn who_syncs_before_it_acknowledges_is_said_where_sides_differ() {
    let of = |target, acks: &str| {
        let mut case = sample::measured("H1", target, 1, 1000.0);
        case.parameters.insert("producer.acks".to_owned(), acks.to_owned());
        case
    };
    let summary = |run, cases: &[CaseResult]| section(&report_html(run, cases), "summary").to_owned();
    let run = sample::run();
    let text = summary(&run, &[of("parshall", "all"), of("kafka", "all")]);
    let sentence = "by parshall when it is on disk (log.ack.durability=disk), by kafka when it is in memory \
                    (log.flush.interval.messages=never).";
    assert!(text.contains(sentence), "{text}");
    assert!(text.contains("<small>synced</small>") && text.contains("<small>not synced</small>"), "{text}");
    let text = summary(&run, &[of("parshall", "1"), of("kafka", "1")]);
    assert!(!text.contains("synced</small>") && !text.contains("acknowledged by"), "{text}");
    let mut same = sample::run();
    same.targets[1].durability = same.targets[0].durability.clone();
    assert!(!summary(&same, &[of("parshall", "all"), of("kafka", "all")]).contains("synced</small>"));
}
