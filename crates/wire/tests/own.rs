//! What Kafka does not have: its bytes, and that a reader who does not know a field of ours skips it.

mod common;

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use common::{OWN, recode};
use kafka_protocol::messages::{ApiKey, FetchRequest, FetchResponse, VotersRecord};
use kafka_protocol::protocol::Decodable;
use wire::api::alter_scram_keys::{AlterScramKeysRequest, AlterScramKeysResponse, ScramKeysUpsertion};
use wire::api::alter_user_scram_credentials::{AlterUserScramCredentialsResult, ScramCredentialDeletion};
use wire::api::confirm_sender::{ConfirmSenderRequest, ConfirmSenderResponse, NodeIdentity};
use wire::api::describe_node::{DescribeNodeRequest, DescribeNodeResponse, Rebalance};
use wire::api::forward::{ForwardRequest, ForwardResponse, ForwardedClient};
use wire::api::quorum_hello::{QuorumHelloRequest, QuorumHelloResponse};
use wire::api::quorum_join::{QuorumJoinRequest, QuorumJoinResponse, VoterNode};
use wire::api::quorum_messages::{QuorumEntry, QuorumMessage, QuorumMessagesRequest, QuorumMessagesResponse};
use wire::api::{self, fetch};
use wire::state::control;
use wire::{ErrorCode, Reader, Records, Secret, Uuid, Wire, Writer};

/// The only tag of ours: far from those that Kafka deals out from zero.
const TAG: i32 = 10_000;

fn written(message: &impl Wire, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    message.write(&mut Writer::new(&mut out, version, true));
    out.freeze()
}

fn read<T: Wire>(bytes: &Bytes, version: i16) -> T {
    T::read(&mut Reader::new(bytes, version, true)).unwrap()
}

/// The message has these bytes in the first version, they are read back, and no part of them is taken for the whole.
fn check<T: Wire + PartialEq + Debug>(message: &T, expected: &[u8]) {
    check_in(0, message, expected);
}

fn check_in<T: Wire + PartialEq + Debug>(version: i16, message: &T, expected: &[u8]) {
    let bytes = written(message, version);
    assert_eq!(bytes, expected);
    assert_eq!(&read::<T>(&bytes, version), message);
    for end in 0..bytes.len() {
        assert!(recode::<T>(&bytes.slice(..end), version, true).is_err(), "at {end}");
    }
}

const DIRECTORY: Uuid = Uuid([7; 16]);

fn node() -> VoterNode {
    VoterNode { node_id: 3, directory_id: DIRECTORY, host: "h3".into(), port: 0x2384 }
}

/// A node as it is on the wire; it begins with its id and its directory's.
const NODE: [u8; 26] = [0, 0, 0, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 3, b'h', b'3', 0x23, 0x84, 0];
const IDS: &[u8] = NODE.split_at(20).0;

fn sender() -> NodeIdentity {
    NodeIdentity { node_id: 3, directory_id: DIRECTORY, incarnation_id: Uuid([5; 16]) }
}

const SENDER: [u8; 37] =
    [0, 0, 0, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0];

#[test]
fn the_keys_of_our_own_are_above_all_of_kafkas() {
    let last = ApiKey::iter().map(|key| key as i16).max().unwrap();
    let own: Vec<_> = api::TABLE.iter().filter(|api| api.key > last).collect();
    assert!(own.iter().map(|api| api.key).eq(OWN));
    assert!(own.iter().all(|api| *api.versions.start() == 0 && api.flexible_since == 0));
}

#[test]
fn a_request_is_sent_on_to_the_controller() {
    let own = ForwardRequest {
        sender: sender(),
        api_key: 19,
        api_version: 7,
        body: Bytes::from_static(b"abc"),
        client: None,
    };
    let head = [SENDER.as_slice(), &[0, 19, 0, 7, 4, b'a', b'b', b'c']].concat();
    check(&own, &[&head[..], &[0]].concat());
    check_in(1, &own, &[&head[..], &[0xff, 0]].concat());
    let client = ForwardedClient { principal: "User:a".into(), address: "::1".into() };
    let of_client = ForwardRequest { client: Some(client), ..own };
    let client = [&[1, 7][..], b"User:a", &[4], b"::1", &[0]].concat();
    check_in(1, &of_client, &[&head[..], &client, &[0]].concat());
    let response = ForwardResponse {
        error_code: ErrorCode::NOT_CONTROLLER,
        metadata_offset: 9,
        body: Bytes::from_static(b"d"),
        is_client_denied: false,
    };
    let head = [0, 41, 0, 0, 0, 0, 0, 0, 0, 9, 2, b'd'];
    check(&response, &[&head[..], &[0]].concat());
    check_in(1, &ForwardResponse { is_client_denied: true, ..response }, &[&head[..], &[1, 0]].concat());
}

#[test]
fn keys_of_scram_are_sent_on_in_place_of_passwords() {
    let deletion = ScramCredentialDeletion { name: "a".into(), mechanism: 1 };
    let upsertion = ScramKeysUpsertion {
        name: "b".into(),
        mechanism: 2,
        iterations: 4096,
        salt: Bytes::from_static(b"s"),
        stored_key: Secret(Bytes::from_static(b"kk")),
        server_key: Secret(Bytes::from_static(b"v")),
    };
    let request = AlterScramKeysRequest { deletions: vec![deletion], upsertions: vec![upsertion] };
    let upserted = [2, b'b', 2, 0, 0, 16, 0, 2, b's', 3, b'k', b'k', 2, b'v', 0];
    check(&request, &[&[2, 2, b'a', 1, 0, 2][..], &upserted, &[0]].concat());
    let result = AlterUserScramCredentialsResult {
        user: "a".into(),
        error_code: ErrorCode(91),
        error_message: Some("m".into()),
    };
    check(&AlterScramKeysResponse { results: vec![result] }, &[2, 2, b'a', 0, 91, 2, b'm', 0, 0]);
}

#[test]
fn a_node_joins_the_quorum() {
    let request =
        QuorumJoinRequest { cluster_id: "c".into(), node: node(), incarnation_id: Uuid([5; 16]), wants_to_vote: true };
    check(&request, &[&[2, b'c'], &NODE[..], &[5; 16], &[1, 0]].concat());
    let response = QuorumJoinResponse { error_code: ErrorCode(6), leader_id: 2, leader_epoch: 9, error_message: None };
    check(&response, &[0, 6, 0, 0, 0, 0, 2, 0, 0, 0, 9, 0]);
    check(&QuorumJoinResponse::default(), &[&[0, 0, 0], &[0xff; 8][..], &[0]].concat());
}

#[test]
fn messages_of_the_quorum() {
    let change =
        QuorumEntry { term: 2, index: 3, batch: Bytes::from_static(b"ab"), change_type: 1, change_of: 1 << 60 };
    let append = QuorumMessage {
        message_type: 3,
        to: -1,
        from: 4,
        term: 5,
        log_term: 6,
        index: 7,
        commit: 8,
        commit_term: 9,
        reject_hint: 10,
        is_transfer: true,
        question: 11,
        entries: vec![change],
        ..QuorumMessage::default()
    };
    let request = QuorumMessagesRequest { cluster_id: "c".into(), sender: sender(), messages: vec![append] };
    let numbers: Vec<u8> = [-1i64, 4, 5, 6, 7, 8, 9].iter().flat_map(|number| number.to_be_bytes()).collect();
    let entry = [&2i64.to_be_bytes()[..], &3i64.to_be_bytes(), &[3, b'a', b'b', 1], &(1i64 << 60).to_be_bytes(), &[0]];
    let head =
        [&[2, b'c'][..], &SENDER, &[2, 3], &numbers, &[0], &10i64.to_be_bytes(), &[1], &11i64.to_be_bytes(), &[2]]
            .concat();
    check(&request, &[&head[..], &entry.concat(), &[1, 0, 0]].concat());
    check(&QuorumMessagesResponse { error_code: ErrorCode(3) }, &[0, 3, 0]);
}

#[test]
fn a_node_says_hello() {
    let request =
        QuorumHelloRequest { node_id: 3, directory_id: DIRECTORY, cluster_id: None, wants_confirmation: true };
    check_in(1, &request, &[IDS, &[0, 1, 0]].concat());
    let blank = QuorumHelloResponse { node_id: 3, directory_id: DIRECTORY, ..Default::default() };
    check_in(1, &blank, &[&[0, 0, 0], IDS, &[0, 1, 1], &[0xff; 20], &[0]].concat());
    let response = QuorumHelloResponse {
        cluster_id: Some("c".into()),
        voters: vec![node()],
        observers: vec![node(), node()],
        leader_id: 3,
        leader_epoch: 4,
        high_watermark: 5,
        own_epoch: 4,
        ..blank
    };
    let quorum = [0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0];
    check_in(1, &response, &[&[0, 0, 0], IDS, &[2, b'c', 2], &NODE, &[3], &NODE, &NODE, &quorum].concat());
}

#[test]
fn a_node_says_whether_a_request_was_its_own() {
    let request = ConfirmSenderRequest { cluster_id: "c".into(), sender: sender() };
    check(&request, &[&[2, b'c'], &SENDER[..], &[0]].concat());
    check(&ConfirmSenderResponse { error_code: ErrorCode(3) }, &[0, 3, 0]);
}

#[test]
fn a_node_tells_of_itself() {
    let request = DescribeNodeRequest { cluster_id: "c".into(), sender: sender() };
    check(&request, &[&[2, b'c'], &SENDER[..], &[0]].concat());
    let rebalance = Rebalance {
        began_ms: 9,
        group_id: "g".into(),
        generation: 4,
        members: 2,
        cause: "c".into(),
        member_id: "m".into(),
        client_id: String::new(),
        duration_ms: 7,
    };
    let page = DescribeNodeResponse { metrics: Bytes::from_static(b"# EOF"), ..Default::default() };
    check(&page, &[0, 0, 6, b'#', b' ', b'E', b'O', b'F', 1, 0]);
    let response = DescribeNodeResponse { error_code: ErrorCode(3), rebalances: vec![rebalance], ..Default::default() };
    let fields = [2, b'g', 0, 0, 0, 4, 0, 0, 0, 2, 2, b'c', 2, b'm', 1];
    check(&response, &[&[0, 3, 1, 2], &9i64.to_be_bytes()[..], &fields, &7i64.to_be_bytes(), &[0, 0]].concat());
}

#[test]
fn kafka_skips_how_far_a_follower_has_synced() {
    for version in 16..=18 {
        let partition = fetch::FetchPartition { fetch_offset: 5, synced_offset: 3, ..Default::default() };
        let topics = vec![fetch::FetchTopic { partitions: vec![partition], ..Default::default() }];
        let bytes = written(&fetch::FetchRequest { topics, ..Default::default() }, version);
        let ours: fetch::FetchRequest = read(&bytes, version);
        let theirs = FetchRequest::decode(&mut bytes.clone(), version).unwrap();
        let (ours, theirs) = (&ours.topics[0].partitions[0], &theirs.topics[0].partitions[0]);
        assert_eq!((ours.fetch_offset, theirs.fetch_offset), (5, 5));
        let tagged = theirs.unknown_tagged_fields.get(&TAG).map(|bytes| &bytes[..]);
        if version < 17 {
            assert_eq!((ours.synced_offset, tagged), (-1, None));
        } else {
            assert_eq!((ours.synced_offset, tagged), (3, Some(&3i64.to_be_bytes()[..])));
        }
    }
}

#[test]
fn kafka_skips_which_process_a_follower_is() {
    for version in 15..=18 {
        let state = fetch::ReplicaState { replica_id: 3, replica_epoch: 5, incarnation_id: DIRECTORY };
        let request = fetch::FetchRequest { replica_state: state.clone(), ..Default::default() };
        let bytes = written(&request, version);
        assert_eq!(read::<fetch::FetchRequest>(&bytes, version).replica_state, state);
        let theirs = FetchRequest::decode(&mut bytes.clone(), version).unwrap().replica_state;
        assert_eq!((theirs.replica_id.0, theirs.replica_epoch), (3, 5));
        assert_eq!(theirs.unknown_tagged_fields[&TAG], &DIRECTORY.0[..]);
    }
}

#[test]
fn kafka_skips_what_a_leader_says_of_the_disk() {
    for version in 12..=18 {
        let partition = fetch::PartitionData {
            high_watermark: 5,
            sync_wanted_offset: 3,
            durable_offset: 2,
            records: Some(Records::Inline(Bytes::new())),
            ..Default::default()
        };
        let responses = vec![fetch::FetchableTopicResponse { partitions: vec![partition], ..Default::default() }];
        let bytes = written(&fetch::FetchResponse { responses, ..Default::default() }, version);
        let ours: fetch::FetchResponse = read(&bytes, version);
        let own = &ours.responses[0].partitions[0];
        assert_eq!((own.sync_wanted_offset, own.durable_offset), (3, 2));
        let theirs = FetchResponse::decode(&mut bytes.clone(), version).unwrap();
        let theirs = &theirs.responses[0].partitions[0];
        assert_eq!((theirs.high_watermark, &theirs.unknown_tagged_fields[&TAG][..]), (5, &3i64.to_be_bytes()[..]));
    }
}

#[test]
fn kafka_skips_the_observers_of_the_quorum() {
    let member = |voter_id| control::RegisteredVoter {
        voter_id,
        voter_directory_id: DIRECTORY,
        endpoints: vec![control::Endpoint { name: "CONTROLLER".into(), host: "h".into(), port: 9093 }],
        kraft_version_feature: control::KRaftVersionFeature { min_supported_version: 0, max_supported_version: 1 },
    };
    let record = control::VotersRecord { version: 0, voters: vec![member(1)], observers: vec![member(2), member(3)] };
    let bytes = written(&record, 0);
    assert_eq!(read::<control::VotersRecord>(&bytes, 0), record);
    let theirs = VotersRecord::decode(&mut bytes.clone(), 0).unwrap();
    assert_eq!(theirs.voters.len(), 1);
    assert_eq!(theirs.unknown_tagged_fields[&TAG], written(&record.observers, 0));
}
