//! Lines of all replicas of a service, from whichever nodes they run on: each node is asked for its
//! own, and the lines are sent on in the order in which they arrive.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use jaco_agent::engine::{Follow, LogQuery, LogStream};
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::{
    DeploymentName, ErrorCode, InstanceId, NodeId, Rejection, ServiceKey, ServiceName, Slot,
    Timestamp,
};
use tokio::sync::mpsc;
use tonic::{Request, Status};
use tracing::warn;

use crate::member::Member;
use crate::status::{invalid, to_status};
use crate::view;

/// Lines that may wait for a slow reader; after that the containers' streams wait too.
const LINES_BUFFER: usize = 256;

type Lines = mpsc::Sender<Result<v1::LogLine, Status>>;

/// Begins to collect the lines that were asked for.
///
/// # Errors
/// When nothing of that name exists.
pub fn collect(
    member: Arc<Member>,
    request: v1::LogsRequest,
) -> Result<mpsc::Receiver<Result<v1::LogLine, Status>>, Rejection> {
    let wanted = member.store.read(|state| wanted(state, &request))?;
    let (sender, receiver) = mpsc::channel(LINES_BUFFER);
    let nodes: BTreeSet<NodeId> = wanted.iter().map(|(_, node)| *node).collect();
    for node in nodes {
        if node == member.id {
            let own = wanted.iter().filter(|(_, holder)| *holder == node);
            for (instance, _) in own {
                tokio::spawn(local(
                    Arc::clone(&member),
                    instance.clone(),
                    query(&request),
                    sender.clone(),
                ));
            }
        } else if !request.local_only {
            tokio::spawn(remote(Arc::clone(&member), node, request.clone(), sender.clone()));
        }
    }
    Ok(receiver)
}

/// The instances whose lines are wanted, and where they run.
fn wanted(
    state: &ClusterState,
    request: &v1::LogsRequest,
) -> Result<Vec<(InstanceId, NodeId)>, Rejection> {
    let slots: Vec<&Slot> = if request.replica.is_empty() {
        of_service(state, request)?
    } else {
        let slot = state.slots.values().find(|slot| slot.id.as_str() == request.replica);
        let missing = || {
            let message = format!("there is no replica {:?}", request.replica);
            Rejection::new(ErrorCode::ReplicaNotFound, message)
        };
        vec![slot.ok_or_else(missing)?]
    };
    let instances = slots.into_iter().flat_map(Slot::instances);
    Ok(instances.map(|(id, instance)| (id, instance.node)).collect())
}

fn of_service<'a>(
    state: &'a ClusterState,
    request: &v1::LogsRequest,
) -> Result<Vec<&'a Slot>, Rejection> {
    let name = DeploymentName::new(&request.deployment).map_err(invalid)?;
    let deployment = state.deployments.get(&name).ok_or_else(|| {
        let message = format!("there is no deployment {name}");
        Rejection::new(ErrorCode::DeploymentNotFound, message)
    })?;
    let of_deployment = state.slots.values().filter(|slot| slot.service.deployment == name);
    if request.service.is_empty() {
        return Ok(of_deployment.collect());
    }
    let service = ServiceName::new(&request.service).map_err(invalid)?;
    if !deployment.spec().services.contains_key(&service) {
        let known: Vec<_> = deployment.spec().services.keys().map(ToString::to_string).collect();
        let message =
            format!("deployment {name} has no service {service}; there are {}", known.join(", "));
        return Err(Rejection::new(ErrorCode::ServiceNotFound, message));
    }
    let key = ServiceKey { deployment: name.clone(), service };
    Ok(of_deployment.filter(|slot| slot.service == key).collect())
}

fn query(request: &v1::LogsRequest) -> LogQuery {
    LogQuery {
        follow: if request.follow { Follow::Yes } else { Follow::No },
        tail: (request.tail > 0).then_some(u64::from(request.tail)),
        since: u64::try_from(request.since_ms).ok().filter(|since| *since > 0).map(Timestamp),
    }
}

/// Sends the lines of one of this node's containers.
async fn local(member: Arc<Member>, instance: InstanceId, query: LogQuery, sender: Lines) {
    let mut lines = match member.agent.logs(&instance, query).await {
        Ok(Some(lines)) => lines,
        // An instance that has no container yet has no lines either.
        Ok(None) => return,
        Err(error) => {
            warn!(%instance, %error, "log lines cannot be read");
            return;
        }
    };
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = sender.closed() => return,
        };
        let Some(Ok(line)) = line else { return };
        let stream = match line.stream {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        };
        let message = v1::LogLine {
            replica: instance.replica.to_string(),
            node: member.hostname.to_string(),
            stream: stream.to_owned(),
            at_ms: line.at.map_or(0, view::millis),
            text: line.text,
        };
        if sender.send(Ok(message)).await.is_err() {
            return;
        }
    }
}

/// Sends on the lines of another node's containers.
async fn remote(member: Arc<Member>, node: NodeId, request: v1::LogsRequest, sender: Lines) {
    let known = member.store.read(|state| {
        state.nodes.get(&node).map(|node| (node.hostname.to_string(), node.address.clone()))
    });
    let Some((hostname, address)) = known else { return };
    let request = Request::new(v1::LogsRequest { local_only: true, ..request });
    let mut lines = match member.peers.logs(node, &address).logs(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => {
            // A node that cannot be asked is said, not passed over: its lines are missing.
            let message =
                format!("node {hostname} cannot be asked for its lines: {}", status.message());
            let rejection = Rejection::new(ErrorCode::Unavailable, message);
            let _reader_gone = sender.send(Err(to_status(&rejection))).await.is_err();
            return;
        }
    };
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = sender.closed() => return,
        };
        let Some(Ok(line)) = line else { return };
        if sender.send(Ok(line)).await.is_err() {
            return;
        }
    }
}
