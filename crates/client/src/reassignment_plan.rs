//! Plans of moves, in the JSON that `kafka-reassign-partitions.sh` writes and reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::TopicPartition;

const VERSION: i32 = 1;
/// In place of a log directory: the broker chooses.
const ANY_LOG_DIR: &str = "any";

/// The replicas that partitions shall have, the preferred leader first.
pub type ReassignmentPlan = BTreeMap<TopicPartition, Vec<i32>>;

#[derive(Deserialize)]
struct File {
    #[serde(default = "version")]
    version: i32,
    partitions: Vec<FilePartition>,
}

#[derive(Deserialize, Serialize)]
struct FilePartition {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
    #[serde(default, skip_serializing)]
    log_dirs: Vec<String>,
}

fn version() -> i32 {
    VERSION
}

/// Reads a plan, or says what is wrong with it. Whether its partitions and brokers exist is for the caller to see.
pub fn read_reassignment_plan(text: &[u8]) -> Result<ReassignmentPlan, String> {
    let file: File =
        serde_json::from_slice(text).map_err(|error| format!("that is no plan as Kafka's tool writes it: {error}"))?;
    if file.version != VERSION {
        return Err(format!("a plan has version {VERSION}, and not {}", file.version));
    }
    let mut plan = ReassignmentPlan::new();
    for FilePartition { topic, partition, replicas, log_dirs } in file.partitions {
        let of = TopicPartition::new(topic, partition);
        if replicas.is_empty() {
            return Err(format!("{of} has no replicas in the plan"));
        }
        let mut seen = replicas.iter().enumerate();
        if let Some((_, id)) = seen.find(|(at, id)| replicas[..*at].contains(id)) {
            return Err(format!("{of} shall be on broker {id} twice"));
        }
        if log_dirs.iter().any(|dir| dir != ANY_LOG_DIR) {
            return Err(format!("{of} has log_dirs: replicas are moved to brokers here, and not to directories"));
        }
        if plan.contains_key(&of) {
            return Err(format!("{of} is in the plan twice"));
        }
        plan.insert(of, replicas);
    }
    Ok(plan)
}

/// As Kafka's tool reads it, one partition in each line.
pub fn write_reassignment_plan(plan: &ReassignmentPlan) -> String {
    let lines = plan.iter().map(|(of, replicas)| {
        let (topic, partition) = (of.topic.clone(), of.partition);
        let line = FilePartition { topic, partition, replicas: replicas.clone(), log_dirs: Vec::new() };
        serde_json::to_string(&line).unwrap_or_default()
    });
    format!("{{\"version\":{VERSION},\"partitions\":[\n{}\n]}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_those_of_kafkas_tool() {
        let text = br#"{"version":1,"partitions":[
            {"topic":"t","partition":1,"replicas":[2,3],"log_dirs":["any","any"]},
            {"topic":"t","partition":0,"replicas":[1]}
        ]}"#;
        let plan = read_reassignment_plan(text).unwrap();
        assert_eq!(plan, [(TopicPartition::new("t", 0), vec![1]), (TopicPartition::new("t", 1), vec![2, 3])].into());
        assert_eq!(read_reassignment_plan(write_reassignment_plan(&plan).as_bytes()), Ok(plan));
        let one = r#"{"topic":"t","partition":0,"replicas":[1]}"#;
        for (wrong, part) in [
            ("{}".to_owned(), "no plan"),
            (r#"{"version":2,"partitions":[]}"#.to_owned(), "version 1, and not 2"),
            (format!(r#"{{"partitions":[{}]}}"#, one.replace("[1]", "[1,2,1]")), "t-0 shall be on broker 1 twice"),
            (format!(r#"{{"partitions":[{}]}}"#, one.replace("[1]", "[]")), "no replicas"),
            (format!(r#"{{"partitions":[{one},{one}]}}"#), "t-0 is in the plan twice"),
        ] {
            let error = read_reassignment_plan(wrong.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
