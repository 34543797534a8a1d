//! What a request costs is bounded by what it is: for every API, version and array, many equal elements cost no more
//! than a small multiple of their bytes, in memory and in the answer. An API that is added is tried without being named
//! here; one whose work grows with the square of its elements does not answer in time.

#![allow(clippy::disallowed_methods)]

#[path = "../common/mod.rs"]
mod common;

mod values;

use bytes::BytesMut;
use wire::api::{self, Request, Visitor};
use wire::frame;
use wire::sample::{Sampler, Values};

use common::{TestBroker, TestClient};
use values::{Fixture, Variant};

/// How many bytes of an answer a byte of a request may have.
const ANSWER_PER_BYTE: usize = 50;
/// What any request may ask for: all settings of a broker, or the group with large members that the test has.
const ANSWER_BYTES: usize = 1024 * 1024;
/// How many bytes of memory a byte of a request may take, of the broker and of this client together.
const MEMORY_PER_BYTE: usize = 150;
const MEMORY_BYTES: usize = 32 * 1024 * 1024;
/// A request frame other than Produce may have 8 MiB.
const REQUEST_BYTES_MAX: usize = 7 * 1024 * 1024;
/// All but the newest version are tried with so many elements, and of what is most usual.
const FEW_ELEMENTS: usize = 1_000;
/// The newest version is tried with so many, as far as the API allows.
const MANY_ELEMENTS: usize = 100_000;

/// Requests of one API.
struct Trial<'a> {
    fixture: &'a Fixture,
    broker: &'a TestBroker,
    problems: &'a mut Vec<String>,
}

impl Visitor for Trial<'_> {
    type Output = ();

    fn visit<R: Request>(mut self) {
        for version in R::API.versions {
            let is_newest = version == *R::API.versions.end();
            for variant in Variant::ALL.into_iter().filter(|variant| is_newest || *variant == Variant::Topics) {
                let values = self.fixture.values(R::API.key, variant);
                for array in 0..arrays::<R>(version, &values) {
                    self.array::<R>(version, &values, array);
                }
            }
        }
    }
}

impl Trial<'_> {
    fn array<R: Request>(&mut self, version: i16, values: &dyn Values, array: usize) {
        let (one, two) = (size::<R>(version, values, array, 1), size::<R>(version, values, array, 2));
        let most = (REQUEST_BYTES_MAX / (two - one)).min(R::API.elements_max - 100).min(MANY_ELEMENTS);
        self.request::<R>(version, values, array, 1);
        self.request::<R>(version, values, array, FEW_ELEMENTS.min(most));
        if version == *R::API.versions.end() {
            self.request::<R>(version, values, array, most);
        }
    }

    fn request<R: Request>(&mut self, version: i16, values: &dyn Values, array: usize, count: usize) {
        let request = written::<R>(version, values, array, count);
        let before = begin_to_measure();
        let mut client = self.broker.connect();
        client.send_bytes(&request);
        let answer = client.receive_frame().map(|answer| answer.len());
        let memory = peak_memory_bytes().saturating_sub(before);
        let bytes = request.len();
        let name = format!("{} version {version}, array {array} with {count} elements", R::API.name);
        // A client that says so much in so little is not served.
        if answer.is_none() && count <= FEW_ELEMENTS {
            self.problems.push(format!("{name}: no answer to {bytes} bytes"));
        }
        let answer = answer.unwrap_or(0);
        if answer > ANSWER_BYTES + ANSWER_PER_BYTE * bytes {
            self.problems.push(format!("{name}: an answer of {answer} bytes to {bytes}"));
        }
        if memory > MEMORY_BYTES + MEMORY_PER_BYTE * bytes {
            self.problems.push(format!("{name}: {memory} bytes of memory for {bytes}"));
        }
    }
}

fn arrays<R: Request>(version: i16, values: &dyn Values) -> usize {
    let mut sampler = Sampler::new(version, values, 0, 1);
    R::sample(&mut sampler);
    sampler.arrays()
}

fn written<R: Request>(version: i16, values: &dyn Values, array: usize, count: usize) -> BytesMut {
    let mut out = BytesMut::new();
    frame::write_request(&mut out, version, 1, "test", &R::sample(&mut Sampler::new(version, values, array, count)));
    out
}

fn size<R: Request>(version: i16, values: &dyn Values, array: usize, count: usize) -> usize {
    written::<R>(version, values, array, count).len()
}

/// Forgets the most memory that this process has held, and says what it holds now.
fn begin_to_measure() -> usize {
    std::fs::write("/proc/self/clear_refs", "5").expect("the process may see to its own counters");
    status_bytes("VmRSS:")
}

/// The most memory that this process has held since.
fn peak_memory_bytes() -> usize {
    status_bytes("VmHWM:")
}

fn status_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line is there");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("it is a number") * 1024
}

/// The APIs that a client is served.
fn served(client: &mut TestClient) -> Vec<i16> {
    let answer = client.ask(&api::api_versions::ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
    });
    answer.api_keys.iter().map(|api| api.api_key).collect()
}

#[test]
fn equal_elements_cost_a_small_multiple_of_their_bytes() {
    let broker = TestBroker::start();
    let fixture = Fixture::make(&broker);
    let mut problems = Vec::new();
    let served = served(&mut broker.connect());
    assert!(served.len() > 30);
    for key in served {
        let trial = Trial { fixture: &fixture, broker: &broker, problems: &mut problems };
        api::visit(key, trial).expect("what is served is in the table");
    }
    assert!(problems.is_empty(), "{} of:\n{}", problems.len(), problems.join("\n"));
}
