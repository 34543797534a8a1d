//! How long a decision by access control lists takes, and how long one more takes to become a part of the image, as
//! their number grows.
//!
//! `cargo bench -p parshall-metadata --bench acls`. It takes some seconds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use configuration::BrokerConfig;
use metadata::MetadataImage;
use metadata::acl::{AclOperation, Authorizer, Requester, ResourceType};
use wire::Uuid;
use wire::state::metadata::{AccessControlEntryRecord, MetadataRecord};

/// Every tenth ACL is about a prefix of topics, and names a team; the others are about one topic each.
const PREFIXES: usize = 10;
const PRINCIPALS: usize = 5_000;
const DECISIONS: usize = 100_000;

fn record(n: usize) -> AccessControlEntryRecord {
    let mut id = [0; 16];
    // In no order.
    id[..8].copy_from_slice(&(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let is_prefix = n.is_multiple_of(PREFIXES);
    AccessControlEntryRecord {
        id: Uuid(id),
        resource_type: 2,
        resource_name: if is_prefix { format!("team-{n}.") } else { format!("team-{}.orders-{n}", n - n % PREFIXES) },
        pattern_type: if is_prefix { 4 } else { 3 },
        principal: format!("User:service-{}", n % PRINCIPALS),
        host: "*".to_owned(),
        operation: 3,
        permission_type: 3,
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let done = work();
    (done, started.elapsed())
}

fn by(principal: &str) -> Requester<'_> {
    Requester { principal, address: [10, 0, 0, 1].into() }
}

fn main() {
    let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let settings = [("authorizer.class.name".to_owned(), class.to_owned())];
    let config = BrokerConfig::new(settings.into()).expect("the setting is good");
    let authorizer = Authorizer::new(&config).expect("there is one");
    println!("| ACLs | load, ms | one more, us | allowed, us | denied, us | unknown name, us | any topic, us |");
    println!("|{}", " ---: |".repeat(7));
    for count in [100, 1_000, 10_000, 100_000, 250_000] {
        let records: Vec<MetadataRecord> = (0..count).map(|n| record(n).into()).collect();
        let (image, load) = timed(|| MetadataImage::default().apply(&records, 0, 1).expect("they fit").0);
        let more: MetadataRecord = record(count + 1).into();
        let (_, one_more) = timed(|| image.apply(std::slice::from_ref(&more), 1, 1).expect("it fits"));
        let questions: Vec<(String, String, String)> = (0..DECISIONS)
            .map(|n| {
                let AccessControlEntryRecord { resource_name, principal, .. } = record(n.wrapping_mul(7_919) % count);
                let other = format!("User:service-{}", (n + 1) % PRINCIPALS);
                (resource_name, principal, other)
            })
            .collect();
        let each = |decide: &dyn Fn(&(String, String, String)) -> bool| {
            let (_, time) = timed(|| questions.iter().filter(|question| black_box(decide(question))).count());
            time.as_secs_f64() * 1e6 / DECISIONS as f64
        };
        let ask = |principal: &str, name: &str| {
            authorizer.authorize(Some(image.acls()), by(principal), AclOperation::Read, ResourceType::Topic, name)
        };
        let allowed = each(&|(name, principal, _)| ask(principal, name).is_allowed());
        let denied = each(&|(name, _, other)| ask(other, name).is_allowed());
        let unknown = each(&|(name, principal, _)| ask(principal, &name[1..]).is_allowed());
        let any = each(&|(_, principal, _)| {
            let (write, topic) = (AclOperation::Write, ResourceType::Topic);
            authorizer.authorize_any(Some(image.acls()), by(principal), write, topic).is_allowed()
        });
        let (load, one_more) = (load.as_secs_f64() * 1e3, one_more.as_secs_f64() * 1e6);
        println!("| {count} | {load:.1} | {one_more:.0} | {allowed:.2} | {denied:.2} | {unknown:.2} | {any:.2} |");
    }
}
