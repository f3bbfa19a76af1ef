//! The archive of `jaco doctor --bundle`: what an operator who helps needs to know of a cluster, and nothing that is secret.

use std::collections::{BTreeSet, HashMap};

use jaco_client::{Client, ClientError};
use jaco_proto::v1::{
    AuditEvent, AuditRequest, JobsRequest, ListImagesRequest, ListVolumesRequest, NodeFactsRequest,
    StatusRequest, StatusResponse, SupportFilesRequest,
};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::output::Show;
use crate::view;

/// The newest events of the audit log that are in it.
const EVENTS_MAX: u32 = 2000;

/// What takes the place of something that is left out.
const LEFT_OUT: &str = "(left out)";

/// What is in it, for whoever opens it.
const README: &str = "\
A support bundle of a JACO cluster, made by `jaco doctor --bundle`.

doctor.json       what `jaco doctor` found, and the answers that it comes from
status.json       deployments, replicas and nodes
facts.json        hardware and software of the nodes
audit.json        the newest events of the audit log
jobs.json         jobs with schedules, and their runs
images.json       pushed images
volumes.json      volumes of the nodes
nodes/*/log.txt   the end of the log of each daemon
nodes/*/metrics.txt
missing.txt       what could not be had, and why; absent if nothing is missing

Not in it: compose files, environment variables, secrets and configs, tokens and keys, logs and other output of containers.
In it: names of deployments, services, images, hosts and users, and addresses.
";

/// The shortest text of a container that is looked for elsewhere.
const HIDDEN_CHARS_MIN: usize = 6;

/// A bundle that is being made.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    files: Vec<(String, Vec<u8>)>,
    missing: Vec<String>,
    hidden: Hidden,
}

impl Bundle {
    /// Asks the cluster for everything. What it refuses, or does not answer, is named in the bundle.
    pub(super) async fn gather(client: &Client, doctor: &Value, nodes: &[String]) -> Self {
        let mut bundle = Self::default();
        // What containers have printed is known from these two.
        let status = client.read_status(StatusRequest::default()).await;
        let status = status.map(|status| bundle.hidden.of_status(status));
        let events = events(client).await;
        let events = events.map(|events| bundle.hidden.of_events(events));
        bundle.text("README.txt", README);
        bundle.json("doctor.json", Ok(doctor.clone()));
        bundle.json("status.json", status.map(|status| view::status::Status(&status).json()));
        bundle.list("audit.json", events, view::audit::json);
        let facts = client.node_facts(NodeFactsRequest::default()).await;
        bundle.list("facts.json", facts.map(|it| it.nodes), view::machine::json);
        let jobs = client.jobs(JobsRequest::default()).await;
        bundle.list("jobs.json", jobs.map(|it| it.jobs), view::job::json);
        let images = client.list_images(ListImagesRequest::default()).await;
        bundle.list("images.json", images.map(|it| it.images), view::image::json);
        let volumes = client.list_volumes(ListVolumesRequest::default()).await;
        if let Ok(volumes) = &volumes {
            let silent = volumes.unreachable.iter();
            bundle.missing.extend(silent.map(|(node, why)| format!("volumes of {node}: {why}")));
        }
        bundle.list("volumes.json", volumes.map(|it| it.volumes), view::volume::json);
        bundle.of_nodes(client, nodes).await;
        bundle
    }

    /// The logs and metrics of the daemons, which are asked side by side.
    async fn of_nodes(&mut self, client: &Client, nodes: &[String]) {
        let mut asked = JoinSet::new();
        for node in nodes {
            let (client, node) = (client.clone(), node.clone());
            asked.spawn(async move {
                let request = SupportFilesRequest { node: node.clone() };
                (node, client.support_files(request).await)
            });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by(|a, b| a.0.cmp(&b.0));
        for (node, answer) in answers {
            match answer {
                Ok(answer) => {
                    self.text(&format!("nodes/{node}/log.txt"), &answer.log);
                    self.text(&format!("nodes/{node}/metrics.txt"), &answer.metrics);
                }
                Err(error) => self.missing.push(format!("log and metrics of {node}: {error}")),
            }
        }
    }

    fn list<T>(
        &mut self,
        name: &str,
        items: Result<Vec<T>, ClientError>,
        json: impl Fn(&T) -> Value,
    ) {
        self.json(name, items.map(|items| items.iter().map(json).collect()));
    }

    fn json(&mut self, name: &str, answer: Result<Value, ClientError>) {
        match answer {
            Ok(value) => self.text(name, &format!("{value:#}\n")),
            Err(error) => self.missing.push(format!("{name}: {error}")),
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.files.push((name.to_owned(), self.hidden.without(text).into_bytes()));
    }

    /// Its files, and what is missing in them.
    pub(super) fn finish(mut self) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
        if !self.missing.is_empty() {
            let text = self.missing.join("\n") + "\n";
            self.text("missing.txt", &text);
        }
        (self.files, self.missing)
    }
}

async fn events(client: &Client) -> Result<Vec<AuditEvent>, ClientError> {
    let request = AuditRequest { last: EVENTS_MAX, ..AuditRequest::default() };
    let (mut events, mut all) = (client.events(request), Vec::new());
    while let Some(event) = events.next().await? {
        all.push(event);
    }
    Ok(all)
}

/// What containers and their healthchecks have printed: it may be anything, and is left out wherever it is quoted.
#[derive(Debug, Default)]
struct Hidden(BTreeSet<String>);

impl Hidden {
    fn of_status(&mut self, mut status: StatusResponse) -> StatusResponse {
        for replica in &mut status.replicas {
            self.take(&replica.code, &mut replica.details);
            for termination in &mut replica.terminations {
                self.take(&termination.code, &mut termination.details);
            }
        }
        status
    }

    fn of_events(&mut self, mut events: Vec<AuditEvent>) -> Vec<AuditEvent> {
        for event in &mut events {
            let code = event.payload.get("code").cloned().unwrap_or_default();
            self.take(&code, &mut event.payload);
        }
        events
    }

    /// Takes out what is the container's: its output, and as the reason of a sick one that of its healthcheck.
    fn take(&mut self, code: &str, details: &mut HashMap<String, String>) {
        let keys: &[&str] = if code == "unhealthy" { &["output", "reason"] } else { &["output"] };
        for key in keys {
            let Some(text) = details.get_mut(*key) else { continue };
            let text = std::mem::replace(text, LEFT_OUT.to_owned());
            let lines = text.lines().map(str::trim).chain([text.trim()]);
            let long = lines.filter(|line| line.chars().count() >= HIDDEN_CHARS_MIN);
            for line in long {
                // As it is, and as texts in JSON and in logs are written.
                let quoted = Value::from(line).to_string();
                self.0.insert(quoted[1..quoted.len() - 1].to_owned());
                self.0.insert(line.to_owned());
            }
        }
    }

    fn without(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The longest first: others may be parts of them.
        let mut hidden: Vec<&String> = self.0.iter().collect();
        hidden.sort_by_key(|one| std::cmp::Reverse(one.len()));
        for one in hidden {
            if text.contains(one.as_str()) {
                text = text.replace(one.as_str(), LEFT_OUT);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{ReplicaInfo, TerminationInfo};

    use super::*;

    fn details(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// R-OPS-1: what a container or its healthcheck has printed is in no file, wherever it is quoted; other reasons are.
    #[test]
    fn output_of_containers_is_left_out() {
        let replica = ReplicaInfo {
            code: "unhealthy".to_owned(),
            details: details(&[("reason", "login with \"pass-1\" failed")]),
            terminations: vec![TerminationInfo {
                code: "container_exited".to_owned(),
                details: details(&[
                    ("output", "starting\nkey is pass-2\nno"),
                    ("reason", "no space left"),
                ]),
                ..TerminationInfo::default()
            }],
            ..ReplicaInfo::default()
        };
        let mut hidden = Hidden::default();
        let status = StatusResponse { replicas: vec![replica], ..StatusResponse::default() };
        let status = hidden.of_status(status);
        let event = AuditEvent {
            payload: details(&[("output", "token pass-3"), ("reason", "restarted")]),
            ..AuditEvent::default()
        };
        let events = hidden.of_events(vec![event]);
        let text =
            format!("{} {}", view::status::Status(&status).json(), view::audit::json(&events[0]));
        let log = "reason=\"login with \\\"pass-1\\\" failed\" then key is pass-2 and token pass-3";
        for text in [text.clone(), hidden.without(log)] {
            assert!(!text.contains("pass-") && text.contains(LEFT_OUT), "{text}");
        }
        assert!(text.contains("no space left") && text.contains("restarted"), "{text}");
        assert_eq!(hidden.without("no replica"), "no replica", "what is short is no quote");
    }
}
