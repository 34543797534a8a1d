//! `parshall recover`: how to go on with a node whose metadata is damaged.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use broker::recover::{self, Action, Node, Plan};
use configuration::BrokerConfig;
use configuration::load::{Sources, load};
use platform::Env;
use serde_json::{Value, json};

use super::output;
use super::serve::{all_of, config_file};

/// Go on with a node that does not start because its metadata is damaged or missing.
///
/// Says what is wrong and what would be done about it. With --confirm it is done. The partitions of the node are not
/// touched, and nothing is removed: what is replaced is renamed.
///
/// A node of several sets its metadata aside, and is sent that of the others when it starts; its partitions stay. The
/// others have to run: it is done when a leader of the metadata quorum answers that most voters follow without this
/// node. So one node is recovered at a time.
///
/// A node alone goes on with all that can be read of its metadata, and with the topics whose partitions are on its
/// disk. What was changed last may be lost: a topic that was created, a setting. A topic that only its partitions tell
/// of keeps all its records, until its settings are set again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  parshall recover --data-dir /var/lib/parshall
  parshall recover --data-dir /var/lib/parshall --confirm
  parshall recover --data-dir /var/lib/parshall --config /etc/parshall/server.properties --rejoin --confirm")]
pub(crate) struct Args {
    /// Directory of the data (the setting `log.dirs`)
    #[arg(long, value_name = "DIR", default_value = "parshall-data")]
    data_dir: PathBuf,
    /// Do it, rather than say what would be done
    #[arg(long)]
    confirm: bool,
    /// Say what would be done, which is what happens without --confirm too
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,
    /// The node is a cluster of its own, should nothing on its disk say so
    #[arg(long, conflicts_with = "rejoin")]
    alone: bool,
    /// The node is one of several, and the others have the metadata
    #[arg(long)]
    rejoin: bool,
    /// Ports between brokers of other nodes, where nothing on the disk says where those are
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', conflicts_with = "alone")]
    bootstrap_controller: Vec<String>,
    /// The configuration of the node, which says how nodes know each other; without, they are asked in plain text
    #[arg(long, value_name = "FILE", conflicts_with = "alone")]
    config: Option<PathBuf>,
    /// Rejoin others that cannot be asked. If most of them lack their metadata, that of the cluster is lost
    #[arg(long, conflicts_with_all = ["alone", "bootstrap_controller"])]
    without_quorum: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let env = Env::real();
    let dir = args.data_dir.display().to_string();
    if !env.disk.exists(&args.data_dir).with_context(|| format!("cannot read {dir}"))? {
        bail!("{dir} is not there; --data-dir names the directory of the node's data");
    }
    let _lock = recover::lock(&args.data_dir).await.context("the node has to be down")?;
    let config = args.config.as_deref().map(config).transpose()?;
    let node = match (args.alone, args.rejoin) {
        (true, _) => Node::Alone,
        (_, true) => Node::OneOfSeveral,
        _ => Node::Unknown,
    };
    let plan = recover::inspect(&*env.disk, &args.data_dir, node).with_context(|| format!("cannot recover {dir}"))?;
    if !args.json {
        describe(&plan);
    }
    let mut told = to_json(&plan);
    let is_needed = !matches!(plan.action, Action::Nothing);
    if is_needed && !args.without_quorum {
        let leader = plan.find_leader(&args.bootstrap_controller, config.as_ref()).await;
        let leader = leader.context("the metadata stays as it is; --without-quorum sets it aside all the same")?;
        told["leader"] = leader.into();
        if let Some(leader) = leader.filter(|_| !args.json) {
            println!("Node {leader} leads the metadata quorum, which goes on without this node");
        }
    }
    if is_needed && args.confirm {
        let kept_as = plan.carry_out(&*env.disk, env.clock.now_ms()).context("the metadata is not recovered")?;
        let kept_as = kept_as.map(|path| path.display().to_string());
        if !args.json {
            let kept =
                kept_as.as_ref().map_or_else(String::new, |path| format!(" What was damaged is kept in {path}."));
            println!("Done.{kept} Start the node now");
        }
        told["is_recovered"] = true.into();
        told["kept_as"] = kept_as.into();
    } else if is_needed && !args.json {
        println!("Nothing was changed. To do so: add --confirm");
    }
    if args.json {
        output::print_json(&told)?;
    }
    Ok(())
}

fn config(path: &Path) -> Result<BrokerConfig> {
    let sources = Sources { file: Some(config_file(path)?), ..Sources::default() };
    let loaded = load(sources).map_err(all_of);
    Ok(loaded.with_context(|| format!("{} is no configuration of a node", path.display()))?.config)
}

fn describe(plan: &Plan) {
    for line in &plan.trouble {
        println!("Damaged: {line}");
    }
    match &plan.action {
        Action::Nothing => println!("The metadata is whole: there is nothing to recover"),
        Action::Rejoin { .. } => {
            println!("The metadata is set aside; the node is sent that of the others when it starts");
        }
        Action::Rebuild(rebuild) => {
            println!(
                "The metadata is made anew from what can be read: {} topics, up to offset {} of {}",
                rebuild.known_topics,
                rebuild.end_offset,
                rebuild.end_offset.max(rebuild.durable_offset)
            );
            for (topic, partitions) in &rebuild.found_topics {
                println!("Found on the disk: {partitions} partitions of topic {topic}");
            }
            for directory in &rebuild.left_alone {
                println!("Left alone on the disk: {directory}");
            }
            if !rebuild.found_topics.is_empty() {
                println!("The settings of those topics are lost: they keep all records until retention.ms is set");
            }
        }
    }
}

/// What is wrong and what would be done about it. The rest says what was done, when it is.
fn to_json(plan: &Plan) -> Value {
    let action = match &plan.action {
        Action::Nothing => "nothing",
        Action::Rejoin { .. } => "rejoin",
        Action::Rebuild(_) => "rebuild",
    };
    let rebuild = match &plan.action {
        Action::Rebuild(rebuild) => json!({
            "known_topics": rebuild.known_topics, "end_offset": rebuild.end_offset,
            "durable_offset": rebuild.durable_offset, "found_topics": rebuild.found_topics,
            "left_alone": rebuild.left_alone,
        }),
        _ => Value::Null,
    };
    json!({
        "damages": plan.trouble, "action": action, "rebuild": rebuild, "leader": null, "is_recovered": false,
        "kept_as": null,
    })
}
