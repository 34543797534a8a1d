//! What a broker's metrics tell of its journal, and how pages say it.

use openmetrics::Exposition;

use crate::format::{bytes, count, duration};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JournalFigures {
    /// Acknowledged and only in the journal, at most: the broker counts whole files.
    pub needed_bytes: f64,
    pub oldest_seconds: f64,
    pub state: JournalState,
}

/// How `acks=all` gets to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalState {
    InUse,
    FillingUp,
    NoSpace,
    Failed,
    Disabled,
}

impl JournalFigures {
    /// `None` for brokers that do not tell it.
    pub(crate) fn read(page: &Exposition) -> Option<Self> {
        let oldest_seconds = page.first("parshall_journal_oldest_needed_seconds")?;
        let mut reasons = page.labelled("parshall_journal_bypassed", ["reason"]).filter(|(_, value)| *value > 0.0);
        let state = match reasons.next() {
            None => JournalState::InUse,
            Some(([reason], _)) => JournalState::ALL.into_iter().find(|state| state.name() == reason)?,
        };
        Some(Self { needed_bytes: page.first("parshall_journal_needed_bytes")?, oldest_seconds, state })
    }
}

impl JournalState {
    const ALL: [Self; 5] = [Self::InUse, Self::FillingUp, Self::NoSpace, Self::Failed, Self::Disabled];

    /// In JSON, and as the reason in the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::FillingUp => "filling_up",
            Self::NoSpace => "no_space",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::InUse => "journal",
            Self::FillingUp => "direct: the journal is filling up",
            Self::NoSpace => "direct: no room on the disk for the journal",
            Self::Failed => "direct: the journal has failed",
            Self::Disabled => "direct: the journal is switched off",
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::InUse => "good",
            Self::FillingUp | Self::NoSpace | Self::Failed => "warn",
            // Somebody wanted it so.
            Self::Disabled => "",
        }
    }
}

/// The journals of all brokers of a cluster.
#[derive(Debug, PartialEq)]
pub(crate) struct JournalSummary {
    /// What is acknowledged and only there.
    pub held: String,
    /// In words, with the class of each.
    pub states: Vec<(String, &'static str)>,
}

impl JournalSummary {
    /// `None` where no broker tells of one.
    pub(crate) fn of(journals: impl Iterator<Item = JournalFigures>) -> Option<Self> {
        let journals: Vec<_> = journals.collect();
        let needed_bytes: f64 = journals.iter().map(|journal| journal.needed_bytes).sum();
        let oldest_seconds = journals.iter().map(|journal| journal.oldest_seconds).reduce(f64::max)?;
        let held = match needed_bytes > 0.0 {
            true => format!("at most {}, the oldest for {}", bytes(needed_bytes as i64), duration(oldest_seconds)),
            false => "nothing".to_owned(),
        };
        let states = JournalState::ALL.into_iter().filter_map(|state| {
            let text = match journals.iter().filter(|journal| journal.state == state).count() {
                0 => return None,
                brokers if brokers == journals.len() => state.text().to_owned(),
                brokers => format!("{} ({} of {})", state.text(), count(brokers as u64), count(journals.len() as u64)),
            };
            Some((text, state.class()))
        });
        Some(Self { held, states: states.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(needed_bytes: u64, oldest_seconds: f64, reason: &str) -> Option<JournalFigures> {
        let reasons = ["filling_up", "no_space", "failed", "disabled"]
            .map(|of| format!("parshall_journal_bypassed{{reason=\"{of}\"}} {}\n", u8::from(of == reason)));
        let sizes = format!(
            "parshall_journal_needed_bytes {needed_bytes}\nparshall_journal_oldest_needed_seconds {oldest_seconds}\n"
        );
        JournalFigures::read(&Exposition::new(sizes + &reasons.concat()))
    }

    #[test]
    fn the_metrics_say_how_acknowledgements_get_to_the_disk() {
        let texts = ["", "filling_up", "no_space", "failed", "disabled"].map(|reason| {
            let state = journal(0, 0.0, reason).unwrap().state;
            (state.text(), state.class())
        });
        let expected = [
            ("journal", "good"),
            ("direct: the journal is filling up", "warn"),
            ("direct: no room on the disk for the journal", "warn"),
            ("direct: the journal has failed", "warn"),
            ("direct: the journal is switched off", ""),
        ];
        assert_eq!(texts, expected);
        // A broker of an earlier release.
        let earlier = Exposition::new("parshall_journal_needed_bytes 5\nparshall_journal_enabled 1\n".to_owned());
        assert_eq!(JournalFigures::read(&earlier), None);
    }

    #[test]
    fn the_journals_of_a_cluster_are_summed_up() {
        let of = |journals: &[JournalFigures]| JournalSummary::of(journals.iter().copied());
        let [idle, busy, pressed] = [(0, 0.0, ""), (3 << 20, 4.2, ""), (1 << 20, 75.0, "filling_up")]
            .map(|(bytes, seconds, reason)| journal(bytes, seconds, reason).unwrap());
        let summary = |held: &str, states: &[(&str, &'static str)]| {
            let states = states.iter().map(|(text, class)| ((*text).to_owned(), *class)).collect();
            Some(JournalSummary { held: held.to_owned(), states })
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[idle, idle]), summary("nothing", &[("journal", "good")]));
        let states = [("journal (2 of 3)", "good"), ("direct: the journal is filling up (1 of 3)", "warn")];
        assert_eq!(of(&[idle, busy, pressed]), summary("at most 4.00 MiB, the oldest for 1 min 15 s", &states));
    }
}
