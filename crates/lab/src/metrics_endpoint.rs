//! CPU and memory of brokers on other machines, from their Prometheus endpoints.
//!
//! Each endpoint is scraped once a second; readers get the newest answer, so that a slow endpoint delays nothing.

use std::sync::Arc;
use std::time::Duration;

use openmetrics::{Exposition, PROCESS_CPU_SECONDS};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::proc_probe::ProcessSample;

/// Has the id of a broker of ours as its label.
const BUILD: &str = "parshall_build";
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);
/// A JMX exporter of a large cluster has some megabytes.
const PAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("{url} cannot be read: {reason}")]
    Read { url: String, reason: String },
    #[error("{url} has no {PROCESS_CPU_SECONDS}: is it the metrics page of a broker?")]
    NoFigures { url: String },
    #[error("{url} is of broker {id}, as another URL is: give --metrics once for each broker")]
    SameBroker { url: String, id: i32 },
}

/// Endpoints that are scraped until this is dropped.
#[derive(Debug)]
pub(crate) struct Endpoints {
    samples: Arc<Mutex<Vec<Option<ProcessSample>>>>,
    /// Of each sample, where its page tells.
    broker_ids: Vec<Option<i32>>,
    asking: JoinHandle<()>,
}

/// What a page says.
#[derive(Clone, Copy, Debug)]
struct Answer {
    broker_id: Option<i32>,
    sample: ProcessSample,
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl Endpoints {
    /// Returns when each has answered once. Samples are in the order of the brokers' ids, those behind whose pages do
    /// not tell, in the order of the URLs.
    pub(crate) async fn start(urls: &[String]) -> Result<Self, EndpointError> {
        let mut first: Vec<(&String, Answer)> = Vec::new();
        for url in urls {
            let answer = ask(url.clone()).await?;
            let is_same = |(_, other): &(&String, Answer)| other.broker_id == answer.broker_id;
            if let Some(id) = answer.broker_id.filter(|_| first.iter().any(is_same)) {
                return Err(EndpointError::SameBroker { url: url.clone(), id });
            }
            first.push((url, answer));
        }
        first.sort_by_key(|(_, answer)| (answer.broker_id.is_none(), answer.broker_id));
        let urls = first.iter().map(|(url, _)| (*url).clone()).collect();
        let broker_ids = first.iter().map(|(_, answer)| answer.broker_id).collect();
        let samples = Arc::new(Mutex::new(first.iter().map(|(_, answer)| Some(answer.sample)).collect()));
        let asking = tokio::spawn(keep_asking(urls, Arc::clone(&samples)));
        Ok(Self { samples, broker_ids, asking })
    }

    pub(crate) fn broker_ids(&self) -> &[Option<i32>] {
        &self.broker_ids
    }

    pub(crate) fn samples(&self) -> Vec<Option<ProcessSample>> {
        self.samples.lock().clone()
    }
}

async fn keep_asking(urls: Vec<String>, samples: Arc<Mutex<Vec<Option<ProcessSample>>>>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        for (index, url) in urls.iter().enumerate() {
            match ask(url.clone()).await {
                Ok(answer) => samples.lock()[index] = Some(answer.sample),
                // An endpoint that does not answer for a moment keeps its former answer.
                Err(error) => tracing::debug!(%error, "metrics"),
            }
        }
    }
}

async fn ask(url: String) -> Result<Answer, EndpointError> {
    let answer = tokio::task::spawn_blocking(move || match page(&url) {
        Ok(page) => read(&page).ok_or(EndpointError::NoFigures { url }),
        Err(error) => Err(EndpointError::Read { url, reason: error.to_string() }),
    });
    answer.await.expect("reading a page does not panic")
}

fn page(url: &str) -> Result<Exposition, ureq::Error> {
    let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().new_agent();
    let text = agent.get(url).call()?.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string()?;
    Ok(Exposition::new(text))
}

/// What a page says about its process.
fn read(page: &Exposition) -> Option<Answer> {
    let sample = ProcessSample {
        cpu: Duration::from_secs_f64(page.process_cpu_seconds()?),
        resident_bytes: page.process_memory_bytes().unwrap_or(0.0) as u64,
        ..ProcessSample::default()
    };
    let broker_id = page.labelled(BUILD, ["node_id"]).next().and_then(|([id], _)| id.parse().ok());
    Some(Answer { broker_id, sample })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    const PAGE: &str = "\
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total_of_something_else 7
process_cpu_seconds_total 12.5
process_resident_memory_bytes{job=\"a } b\"} 1.048576e+06 1700000000
";

    #[test]
    fn a_page_tells_of_its_process() {
        let Answer { broker_id, sample } = read(&Exposition::new(PAGE.to_owned())).unwrap();
        assert_eq!((sample.cpu, sample.resident_bytes), (Duration::from_millis(12_500), 1 << 20));
        assert_eq!(broker_id, None);
        let ours = format!("{PAGE}parshall_build{{version=\"0.1.0\",node_id=\"7\"}} 1\n");
        assert_eq!(read(&Exposition::new(ours)).unwrap().broker_id, Some(7));
        assert!(read(&Exposition::new("up 1\n".to_owned())).is_none());
    }

    /// The URL of a server that gives each of these pages once, and then none.
    fn server(pages: Vec<String>) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for page in pages {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).unwrap();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
                stream.write_all((head + &page).as_bytes()).unwrap();
            }
        });
        url
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_endpoint_is_asked_at_once() {
        let url = server(vec![PAGE.to_owned(), "up 1\n".to_owned()]);
        assert_eq!(ask(url.clone()).await.unwrap().sample.resident_bytes, 1 << 20);
        assert!(matches!(ask(url).await, Err(EndpointError::NoFigures { .. })));
        let nobody = ask("http://127.0.0.1:1/".to_owned()).await;
        assert!(matches!(nobody, Err(EndpointError::Read { .. })));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn samples_are_in_the_order_of_the_brokers_whatever_that_of_the_urls_is() {
        let page = |id: &str, cpu_s: u32| {
            server(vec![format!("parshall_build{{node_id=\"{id}\"}} 1\nprocess_cpu_seconds_total {cpu_s}\n")])
        };
        let endpoints = Endpoints::start(&[page("", 5), page("3", 30), page("1", 10)]).await.unwrap();
        assert_eq!(endpoints.broker_ids(), [Some(1), Some(3), None]);
        let cpu_s: Vec<_> = endpoints.samples().iter().map(|sample| sample.unwrap().cpu.as_secs()).collect();
        assert_eq!(cpu_s, [10, 30, 5]);
        let error = Endpoints::start(&[page("1", 5), page("1", 5)]).await.unwrap_err().to_string();
        assert!(error.ends_with("is of broker 1, as another URL is: give --metrics once for each broker"), "{error}");
    }
}
