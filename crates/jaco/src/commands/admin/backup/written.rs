//! The result of `jaco backup`. Pure.

use std::path::PathBuf;

use jaco_backup::{Pruned, Summary};
use serde_json::{Value, json};

use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};

/// A complete backup.
pub(super) struct Written {
    pub(super) path: String,
    pub(super) summary: Summary,
    /// What was removed of its folder, if it has a retention.
    pub(super) pruned: Option<Pruned>,
}

impl Show for Written {
    fn json(&self) -> Value {
        let Summary { header, end, bytes, key } = &self.summary;
        let mut written = json!({
            "path": self.path,
            "bytes": bytes,
            "encrypted": key.is_some(),
            "cluster": header.cluster_name,
            "cluster_id": header.cluster_id,
            "raft_index": header.raft_index,
            "taken_at": time::rfc3339(header.taken_at_ms),
            "deployments": end.deployments,
            "named": end.named,
            "contents": end.contents,
        });
        if let Some(Pruned { kept, unchecked, removed, damaged }) = &self.pruned {
            let reason = |(path, reason): &(PathBuf, String)| json!({ "path": path.display().to_string(), "reason": reason });
            written["kept"] = paths(kept);
            written["unchecked"] = paths(unchecked);
            written["removed"] = paths(removed);
            written["damaged"] = damaged.iter().map(reason).collect();
        }
        written
    }

    fn text(&self, _: &Frame) -> String {
        let Summary { header, end, bytes, .. } = &self.summary;
        let columns = ["FILE", "BYTES", "CLUSTER", "INDEX", "DEPLOYMENTS", "NAMED", "CONTENTS"];
        let mut table = Table::new(&columns);
        table.row([
            self.path.clone(),
            bytes.to_string(),
            header.cluster_name.clone(),
            header.raft_index.to_string(),
            end.deployments.to_string(),
            end.named.to_string(),
            end.contents.to_string(),
        ]);
        table.render()
    }
}

fn paths(paths: &[PathBuf]) -> Value {
    paths.iter().map(|path| path.display().to_string()).collect()
}
