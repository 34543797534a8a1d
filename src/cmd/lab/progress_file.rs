//! `progress.jsonl` in the directory of a run: what goes on, for the console, which runs it as a process of its own.
//!
//! The first line says which case runs, each further one is a second of it. The file begins anew with each case, and is
//! gone when the run ends. A long case has fewer, longer points. It is written by a thread of its own, so that no load
//! waits for a disk; what that cannot keep up with is left out.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use lab::{Event, Second};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::progress::Position;
use crate::cmd::time;

const NAME: &str = "progress.jsonl";
/// Points of a case; when there are so many, every two become one.
const POINTS_MAX: usize = 600;
/// Lines that wait for the disk.
const WAITING_MAX: usize = 64;
/// More is none of ours.
#[cfg(any(feature = "console", test))]
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Preparing(Preparing),
    Begun(Begun),
    Point(Point),
}

/// Before the first case.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::cmd) struct Preparing {
    pub(in crate::cmd) what: String,
    pub(in crate::cmd) run_left_s: f64,
}

/// A case that runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(in crate::cmd) struct Begun {
    pub(in crate::cmd) number: usize,
    pub(in crate::cmd) of: usize,
    pub(in crate::cmd) is_at_most: bool,
    pub(in crate::cmd) case: String,
    pub(in crate::cmd) title: String,
    pub(in crate::cmd) target: String,
    pub(in crate::cmd) began_ms: i64,
    pub(in crate::cmd) case_left_s: f64,
    pub(in crate::cmd) run_left_s: f64,
}

/// A second of it, or several.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(in crate::cmd) struct Point {
    /// Wall clock.
    pub(in crate::cmd) at_ms: i64,
    /// Since the load began.
    pub(in crate::cmd) at_s: f64,
    pub(in crate::cmd) is_warm_up: bool,
    pub(in crate::cmd) produced_records_per_s: f64,
    pub(in crate::cmd) produced_mib_per_s: f64,
    pub(in crate::cmd) consumed_records_per_s: f64,
    pub(in crate::cmd) consumed_mib_per_s: f64,
    pub(in crate::cmd) latency_p50_us: u64,
    pub(in crate::cmd) latency_p99_us: u64,
    /// Of the case, from 0 to 1.
    pub(in crate::cmd) part: f64,
    pub(in crate::cmd) case_left_s: f64,
    pub(in crate::cmd) run_left_s: f64,
}

/// What a file says.
#[cfg(any(feature = "console", test))]
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cmd) struct Contents {
    pub(in crate::cmd) preparing: Option<Preparing>,
    pub(in crate::cmd) begun: Option<Begun>,
    pub(in crate::cmd) points: Vec<Point>,
}

impl Point {
    fn new(second: &Second, position: &Position) -> Self {
        Self {
            at_ms: time::now_ms(),
            at_s: second.at_s,
            is_warm_up: second.is_warm_up,
            produced_records_per_s: second.produced_records_per_s,
            produced_mib_per_s: second.produced_mib_per_s,
            consumed_records_per_s: second.consumed_records_per_s,
            consumed_mib_per_s: second.consumed_mib_per_s,
            latency_p50_us: second.latency_p50_us,
            latency_p99_us: second.latency_p99_us,
            part: position.part(),
            case_left_s: position.case_left_s,
            run_left_s: position.run_left_s,
        }
    }

    /// The mean of both rates, of which `share` is the later one's, the worse of both latencies, and for the rest the
    /// later.
    fn and(self, later: Self, share: f64) -> Self {
        let mean = |of: fn(&Self) -> f64| of(&self) * (1.0 - share) + of(&later) * share;
        Self {
            produced_records_per_s: mean(|point| point.produced_records_per_s),
            produced_mib_per_s: mean(|point| point.produced_mib_per_s),
            consumed_records_per_s: mean(|point| point.consumed_records_per_s),
            consumed_mib_per_s: mean(|point| point.consumed_mib_per_s),
            latency_p50_us: self.latency_p50_us.max(later.latency_p50_us),
            latency_p99_us: self.latency_p99_us.max(later.latency_p99_us),
            ..later
        }
    }
}

/// The seconds of a case, in a bounded number of points.
#[derive(Default)]
struct Points {
    whole: Vec<Point>,
    /// Each point of `whole` stands for so many seconds, a power of two.
    seconds_each: u32,
    /// What the next point has so far, and of how many seconds.
    partial: Option<(Point, u32)>,
}

impl Points {
    /// Whether there is one more point, and whether all of them are others.
    fn add(&mut self, second: Point) -> (bool, bool) {
        let each = self.seconds_each.max(1);
        let (point, seconds) = match self.partial.take() {
            Some((point, seconds)) => (point.and(second, 1.0 / f64::from(seconds + 1)), seconds + 1),
            None => (second, 1),
        };
        if seconds < each {
            self.partial = Some((point, seconds));
            return (false, false);
        }
        self.whole.push(point);
        if self.whole.len() < POINTS_MAX {
            return (true, false);
        }
        let one = |pair: &[Point]| pair.iter().copied().reduce(|point, later| point.and(later, 0.5));
        self.whole = self.whole.chunks(2).filter_map(one).collect();
        self.seconds_each = each * 2;
        (true, true)
    }
}

/// Writes the file of a run.
pub(super) struct ProgressFile {
    lines: mpsc::Sender<Line>,
    writing: JoinHandle<()>,
}

impl ProgressFile {
    pub(super) fn start(directory: &Path) -> Self {
        let (lines, waiting) = mpsc::channel(WAITING_MAX);
        let path = directory.join(NAME);
        Self { lines, writing: spawn_blocking(move || write_all(&path, waiting)) }
    }

    /// `left_s` is what the whole run will take yet.
    pub(super) fn show(&self, event: &Event<'_>, position: Option<&Position>, left_s: f64) {
        let run_left_s = position.map_or(left_s, |position| position.run_left_s);
        let line = match (event, position) {
            (Event::Preparing(what), _) => Line::Preparing(Preparing { what: (*what).to_owned(), run_left_s }),
            (Event::Begun { case, target, turn }, _) => Line::Begun(Begun {
                number: turn.number,
                of: turn.of,
                is_at_most: turn.is_at_most,
                case: case.id.clone(),
                title: case.title.clone(),
                target: (*target).to_owned(),
                began_ms: time::now_ms(),
                case_left_s: position.map_or(0.0, |position| position.case_left_s),
                run_left_s,
            }),
            (Event::Second(second), Some(position)) => Line::Point(Point::new(second, position)),
            _ => return,
        };
        let _ = self.lines.try_send(line);
    }

    /// The run has ended.
    pub(super) async fn remove(self) {
        drop(self.lines);
        let _ = self.writing.await;
    }
}

/// Until nobody sends any more. A run goes on without the file where that cannot be written.
#[expect(clippy::disallowed_methods, reason = "a file of the run")]
fn write_all(path: &Path, mut lines: mpsc::Receiver<Line>) {
    let mut first = None;
    let mut points = Points::default();
    let mut file = None;
    while let Some(line) = lines.blocking_recv() {
        match line {
            Line::Point(second) => match points.add(second) {
                (_, true) => file = begin(path, first.as_ref(), &points.whole).ok(),
                (true, false) => {
                    let point = points.whole.last().copied().map(Line::Point);
                    let is_written = file.as_mut().zip(point).is_some_and(|(file, point)| append(file, &point).is_ok());
                    // The directory may be there by now.
                    if !is_written {
                        file = begin(path, first.as_ref(), &points.whole).ok();
                    }
                }
                (false, false) => {}
            },
            line => {
                points = Points::default();
                file = begin(path, Some(&line), &[]).ok();
                first = Some(line);
            }
        }
    }
    let _ = std::fs::remove_file(path);
}

fn append(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// A new file in place of the one before, so that a reader has either.
#[expect(clippy::disallowed_methods, reason = "a file of the run")]
fn begin(path: &Path, first: Option<&Line>, points: &[Point]) -> io::Result<File> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    for line in first.cloned().into_iter().chain(points.iter().copied().map(Line::Point)) {
        append(&mut file, &line)?;
    }
    std::fs::rename(&new, path)?;
    Ok(file)
}

/// What goes on in the directory of a run. A line that is being written is left out.
#[cfg(any(feature = "console", test))]
pub(in crate::cmd) fn read(directory: &Path) -> Option<Contents> {
    use std::io::Read;

    let path = directory.join(NAME);
    let mut text = Vec::new();
    OpenOptions::new().read(true).open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let mut contents = Contents::default();
    for line in text.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Line::Preparing(preparing)) => contents.preparing = Some(preparing),
            Ok(Line::Begun(begun)) => contents.begun = Some(begun),
            Ok(Line::Point(point)) => contents.points.push(point),
            Err(_) => {}
        }
    }
    Some(contents)
}

#[cfg(test)]
mod tests {
    use lab::{Case, Load, Turn};

    use super::super::progress::Done;
    use super::*;

    fn position(case_left_s: f64) -> Position {
        Position { done: Done::Seconds { at: 1.0, of: 4.0 }, case_left_s, run_left_s: 60.0 }
    }

    fn second(at_s: f64, rate: f64, p99_us: u64) -> Second {
        Second { at_s, produced_records_per_s: rate, latency_p99_us: p99_us, ..Second::default() }
    }

    #[tokio::test]
    async fn what_goes_on_is_read_as_it_was_written_until_the_run_ends() {
        let home = tempfile::tempdir().unwrap();
        let file = ProgressFile::start(home.path());
        let case = Case::plain("a", Load::default());
        let turn = Turn { case: 1, repetition: 1, number: 1, of: 2, is_at_most: false };
        file.show(&Event::Preparing("starting parshall"), None, 70.0);
        file.show(&Event::Begun { case: &case, target: "parshall", turn }, Some(&position(4.0)), 0.0);
        file.show(&Event::Second(&second(1.0, 100.0, 5000)), Some(&position(3.0)), 0.0);
        file.show(&Event::Second(&second(2.0, 300.0, 7000)), Some(&position(2.0)), 0.0);
        let contents = loop {
            match read(home.path()) {
                Some(contents) if contents.points.len() == 2 => break contents,
                _ => tokio::task::yield_now().await,
            }
        };
        let begun = contents.begun.unwrap();
        assert_eq!((begun.case.as_str(), begun.number, begun.of, begun.case_left_s), ("a", 1, 2, 4.0));
        assert_eq!(contents.preparing, None, "it began anew");
        let points: Vec<_> = contents.points.iter().map(|p| (p.at_s, p.produced_records_per_s, p.part)).collect();
        assert_eq!(points, [(1.0, 100.0, 0.25), (2.0, 300.0, 0.25)]);
        file.remove().await;
        assert_eq!((read(home.path()), home.path().read_dir().unwrap().count()), (None, 0));
    }

    #[tokio::test]
    async fn a_long_case_has_longer_points() {
        let mut points = Points::default();
        let seconds = 5000;
        for at in 1..=seconds {
            let second = second(f64::from(at), f64::from(at % 2), u64::from(at % 100 == 0) * 9000);
            points.add(Point::new(&second, &position(1.0)));
        }
        let whole = &points.whole;
        assert!(whole.len() < POINTS_MAX && whole.len() * 2 >= POINTS_MAX - 1, "{}", whole.len());
        assert_eq!(points.seconds_each, 16);
        assert!(whole.iter().all(|point| (point.produced_records_per_s - 0.5).abs() < 1e-9), "the mean");
        let stalls = whole.iter().filter(|point| point.latency_p99_us == 9000).count();
        assert!(stalls >= 45, "a stall is seen in each point that has one: {stalls}");
        assert!(whole.windows(2).all(|pair| pair[1].at_s - pair[0].at_s == 16.0));
    }

    #[test]
    fn what_is_no_line_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()), None);
        let mut file = OpenOptions::new().create(true).append(true).open(home.path().join(NAME)).unwrap();
        append(&mut file, &Line::Point(Point { at_s: 1.0, ..Point::default() })).unwrap();
        file.write_all(b"\xff\n{\"other\":1}\n{\"point\":{\"at_s\"").unwrap();
        assert_eq!(read(home.path()).unwrap().points.len(), 1);
    }
}
