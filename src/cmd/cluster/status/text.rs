//! A status for somebody who reads it.

use std::fmt::Write;

use super::judge::{BrokerStatus, Counts, Listed, Member, QuorumStatus, Status};
use crate::cmd::table::{Column, table};

const NOTHING: &str = "-";

pub(super) fn render(status: &Status) -> String {
    let mut text = match status.is_healthy {
        true => "the cluster is healthy\n".to_owned(),
        false => format!("UNHEALTHY: {}\n", status.problems.join("; ")),
    };
    if let Some(id) = &status.cluster_id {
        let _ = writeln!(text, "cluster id {id}");
    }
    if status.is_last_known {
        text.push_str("what follows is what the broker that was asked last heard\n");
    }
    if let Some(quorum) = &status.quorum {
        text.push_str(&render_quorum(quorum));
    }
    text.push_str(&render_brokers(&status.brokers));
    text.push_str(&render_counts(&status.partitions));
    if !status.listed.is_empty() {
        text.push_str(&render_listed(&status.listed));
        let more = status.partitions.not_well - status.listed.len();
        if more > 0 {
            let _ = writeln!(text, "... and {more} more; --all shows them");
        }
    }
    text
}

fn render_quorum(quorum: &QuorumStatus) -> String {
    let leader = quorum.leader.map_or_else(|| "nobody".to_owned(), |id| id.to_string());
    let (epoch, high_watermark) = (quorum.epoch, quorum.high_watermark);
    let mut rows = vec![["NODE", "ROLE", "LOG-END-OFFSET", "LAG", "CAUGHT-UP"].map(str::to_owned)];
    let row = |role: &str, member: &Member| {
        let role = if Some(member.id) == quorum.leader { "leader" } else { role };
        let caught_up = match member.caught_up_ms_ago {
            Some(ms) => format!("{:.1} s ago", ms as f64 / 1000.0),
            None if member.is_unheard => "not heard of".to_owned(),
            None => NOTHING.to_owned(),
        };
        let (id, end, lag) = (member.id.to_string(), member.log_end_offset.to_string(), member.lag.to_string());
        [id, role.to_owned(), end, lag, caught_up]
    };
    rows.extend(quorum.voters.iter().map(|member| row("voter", member)));
    rows.extend(quorum.observers.iter().map(|member| row("observer", member)));
    format!("\nquorum: led by {leader}, epoch {epoch}, high watermark {high_watermark}\n{}", fitted(&rows))
}

fn render_brokers(brokers: &[BrokerStatus]) -> String {
    let header = ["BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "PREFERRED", "REPLICAS", "OUT-OF-SYNC"];
    let mut rows = vec![header.map(str::to_owned)];
    rows.extend(brokers.iter().map(|broker| {
        let state = match broker.is_fenced {
            _ if broker.address.is_empty() => "missing",
            Some(true) => "fenced",
            _ if broker.is_silent => "silent",
            _ => "active",
        };
        let or_nothing = |text: &str| if text.is_empty() { NOTHING.to_owned() } else { text.to_owned() };
        [
            broker.id.to_string(),
            or_nothing(&broker.address),
            or_nothing(broker.rack.as_deref().unwrap_or_default()),
            state.to_owned(),
            broker.leaders.to_string(),
            broker.preferred.to_string(),
            broker.replicas.to_string(),
            broker.out_of_sync.to_string(),
        ]
    }));
    format!("\n{}", fitted(&rows))
}

fn render_counts(counts: &Counts) -> String {
    let Counts { topics, total, offline, under_min_isr, at_min_isr, under_replicated, non_preferred_leaders, .. } =
        counts;
    let part = *non_preferred_leaders as f64 * 100.0 / (*total).max(1) as f64;
    let s = if *topics == 1 { "" } else { "s" };
    let hint =
        if *non_preferred_leaders == 0 { "" } else { ": 'parshall partition elect --all' elects the preferred ones" };
    format!(
        "\npartitions: {total} in {topics} topic{s}\n  \
         {offline} offline, {under_min_isr} under min ISR, {at_min_isr} at min ISR, {under_replicated} under-replicated\n  \
         {non_preferred_leaders} with a non-preferred leader ({part:.1} %){hint}\n"
    )
}

fn render_listed(listed: &[Listed]) -> String {
    let header = ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "MIN-ISR", "STATE"];
    let mut rows = vec![header.map(str::to_owned)];
    let join = |ids: &[i32]| match ids {
        [] => NOTHING.to_owned(),
        _ => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    };
    rows.extend(listed.iter().map(|one| {
        [
            one.topic.clone(),
            one.partition.to_string(),
            one.leader.map_or_else(|| "none".to_owned(), |id| id.to_string()),
            join(&one.replicas),
            join(&one.isr),
            one.min_insync_replicas.to_string(),
            one.states.join(", "),
        ]
    }));
    format!("\n{}", fitted(&rows))
}

/// Columns as wide as their cells.
fn fitted<const N: usize>(rows: &[[String; N]]) -> String {
    let mut columns = [Column::Fitted(0); N];
    columns[N - 1] = Column::Fixed(0);
    table(rows, &columns, "  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_it_all() {
        let broker = |id: i32, address: &str, is_fenced| BrokerStatus {
            id,
            address: address.to_owned(),
            is_fenced,
            replicas: 2,
            ..Default::default()
        };
        let listed =
            Listed { topic: "orders".to_owned(), replicas: vec![1, 2], states: vec!["offline"], ..Default::default() };
        let status = Status {
            problems: vec!["broker 2 is fenced".to_owned(), "2 partitions are offline".to_owned()],
            cluster_id: Some("abc".to_owned()),
            quorum: Some(QuorumStatus {
                leader: Some(1),
                epoch: 3,
                high_watermark: 12,
                voters: vec![Member { id: 1, log_end_offset: 12, caught_up_ms_ago: Some(0), ..Default::default() }],
                observers: vec![Member { id: 2, log_end_offset: 2, lag: 10, is_unheard: true, ..Default::default() }],
            }),
            brokers: vec![broker(1, "h1:9092", Some(false)), broker(2, "h2:9092", Some(true)), broker(3, "", None)],
            partitions: Counts {
                topics: 1,
                total: 2,
                offline: 2,
                not_well: 2,
                non_preferred_leaders: 1,
                ..Default::default()
            },
            listed: vec![listed],
            ..Default::default()
        };
        assert_eq!(
            render(&status),
            "\
UNHEALTHY: broker 2 is fenced; 2 partitions are offline
cluster id abc

quorum: led by 1, epoch 3, high watermark 12
NODE  ROLE      LOG-END-OFFSET  LAG  CAUGHT-UP
1     leader    12              0    0.0 s ago
2     observer  2               10   not heard of

BROKER  ADDRESS  RACK  STATE    LEADERS  PREFERRED  REPLICAS  OUT-OF-SYNC
1       h1:9092  -     active   0        0          2         0
2       h2:9092  -     fenced   0        0          2         0
3       -        -     missing  0        0          2         0

partitions: 2 in 1 topic
  2 offline, 0 under min ISR, 0 at min ISR, 0 under-replicated
  1 with a non-preferred leader (50.0 %): 'parshall partition elect --all' elects the preferred ones

TOPIC   PARTITION  LEADER  REPLICAS  ISR  MIN-ISR  STATE
orders  0          none    1,2       -    0        offline
... and 1 more; --all shows them
"
        );
        let stale = Status { is_last_known: true, ..Default::default() };
        assert!(render(&stale).contains("last heard\n\nBROKER"), "{}", render(&stale));
        let well = Status { is_healthy: true, ..Default::default() };
        assert!(render(&well).starts_with("the cluster is healthy\n\nBROKER"), "{}", render(&well));
    }
}
