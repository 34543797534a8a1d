//! StatsD over UDP: gauges as they are, and by how much counters have grown, with labels as Datadog's tags.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::net::{UdpSocket, lookup_host};

use super::Source;
use openmetrics::{Family, Kind, Labels};

/// What a packet may carry without being taken apart on a network with the usual frames.
const PACKET_BYTES: usize = 1432;

/// What was sent of counters so far.
#[derive(Default)]
pub(super) struct Sent(HashMap<String, f64>);

impl Sent {
    /// The lines of a page, and what is sent when they are. A counter that has not grown has no line. Buckets of
    /// histograms stay here: whoever sends them cannot say what they are.
    fn lines(&self, families: &[Family], source: &Source) -> (Vec<String>, Self) {
        let (mut lines, mut sent) = (Vec::new(), Self::default());
        for family in families {
            for sample in family.samples.iter().filter(|sample| sample.suffix != "_bucket" && sample.value.is_finite())
            {
                let name = format!("{}{}{}", source.prefix(), family.name, sample.suffix);
                let (tags, value) = (tags(source, &sample.labels), sample.value);
                if family.kind == Kind::Gauge {
                    // A value with a sign would be taken for a change.
                    if value < 0.0 {
                        lines.push(format!("{name}:0|g|{tags}"));
                    }
                    lines.push(format!("{name}:{value}|g|{tags}"));
                    continue;
                }
                let series = format!("{name}|{tags}");
                let grown = value - self.0.get(&series).copied().unwrap_or(0.0);
                if grown > 0.0 {
                    lines.push(format!("{name}:{grown}|c|{tags}"));
                }
                sent.0.insert(series, value);
            }
        }
        (lines, sent)
    }

    /// Sends a page. What a network loses is lost.
    pub(super) async fn push(&mut self, address: &str, families: &[Family], source: &Source) -> io::Result<()> {
        let (lines, sent) = self.lines(families, source);
        let to = lookup_host(address).await?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let from: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((from, 0)).await?;
        socket.connect(to).await?;
        for packet in packets(&lines) {
            socket.send(packet.as_bytes()).await?;
        }
        *self = sent;
        Ok(())
    }
}

/// Without what has a meaning in a line.
fn tags(source: &Source, labels: &Labels) -> String {
    let mut tags = format!("#node:{}", source.node_id);
    for (name, value) in labels {
        tags.extend([",", name.as_str(), ":"]);
        tags.extend(value.chars().map(|c| if "|,:#@".contains(c) || c.is_whitespace() { '_' } else { c }));
    }
    tags
}

/// Lines together, as many as there is room for; one that is too long goes alone.
fn packets(lines: &[String]) -> Vec<String> {
    let mut packets: Vec<String> = Vec::new();
    for line in lines {
        match packets.last_mut().filter(|packet| packet.len() + line.len() < PACKET_BYTES) {
            Some(packet) => packet.extend(["\n", line]),
            None => packets.push(line.clone()),
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use openmetrics::Exposition;

    use super::*;

    const SOURCE: Source = Source { node_id: 3, prefix: String::new() };

    #[test]
    fn counters_are_sent_by_what_they_have_grown() {
        let page = |requests: f64, leader: i32| {
            let text = format!(
                "# TYPE r counter\nr_total{{api=\"a|b\"}} {requests}\n# TYPE g gauge\ng {leader}\n\
                 # TYPE h histogram\nh_sum 0.5\nh_count 2\nh_bucket{{le=\"+Inf\"}} 2\n"
            );
            Exposition::new(text).families()
        };
        let (lines, sent) = Sent::default().lines(&page(5.0, -1), &SOURCE);
        let first = ["r_total:5|c|#node:3,api:a_b", "g:0|g|#node:3", "g:-1|g|#node:3", "h_sum:0.5|c|#node:3"];
        assert_eq!(lines, [&first[..], &["h_count:2|c|#node:3"]].concat());
        let prefixed = Source { prefix: "kafka".to_owned(), ..SOURCE };
        assert_eq!(Sent::default().lines(&page(5.0, 1), &prefixed).0[1], "kafka.g:1|g|#node:3");
        let (lines, sent) = sent.lines(&page(7.5, 2), &SOURCE);
        assert_eq!(lines, ["r_total:2.5|c|#node:3,api:a_b", "g:2|g|#node:3"]);
        assert_eq!(sent.lines(&page(7.5, 2), &SOURCE).0, ["g:2|g|#node:3"]);
    }

    #[test]
    fn packets_are_filled_up() {
        let lines: Vec<_> = [700, 731, 1, 5000, 3].iter().map(|length| "x".repeat(*length)).collect();
        let lengths: Vec<_> = packets(&lines).iter().map(String::len).collect();
        assert_eq!(lengths, [1432, 1, 5000, 3]);
    }
}
