//! Replicas of services.

pub(crate) use jaco_json::replica::json;
use jaco_json::replica::{OneByOne, ports};
use jaco_proto::v1::ReplicaInfo;
use jaco_sentences::replica::notes;
use serde_json::Value;

use super::json::image_with_digest;
use super::termination;
use crate::format::quantity::natural_order;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame, JsonLayout, Show};

/// The result of `jaco get replicas`.
#[derive(Debug)]
pub(crate) struct Replicas<'a>(pub(crate) &'a [ReplicaInfo]);

impl Show for Replicas<'_> {
    fn json(&self) -> Value {
        self.0.iter().map(json).collect()
    }

    fn json_text(&self, layout: JsonLayout) -> String {
        layout.text(&OneByOne(self.0))
    }

    fn text(&self, frame: &Frame) -> String {
        table(self.0, frame)
    }
}

/// Replicas as a table, in natural order of their ids.
pub(crate) fn table(replicas: &[ReplicaInfo], frame: &Frame) -> String {
    let mut head = vec!["REPLICA", "STATE", "NODE", "REVISION", "SINCE", "REASON"];
    if frame.detail == Detail::Wide {
        head.extend([
            "ADDRESS",
            "CONTAINER",
            "PORTS",
            "IMAGE",
            "SPEC",
            "FAILURES",
            "LAST TERMINATION",
        ]);
    }
    let mut table = Table::new(&head);
    let mut replicas: Vec<&ReplicaInfo> = replicas.iter().collect();
    replicas.sort_by(|a, b| natural_order(&a.id, &b.id));
    for replica in replicas {
        let mut row = vec![
            replica.id.clone(),
            replica.state.clone(),
            replica.node.clone(),
            revision(replica),
            time::ago(replica.since_ms, frame.now_ms),
            notes(replica, frame.now_ms),
        ];
        if frame.detail == Detail::Wide {
            let ports = ports(replica);
            let ports = ports.iter().map(|port| format!("{}→{}", port.address, port.container));
            let addresses = replica.addresses.iter().map(|address| address.address.as_str());
            row.extend([
                addresses.collect::<Vec<_>>().join(" "),
                replica.container_id.chars().take(12).collect(),
                ports.collect::<Vec<_>>().join(" "),
                image_with_digest(&replica.image, &replica.image_digest),
                replica.spec_hash.clone(),
                replica.consecutive_failures.to_string(),
                last_termination(replica, frame),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// The revision that it runs, if it is known.
fn revision(replica: &ReplicaInfo) -> String {
    if replica.revision == 0 { String::new() } else { replica.revision.to_string() }
}

/// The outcome and age of its last recorded termination.
fn last_termination(replica: &ReplicaInfo, frame: &Frame) -> String {
    let termination = replica.terminations.first();
    termination.map_or(String::new(), |last| {
        format!("{}, {}", termination::text(last), time::ago(last.at_ms, frame.now_ms))
    })
}
