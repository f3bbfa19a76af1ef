//! What a request would meet, as it is said over the socket.

use jaco_types::RouteKey;
use serde::{Deserialize, Serialize};

use super::change_message::instance_id;
use crate::explain::{Connection, Explained, ExplainedInstance};

/// What a request would meet. The route by domain and path.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExplainedMessage {
    route: Option<(String, String)>,
    has_certificate: bool,
    instances: Vec<InstanceMessage>,
}

#[derive(Debug, Serialize, Deserialize)]
struct InstanceMessage {
    id: (String, u64),
    is_passed_over: bool,
    connection: ConnectionMessage,
}

#[derive(Debug, Serialize, Deserialize)]
enum ConnectionMessage {
    Accepted,
    Refused,
    Silent,
}

impl ExplainedMessage {
    pub(super) fn new(explained: &Explained) -> Self {
        let instances = explained.instances.iter().map(|one| InstanceMessage {
            id: (one.id.replica.to_string(), one.id.raft_index.0),
            is_passed_over: one.is_passed_over,
            connection: match one.connection {
                Connection::Accepted => ConnectionMessage::Accepted,
                Connection::Refused => ConnectionMessage::Refused,
                Connection::Silent => ConnectionMessage::Silent,
            },
        });
        let route = explained.route.as_ref();
        Self {
            route: route.map(|key| (key.domain.to_string(), key.path.to_string())),
            has_certificate: explained.has_certificate,
            instances: instances.collect(),
        }
    }

    /// What it says; `None` if anything in it is not what an edge says.
    pub(super) fn explained(&self) -> Option<Explained> {
        let route = match &self.route {
            Some((domain, path)) => {
                Some(RouteKey { domain: domain.parse().ok()?, path: path.parse().ok()? })
            }
            None => None,
        };
        let instances = self.instances.iter().map(|one| {
            let connection = match one.connection {
                ConnectionMessage::Accepted => Connection::Accepted,
                ConnectionMessage::Refused => Connection::Refused,
                ConnectionMessage::Silent => Connection::Silent,
            };
            let (id, is_passed_over) = (instance_id(&one.id)?, one.is_passed_over);
            Some(ExplainedInstance { id, is_passed_over, connection })
        });
        let instances = instances.collect::<Option<_>>()?;
        Some(Explained { route, has_certificate: self.has_certificate, instances })
    }
}
