//! CPU and memory of brokers on other machines, from their Prometheus endpoints.
//!
//! The names are those that Prometheus' client libraries and Kafka's JMX exporter give to a process. Each endpoint is
//! scraped once a second; readers get the newest answer, so that a slow endpoint delays nothing.

use std::sync::Arc;
use std::time::Duration;

use openmetrics::Exposition;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::proc_probe::ProcessSample;

const CPU: &str = "process_cpu_seconds_total";
const MEMORY: &str = "process_resident_memory_bytes";
const INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);
/// A JMX exporter of a large cluster has some megabytes.
const PAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("{url} cannot be read: {reason}")]
    Read { url: String, reason: String },
    #[error("{url} has no {CPU}: is it the metrics page of a broker?")]
    NoFigures { url: String },
}

/// Endpoints that are scraped until this is dropped.
#[derive(Debug)]
pub(crate) struct Endpoints {
    samples: Arc<Mutex<Vec<Option<ProcessSample>>>>,
    asking: JoinHandle<()>,
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl Endpoints {
    /// Returns when each has answered once. The order of brokers is that of the URLs.
    pub(crate) async fn start(urls: &[String]) -> Result<Self, EndpointError> {
        let mut first = Vec::new();
        for url in urls {
            first.push(Some(ask(url.clone()).await?));
        }
        let samples = Arc::new(Mutex::new(first));
        let asking = tokio::spawn(keep_asking(urls.to_vec(), Arc::clone(&samples)));
        Ok(Self { samples, asking })
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
                Ok(sample) => samples.lock()[index] = Some(sample),
                // An endpoint that does not answer for a moment keeps its former answer.
                Err(error) => tracing::debug!(%error, "metrics"),
            }
        }
    }
}

async fn ask(url: String) -> Result<ProcessSample, EndpointError> {
    let answer = tokio::task::spawn_blocking(move || match page(&url) {
        Ok(page) => sample(&page).ok_or(EndpointError::NoFigures { url }),
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
fn sample(page: &Exposition) -> Option<ProcessSample> {
    let cpu_s = page.first(CPU).filter(|cpu_s| (0.0..1e12).contains(cpu_s))?;
    Some(ProcessSample {
        cpu: Duration::from_secs_f64(cpu_s),
        resident_bytes: page.first(MEMORY).unwrap_or(0.0) as u64,
        ..ProcessSample::default()
    })
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
        let sample = sample(&Exposition::new(PAGE.to_owned())).unwrap();
        assert_eq!((sample.cpu, sample.resident_bytes), (Duration::from_millis(12_500), 1 << 20));
        assert!(super::sample(&Exposition::new("up 1\n".to_owned())).is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_endpoint_is_asked_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for page in [PAGE, "up 1\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).unwrap();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
                stream.write_all((head + page).as_bytes()).unwrap();
            }
        });
        assert_eq!(ask(url.clone()).await.unwrap().resident_bytes, 1 << 20);
        assert!(matches!(ask(url).await, Err(EndpointError::NoFigures { .. })));
        let nobody = ask("http://127.0.0.1:1/".to_owned()).await;
        assert!(matches!(nobody, Err(EndpointError::Read { .. })));
    }
}
