//! Who may do nothing: every API in every version refuses it, tells nothing, and changes nothing.
//!
//! The requests are those that Kafka's own classes have filled (crates/wire/tests/frames): each field of them has a
//! value, each array two elements.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::api::alter_configs::AlterConfigsRequest;
use wire::api::describe_configs::DescribeConfigsRequest;
use wire::api::describe_producers::DescribeProducersRequest;
use wire::api::describe_topic_partitions::DescribeTopicPartitionsRequest;
use wire::api::fetch::FetchRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::incremental_alter_configs::IncrementalAlterConfigsRequest;
use wire::api::{self, Request, Visitor};
use wire::{Reader, Uuid, Wire, Writer, frame};

use super::*;

/// APIs that need nothing, and what is answered to a request of them as it is here.
const OPEN: [i16; 4] = [17, 18, 36, 60];
/// APIs whose answers only leave out what may not be seen: ListGroups and ListTransactions.
const FILTERED: [i16; 2] = [16, 66];
/// DescribeLogDirs has no error before this version, and its answer is empty.
const LOG_DIRS_ERRORS_SINCE: (i16, i16) = (35, 3);
const GROUP_COORDINATOR: i8 = 0;
const TOPIC_CONFIGS: i8 = 2;
/// What says that something may not be done.
const DENIALS: [ErrorCode; 5] = [
    ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ErrorCode::GROUP_AUTHORIZATION_FAILED,
    ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    // Of an id that is not there. Ids cannot be guessed.
    ErrorCode::UNKNOWN_TOPIC_ID,
];

struct Filled {
    key: i16,
    version: i16,
    body: Bytes,
}

fn filled() -> Vec<Filled> {
    let frames = include_str!("../../../wire/tests/frames/frames.txt").lines();
    let filled = frames.filter_map(|line| {
        let [kind, name, version, variant, hex] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let api = api::TABLE.iter().find(|api| api.name == name)?;
        let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("it is hex"));
        let filled = Filled { key: api.key, version: version.parse().expect("a number"), body: bytes.collect() };
        (kind == "request" && variant == "filled").then_some(filled)
    });
    filled.collect()
}

/// What is sent and what comes of it, for the request type of an API.
struct Ask<'a> {
    client: &'a mut TestClient,
    filled: &'a Filled,
}

impl Visitor for Ask<'_> {
    /// The errors of the answer, and its size.
    type Output = Option<(Vec<ErrorCode>, usize)>;

    fn visit<R: Request>(self) -> Self::Output {
        let Filled { version, body, .. } = self.filled;
        let request = R::read(&mut Reader::new(body, *version, R::API.flexible(*version))).expect("Kafka wrote it");
        self.client.send(*version, &request);
        let answer = self.client.receive_frame()?;
        let response = frame::read_response::<R>(&answer, *version).expect("the answer is well-formed").1;
        let mut bytes = BytesMut::new();
        let mut writer = Writer::new(&mut bytes, *version, R::API.flexible(*version));
        response.write(&mut writer);
        Some((writer.take_errors(), answer.len()))
    }
}

/// Kafka's classes fill any number into a field. Some have to be others, or the request would be refused before anybody
/// asks who has sent it.
fn made_sensible(filled: Filled) -> Filled {
    match filled.key {
        1 => filled.with(|request: &mut FetchRequest| {
            (request.replica_id, request.replica_state.replica_id) = (-1, -1);
            (request.session_id, request.session_epoch) = (0, -1);
        }),
        3 => filled.with(|request: &mut MetadataRequest| {
            request.topics.iter_mut().flatten().for_each(|topic| topic.topic_id = Uuid::ZERO);
        }),
        10 => filled.with(|request: &mut FindCoordinatorRequest| request.key_type = GROUP_COORDINATOR),
        32 => filled.with(|request: &mut DescribeConfigsRequest| {
            request.resources.iter_mut().for_each(|resource| resource.resource_type = TOPIC_CONFIGS);
        }),
        33 => filled.with(|request: &mut AlterConfigsRequest| {
            request.resources.iter_mut().for_each(|resource| resource.resource_type = TOPIC_CONFIGS);
        }),
        44 => filled.with(|request: &mut IncrementalAlterConfigsRequest| {
            request.resources.iter_mut().for_each(|resource| resource.resource_type = TOPIC_CONFIGS);
        }),
        61 => filled.with(|request: &mut DescribeProducersRequest| {
            request.topics.iter_mut().for_each(|topic| topic.name = "t".to_owned());
        }),
        75 => filled.with(|request: &mut DescribeTopicPartitionsRequest| request.cursor = None),
        _ => filled,
    }
}

impl Filled {
    fn with<R: Request>(self, change: impl FnOnce(&mut R)) -> Self {
        let is_flexible = R::API.flexible(self.version);
        let mut request = R::read(&mut Reader::new(&self.body, self.version, is_flexible)).expect("Kafka wrote it");
        change(&mut request);
        let mut body = BytesMut::new();
        request.write(&mut Writer::new(&mut body, self.version, is_flexible));
        Self { body: body.freeze(), ..self }
    }
}

/// A broker whose only user that may do anything is `admin`, and that has a topic and a group.
fn guarded() -> TestBroker {
    let users = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"alice-secret\" \
                 user_admin=\"admin-secret\";";
    broker(&[
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
        ("listener.name.sasl_plaintext.plain.sasl.jaas.config", users),
    ])
}

#[test]
fn every_version_of_every_api_refuses_who_may_do_nothing() {
    let broker = guarded();
    let mut served: BTreeMap<i16, (i16, i16)> = BTreeMap::new();
    let mut client = broker.connect_to(1);
    log_in(&mut client, ALICE);
    let versions = api::api_versions::ApiVersionsRequest {
        client_software_name: "a".to_owned(),
        client_software_version: "1".to_owned(),
    };
    for api in client.call(4, &versions).api_keys {
        served.insert(api.api_key, (api.min_version, api.max_version));
    }
    let before = broker.metric("parshall_metadata_applied_offset");
    let (mut asked, mut wrong) = (BTreeMap::new(), Vec::new());
    for filled in filled().into_iter().map(made_sensible) {
        let Some((min, max)) = served.get(&filled.key) else { continue };
        if filled.version < *min || filled.version > *max || OPEN.contains(&filled.key) {
            continue;
        }
        let name = api::find(filled.key).expect("it is in the table").name;
        let what = format!("{name} {}", filled.version);
        let Some((errors, _)) =
            api::visit(filled.key, Ask { client: &mut client, filled: &filled }).expect("it is there")
        else {
            wrong.push(format!("{what} closes the connection"));
            client = broker.connect_to(1);
            log_in(&mut client, ALICE);
            continue;
        };
        let is_denied = errors.iter().all(|error| DENIALS.contains(error));
        let (log_dirs, since) = LOG_DIRS_ERRORS_SINCE;
        let is_silent = FILTERED.contains(&filled.key) || (filled.key == log_dirs && filled.version < since);
        if !is_denied || errors.is_empty() != is_silent {
            wrong.push(format!("{what} answers {errors:?}"));
        }
        *asked.entry(filled.key).or_insert(0) += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unasked: Vec<_> = served.keys().filter(|key| !OPEN.contains(key) && !asked.contains_key(key)).collect();
    assert!(unasked.is_empty(), "{unasked:?} have no filled request");
    assert_eq!(broker.metric("parshall_metadata_applied_offset"), before, "nothing was changed");
}
