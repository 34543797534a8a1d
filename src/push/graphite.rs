//! Graphite's plaintext protocol over TCP: a line for each series, with its labels as tags.

use std::fmt::Write;
use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Source;
use openmetrics::{Family, Labels};

/// The lines of a page. Buckets of histograms stay here: there are many, and Graphite does not know what they are.
fn lines(families: &[Family], source: &Source, now_ms: i64) -> String {
    let mut lines = String::new();
    for family in families {
        for sample in family.samples.iter().filter(|sample| sample.suffix != "_bucket" && sample.value.is_finite()) {
            let tags = tags(&sample.labels);
            let (prefix, name, suffix, node) = (source.prefix(), &family.name, &sample.suffix, source.node_id);
            let (value, now_s) = (sample.value, now_ms.div_euclid(1000));
            // Writing to a string does not fail.
            _ = writeln!(lines, "{prefix}{name}{suffix};node={node}{tags} {value} {now_s}");
        }
    }
    lines
}

/// Without what would end a tag or a line. A value may not be empty, nor begin with a tilde.
fn tags(labels: &Labels) -> String {
    let tag = |(name, value): &(String, String)| {
        let value: String =
            value.chars().map(|c| if ";~".contains(c) || c.is_whitespace() { '_' } else { c }).collect();
        format!(";{name}={}", if value.is_empty() { "_" } else { &value })
    };
    labels.iter().map(tag).collect()
}

/// Sends a page over a connection of its own.
pub(super) async fn push(address: &str, families: &[Family], source: &Source, now_ms: i64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(lines(families, source, now_ms).as_bytes()).await?;
    stream.shutdown().await
}
