//! Log lines of all replicas of a service or deployment. Each node sends those of its own containers; lines are
//! merged in the order in which they arrive. A reader that follows gets those of later instances as well.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jaco_agent::engine::{Follow, LogLine, LogQuery, LogStream};
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_store::Store;
use jaco_types::{
    DeploymentName, ErrorCode, InstanceId, NodeId, Rejection, ServiceKey, ServiceName, Slot,
    Timestamp,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::{Request, Status};
use tracing::warn;

use crate::member::Member;
use crate::status::invalid;
use crate::view;

/// Capacity of the queue of lines; a full queue blocks the streams of the containers.
const LINES_BUFFER: usize = 256;

/// Pause before another attempt to follow the lines on a node that cannot be reached.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The stream of a message about lines that a node cannot send.
const MISSING: &str = "missing";

type Lines = mpsc::Sender<Result<v1::LogLine, Status>>;

/// Starts to collect the requested lines.
///
/// # Errors
/// When the replica, service or deployment does not exist.
pub(crate) fn collect(
    member: Arc<Member>,
    request: v1::LogsRequest,
) -> Result<mpsc::Receiver<Result<v1::LogLine, Status>>, Rejection> {
    let selected = member.store.read(|state| selected(state, &request))?;
    let (sender, receiver) = mpsc::channel(LINES_BUFFER);
    let collector =
        Collector { member, request, sender, open: BTreeSet::new(), streams: JoinSet::new() };
    tokio::spawn(collector.run(selected));
    Ok(receiver)
}

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// A container of this node.
    Instance(InstanceId),
    /// The containers of another node.
    Node(NodeId),
}

/// Collects the lines of one request.
struct Collector {
    member: Arc<Member>,
    request: v1::LogsRequest,
    sender: Lines,
    /// The sources so far.
    open: BTreeSet<Source>,
    streams: JoinSet<()>,
}

impl Collector {
    async fn run(mut self, mut selected: Vec<(InstanceId, NodeId)>) {
        let mut index = self.member.store.watch_index();
        loop {
            self.open(selected);
            if !self.request.follow {
                break;
            }
            // What began since the reader asked is new to it from its first line.
            self.request = later(self.request);
            let changed = tokio::select! {
                changed = index.changed() => changed.is_ok(),
                () = self.sender.closed() => false,
            };
            let now = self.member.store.read(|state| selected_now(state, &self.request));
            match now.filter(|_| changed) {
                Some(now) => selected = now,
                None => break,
            }
        }
        // They end with the last line, or when the reader has gone.
        while self.streams.join_next().await.is_some() {}
    }

    fn open(&mut self, selected: Vec<(InstanceId, NodeId)>) {
        for (instance, node) in selected {
            let source = match node == self.member.id {
                true => Source::Instance(instance),
                false if self.request.local_only => continue,
                false => Source::Node(node),
            };
            if !self.open.insert(source.clone()) {
                continue;
            }
            let (member, request) = (Arc::clone(&self.member), self.request.clone());
            let sender = self.sender.clone();
            match source {
                Source::Instance(instance) => {
                    self.streams.spawn(local(member, instance, query(&request), sender))
                }
                Source::Node(node) => self.streams.spawn(remote(member, node, request, sender)),
            };
        }
    }
}

fn later(request: v1::LogsRequest) -> v1::LogsRequest {
    v1::LogsRequest { tail: 0, last: None, since_ms: 0, ..request }
}

fn selected_now(
    state: &ClusterState,
    request: &v1::LogsRequest,
) -> Option<Vec<(InstanceId, NodeId)>> {
    selected(state, request).ok()
}

/// The selected instances and their nodes.
fn selected(
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
    // With those that have ended: a job's output is read after it.
    let instances = slots.into_iter().flat_map(Slot::kept_instances);
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
    let of_deployment = jaco_state::view::slots_of(state, &name);
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
    let tail = request.last.or((request.tail > 0).then_some(request.tail));
    LogQuery {
        follow: if request.follow { Follow::Yes } else { Follow::No },
        tail: tail.map(u64::from),
        since: u64::try_from(request.since_ms).ok().filter(|since| *since > 0).map(Timestamp),
    }
}

/// Sends the lines of a container on this node. A reader that follows waits for the container.
async fn local(member: Arc<Member>, instance: InstanceId, query: LogQuery, sender: Lines) {
    let mut status = member.agent.status();
    let mut lines = loop {
        status.borrow_and_update();
        match member.agent.logs(&instance, query).await {
            Ok(Some(lines)) => break lines,
            Ok(None) => {}
            Err(error) => warn!(%instance, %error, "could not read log lines"),
        }
        if query.follow == Follow::No || !is_live(&member, &instance) {
            return;
        }
        let changed = tokio::select! {
            changed = status.changed() => changed.is_ok(),
            () = sender.closed() => false,
        };
        if !changed {
            return;
        }
    };
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = sender.closed() => return,
        };
        let Some(Ok(line)) = line else { return };
        if sender.send(Ok(message(&member, &instance, line))).await.is_err() {
            return;
        }
    }
}

fn is_live(member: &Member, instance: &InstanceId) -> bool {
    member.store.read(|state| {
        let slot = state.slots.get(&instance.replica);
        slot.is_some_and(|slot| slot.instances().any(|(id, _)| id == *instance))
    })
}

fn message(member: &Member, instance: &InstanceId, line: LogLine) -> v1::LogLine {
    let stream = match line.stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    };
    v1::LogLine {
        replica: instance.replica.to_string(),
        node: member.hostname.to_string(),
        stream: stream.to_owned(),
        at_ms: line.at.map_or(0, view::millis),
        text: line.text,
    }
}

/// Forwards the lines of containers on another node. For a reader that follows, a lost connection is opened
/// again until the replicas are gone.
async fn remote(member: Arc<Member>, node: NodeId, request: v1::LogsRequest, sender: Lines) {
    let mut request = v1::LogsRequest { local_only: true, ..request };
    let mut is_told = false;
    loop {
        if let Err(reason) = forward(&member, node, &mut request, &sender).await
            && !is_told
        {
            is_told = true;
            let node = member.store.read(|state| view::hostname(state, node));
            let text = format!("the lines on node {node} are missing: {reason}");
            let message =
                v1::LogLine { node, stream: MISSING.to_owned(), text, ..v1::LogLine::default() };
            // If the reader has gone this ends below.
            sender.send(Ok(message)).await.ok();
        }
        let goes_on = member.store.read(|state| selected(state, &request).is_ok());
        if !request.follow || !goes_on || sender.is_closed() {
            return;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Forwards lines until the stream ends; `request` continues after the last one.
///
/// # Errors
/// Why the node cannot send them.
async fn forward(
    member: &Member,
    node: NodeId,
    request: &mut v1::LogsRequest,
    sender: &Lines,
) -> Result<(), String> {
    let known = member.store.read(|state| {
        state.nodes.get(&node).map(|known| (known.address.clone(), view::is_up(state, node)))
    });
    let (address, is_up) = known.ok_or("it is no member any more")?;
    if !is_up {
        return Err("it is down".to_owned());
    }
    let asked = member.peers.logs(node, &address).logs(Request::new(request.clone())).await;
    let mut lines = asked.map_err(|status| status.message().to_owned())?.into_inner();
    loop {
        let line = tokio::select! {
            line = lines.message() => line,
            () = sender.closed() => return Ok(()),
        };
        let Some(line) = line.map_err(|status| status.message().to_owned())? else {
            return Ok(());
        };
        *request = later(std::mem::take(request));
        request.since_ms = line.at_ms.saturating_add(1);
        if sender.send(Ok(line)).await.is_err() {
            return Ok(());
        }
    }
}
