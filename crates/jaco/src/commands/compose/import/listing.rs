//! What can be imported, as a table and as JSON.

use serde_json::{Value, json};

use crate::format::table::Table;
use crate::import::{Listed, Origin, Running};
use crate::output::{Frame, Show};

pub(super) struct Listing(pub(super) Listed);

impl Listing {
    fn rows(&self) -> impl Iterator<Item = (Origin, &String, &Running)> {
        let rows = |origin| move |(name, running)| (origin, name, running);
        let projects = self.0.projects.iter().map(rows(Origin::Project));
        projects.chain(self.0.stacks.iter().map(rows(Origin::Stack)))
    }
}

impl Show for Listing {
    fn json(&self) -> Value {
        let row = |(origin, name, running): (Origin, &String, &Running)| {
            json!({
                "kind": origin.as_str(),
                "name": name,
                "services": running.services,
                "running_containers": (origin == Origin::Project).then_some(running.containers),
                "files": running.files,
            })
        };
        self.rows().map(row).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["KIND", "NAME", "SERVICES", "RUNNING", "FILES"]);
        for (origin, name, running) in self.rows() {
            let containers = match origin {
                Origin::Project => running.containers.to_string(),
                Origin::Stack => String::new(),
            };
            let services = running.services.len().to_string();
            let kind = origin.as_str().to_owned();
            table.row([kind, name.clone(), services, containers, running.files.join(",")]);
        }
        if table.is_empty() {
            return "no project of Docker Compose and no stack of Docker Swarm is on the engine of this machine\n".to_owned();
        }
        table.render()
    }
}
