//! Whom the quotas of a cluster have throttled, as its brokers tell: each counts for itself.

use std::collections::{BTreeMap, HashMap};

use client::{QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, QuotaEntity};
use openmetrics::Exposition;

use crate::snapshot::Snapshot;

/// The labels of quota and client, and of which kinds the latter are.
const LABELS: [&str; 4] = ["quota", "user", "client_id", "ip"];
const KINDS: [&str; 3] = [QUOTA_USER, QUOTA_CLIENT_ID, QUOTA_IP];

/// Somebody who was throttled within the last hour.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ThrottledClient {
    pub entity: QuotaEntity,
    /// The key of the quota.
    pub quota: String,
    /// Requests and connections.
    pub count: f64,
    pub seconds: f64,
    /// Since they were throttled last.
    pub age_seconds: f64,
    /// Where they were throttled.
    pub brokers: Vec<i32>,
}

/// Those of all brokers, who last were first. Nobody where the brokers do not tell.
pub(crate) fn throttled_clients(snapshot: &Snapshot) -> Vec<ThrottledClient> {
    let pages = snapshot.brokers.values().filter_map(|broker| Some((broker.id, &broker.own_figures()?.page)));
    of_pages(pages)
}

fn of_pages<'a>(pages: impl Iterator<Item = (i32, &'a Exposition)>) -> Vec<ThrottledClient> {
    let mut clients = BTreeMap::<[String; 4], ThrottledClient>::new();
    for (broker, page) in pages {
        let all = |name| page.labelled(name, LABELS);
        let seconds: HashMap<_, _> = all("parshall_quota_client_throttle_seconds_total").collect();
        let ages: HashMap<_, _> = all("parshall_quota_client_throttle_age_seconds").collect();
        for (labels, count) in all("parshall_quota_client_throttles_total") {
            let seconds = seconds.get(&labels).copied().unwrap_or(0.0);
            let age_seconds = ages.get(&labels).copied().unwrap_or(f64::INFINITY);
            let client = clients.entry(labels).or_insert_with_key(|[quota, names @ ..]| {
                let names = KINDS.into_iter().zip(names).filter(|(_, name)| !name.is_empty());
                ThrottledClient {
                    entity: QuotaEntity(names.map(|(kind, name)| (kind.to_owned(), Some(name.clone()))).collect()),
                    quota: quota.clone(),
                    count: 0.0,
                    seconds: 0.0,
                    age_seconds: f64::INFINITY,
                    brokers: Vec::new(),
                }
            });
            client.count += count;
            client.seconds += seconds;
            client.age_seconds = client.age_seconds.min(age_seconds);
            client.brokers.push(broker);
        }
    }
    let mut clients: Vec<_> = clients.into_values().collect();
    clients.sort_by(|a, b| a.age_seconds.total_cmp(&b.age_seconds));
    clients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_one_however_many_brokers_throttle_it() {
        let page = |client_id: &str, count: f64, seconds: f64, age: f64| {
            let labels = format!("{{quota=\"producer_byte_rate\",user=\"alice\",client_id=\"{client_id}\",ip=\"\"}}");
            format!(
                "parshall_quota_client_throttles_total{labels} {count}\n\
                 parshall_quota_client_throttle_seconds_total{labels} {seconds}\n\
                 parshall_quota_client_throttle_age_seconds{labels} {age}\n"
            )
        };
        let first = Exposition::new(page("a", 3.0, 1.5, 60.0) + &page("b\\\"", 1.0, 0.5, 30.0));
        let second = Exposition::new(page("a", 4.0, 2.0, 10.0));
        let clients = of_pages([(1, &first), (2, &second), (3, &Exposition::new(String::new()))].into_iter());
        let told: Vec<_> = clients
            .iter()
            .map(|of| (of.entity.to_string(), of.count, of.seconds, of.age_seconds, of.brokers.as_slice()))
            .collect();
        let expected = [
            ("user \"alice\", client-id \"a\"".to_owned(), 7.0, 3.5, 10.0, &[1, 2][..]),
            ("user \"alice\", client-id \"b\\\"\"".to_owned(), 1.0, 0.5, 30.0, &[1]),
        ];
        assert_eq!(told, expected);
        assert!(clients.iter().all(|of| of.quota == "producer_byte_rate"));
    }
}
