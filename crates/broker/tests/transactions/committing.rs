//! Records of transactions that are committed and aborted, in each protocol.

use super::*;

#[test]
fn records_are_read_when_their_transaction_has_committed() {
    for protocol in ALL {
        let broker = start(&[]);
        let mut client = broker.connect();
        let mut producer = Producer::start(&mut client, "id", protocol);
        producer.write(&mut client, 0, &["a", "b"]);
        producer.write(&mut client, 1, &["c"]);
        producer.write(&mut client, 0, &["d"]);
        for partition in [0, 1] {
            let data = fetch(&mut client, partition, READ_COMMITTED);
            assert_eq!((data.last_stable_offset, records(&data)), (0, Vec::new()), "{protocol:?}");
            assert_eq!(data.aborted_transactions, Some(Vec::new()), "{protocol:?}");
        }
        assert_eq!(read(&mut client, 0, READ_UNCOMMITTED), ["a", "b", "d"]);
        assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
        let of_it = |values: &[&str]| values.iter().map(|value| (producer.producer_id, (*value).to_owned())).collect();
        assert_eq!(read_when_stable(&mut client, 0), (of_it(&["a", "b", "d"]), Vec::new()), "{protocol:?}");
        assert_eq!(read_when_stable(&mut client, 1), (of_it(&["c"]), Vec::new()), "{protocol:?}");
    }
}

#[test]
fn an_aborted_transaction_is_named_to_consumers_of_committed_records() {
    for protocol in ALL {
        let broker = start(&[]);
        let mut client = broker.connect();
        let mut producer = Producer::start(&mut client, "id", protocol);
        let mut other = Producer::start(&mut client, "other", protocol);
        producer.write(&mut client, 0, &["a"]);
        assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
        other.write(&mut client, 0, &["x"]);
        producer.write(&mut client, 0, &["b", "c"]);
        assert_eq!(producer.end(&mut client, false), ErrorCode::NONE);
        producer.write(&mut client, 0, &["d"]);
        assert_eq!(producer.end(&mut client, true), ErrorCode::NONE);
        assert_eq!(other.end(&mut client, true), ErrorCode::NONE);
        // Offsets 0 a, 1 marker, 2 x, 3 b, 4 c.
        let (read, aborted) = read_when_stable(&mut client, 0);
        let values: Vec<_> = read.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["a", "x", "b", "c", "d"], "{protocol:?}");
        assert_eq!(aborted, [(producer.producer_id, 3)], "{protocol:?}");
        assert_eq!(fetch(&mut client, 0, READ_UNCOMMITTED).aborted_transactions, None);
    }
}

#[test]
fn an_open_transaction_outlives_a_restart() {
    for protocol in ALL {
        let mut broker = start(&[]);
        let mut client = broker.connect();
        let mut producer = Producer::start(&mut client, "id", protocol);
        producer.write(&mut client, 0, &["a"]);
        broker.restart();
        let mut client = broker.connect();
        find_coordinator(&mut client, "id");
        assert_eq!(read(&mut client, 0, READ_COMMITTED), [""; 0], "{protocol:?}");
        producer.write(&mut client, 0, &["b"]);
        producer.write(&mut client, 1, &["c"]);
        assert_eq!(producer.end(&mut client, true), ErrorCode::NONE, "{protocol:?}");
        assert_eq!(read_when_stable(&mut client, 0).0.len(), 2);
        assert_eq!(read_when_stable(&mut client, 1).0.len(), 1);
    }
}

#[test]
fn transactions_of_many_producers_are_apart() {
    let broker = start(&[]);
    let mut client = broker.connect();
    let mut producers: Vec<_> =
        (0..30).map(|index| Producer::start(&mut client, &format!("id-{index}"), ALL[index % 3])).collect();
    for round in 0..3 {
        for producer in &mut producers {
            let value = format!("{}/{round}", producer.id);
            producer.write(&mut client, 0, &[&value]);
            producer.write(&mut client, 1, &[&value]);
        }
        for (index, producer) in producers.iter_mut().enumerate() {
            assert_eq!(producer.end(&mut client, (index + round) % 2 == 0), ErrorCode::NONE);
        }
    }
    for partition in [0, 1] {
        let (read, aborted) = read_when_stable(&mut client, partition);
        assert_eq!((read.len(), aborted.len()), (90, 45));
        // Every producer has committed and aborted by turns.
        for (index, producer) in producers.iter().enumerate() {
            let told = aborted.iter().filter(|(producer_id, _)| *producer_id == producer.producer_id).count();
            assert_eq!(told, 1 + index % 2, "{index}");
        }
    }
}
