//! Walks the way from one replica to others, with what the routers at its ends have found.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::NodeId;

use super::course::{Course, until_joined};
use super::ends::{Destination, Live};
use super::outcome::{Broken, Step, Walk, millis};
use crate::router::Reports;
use crate::view::{hostname, replica_state};

/// All steps, up to the first that does not hold.
pub(crate) fn walk(
    state: &ClusterState,
    course: &Course<'_>,
    to: &Destination,
    reports: &Reports,
) -> Walk {
    let walker = Walker { state, course, to, reports };
    let mut walk = Walk::default();
    walk.hold(Step::Network, format!("both are attached to {}", course.network_name));
    let connect = (to.port > 0).then_some((Step::Connect, Walker::connect as Check<'_>));
    let checks: [(Step, Check<'_>); 4] = [
        (Step::Name, Walker::name),
        (Step::Endpoints, Walker::endpoints),
        (Step::Tunnel, Walker::tunnel),
        (Step::Applied, Walker::applied),
    ];
    for (step, check) in checks.into_iter().chain(connect) {
        match check(&walker) {
            Ok(detail) => walk.hold(step, detail),
            Err(broken) => {
                walk.end(broken);
                break;
            }
        }
    }
    walk
}

/// What it found where it holds.
type Check<'a> = fn(&Walker<'a>) -> Result<String, Broken>;

pub(super) struct Walker<'a> {
    pub(super) state: &'a ClusterState,
    pub(super) course: &'a Course<'a>,
    pub(super) to: &'a Destination,
    pub(super) reports: &'a Reports,
}

impl Walker<'_> {
    /// The report of a node whose router works.
    pub(super) fn report(
        &self,
        node: NodeId,
        step: Step,
    ) -> Result<&v1::ProbeRouterResponse, Broken> {
        let name = hostname(self.state, node);
        match self.reports.get(&node) {
            Some(Ok(report)) if report.error.is_empty() => Ok(report),
            Some(Ok(report)) => Err(Broken::new(
                step,
                format!("the router of {name} does not work: {}", report.error),
                format!("see `jaco node ls`, and the log on {name}: journalctl -u jacod-net"),
            )),
            Some(Err(why)) => Err(Broken::new(
                step,
                format!("{name} cannot be asked: {why}"),
                format!(
                    "check its daemon and the way to it: jaco doctor; journalctl -u jacod on {name}"
                ),
            )),
            None => Err(Broken::new(step, format!("{name} was not asked"), "try again")),
        }
    }

    /// What the resolver of the router answers.
    fn name(&self) -> Result<String, Broken> {
        let (course, step) = (self.course, Step::Name);
        let report = self.report(course.asker.node, step)?;
        let (name, asker) = (&course.name, &course.asker.id.replica);
        let found: BTreeSet<Ipv4Addr> =
            report.addresses.iter().filter_map(|text| text.parse().ok()).collect();
        if course.ready.is_empty() && course.unready.is_empty() {
            let detail = format!(
                "{name} is not found: no replica of {} has an address in {}",
                self.to, course.network_name
            );
            return Err(Broken::new(
                step,
                detail,
                format!("see why it has none: jaco explain {}", self.to),
            ));
        }
        if found.is_empty() && course.ready.is_empty() {
            return Ok(format!("{name} leads nowhere as long as no replica is ready"));
        }
        if !report.name_known || found.is_empty() {
            let node = hostname(self.state, course.asker.node);
            let detail = format!(
                "the resolver of {node} does not know {name} for {asker}: its router holds index {}, the cluster is at {}",
                report.applied, self.state.index
            );
            let fix = format!(
                "try again in a second; if it stays, see journalctl -u jacod -u jacod-net on {node}"
            );
            return Err(Broken::new(step, detail, fix));
        }
        let is_meant = |address: &&Ipv4Addr| {
            course.ready.contains_key(*address) || course.unready.contains_key(*address)
        };
        if !found.iter().any(|address| is_meant(&address)) {
            let others: Vec<String> = found.iter().map(ToString::to_string).collect();
            let detail =
                format!("{name} leads {asker} to {}, which is not {}", others.join(", "), self.to);
            let fix = format!(
                "use the full name {}.{}, and look for an alias of that name",
                name.split('.').next().unwrap_or(name),
                self.to.service.deployment
            );
            return Err(Broken::new(step, detail, fix));
        }
        let shown: Vec<String> = report.addresses.iter().take(8).cloned().collect();
        Ok(format!("{name} leads to {}", shown.join(", ")))
    }

    fn endpoints(&self) -> Result<String, Broken> {
        let course = self.course;
        let unready: Vec<String> =
            course.unready.values().map(|live| self.why_unready(live)).collect();
        if course.ready.is_empty() {
            let detail = format!("no replica of {} is ready: {}", self.to, unready.join("; "));
            let fix = self.how_to_be_ready();
            return Err(Broken::new(Step::Endpoints, detail, fix));
        }
        let ready: Vec<String> = course.ready.values().map(|live| self.at(live)).collect();
        let mut text = format!("{} ready", ready.join(", "));
        if !unready.is_empty() {
            text.push_str(&format!("; not ready: {}", unready.join("; ")));
        }
        Ok(text)
    }

    fn how_to_be_ready(&self) -> String {
        let mut unready = self.course.unready.values();
        if let Some(live) = unready.clone().find(|live| live.is_joining) {
            return until_joined(&hostname(self.state, live.node));
        }
        let first = unready.next().map(|live| live.id.replica.to_string());
        let first = first.unwrap_or_default();
        format!("make it ready: jaco status {}; jaco logs {first}", self.to.service.deployment)
    }

    fn at(&self, live: &Live) -> String {
        format!("{} on {}", live.id.replica, hostname(self.state, live.node))
    }

    fn why_unready(&self, live: &Live) -> String {
        if live.is_joining {
            return format!("{} is being attached to {}", self.at(live), self.course.network_name);
        }
        let slot = self.state.slots.get(&live.id.replica);
        let Some(slot) = slot else { return self.at(live) };
        let (shown, code, details) = replica_state(self.state, slot);
        let reason = details.get("reason").cloned().unwrap_or(code);
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("{} is {shown}{reason}", self.at(live))
    }

    /// Both ends hold the newest plan.
    fn applied(&self) -> Result<String, Broken> {
        let course = self.course;
        let mut nodes: BTreeSet<NodeId> = course.ready.values().map(|live| live.node).collect();
        nodes.insert(course.asker.node);
        let held: Result<Vec<String>, Broken> =
            nodes.into_iter().map(|node| self.applied_at(node)).collect();
        Ok(format!("{}, the cluster is at {}", held?.join(", "), self.state.index))
    }

    fn applied_at(&self, node: NodeId) -> Result<String, Broken> {
        let step = Step::Applied;
        let (report, name) = (self.report(node, step)?, hostname(self.state, node));
        let broken = |detail: String, fix: String| Broken::new(step, detail, fix);
        if report.state_index < self.state.index.0 {
            let detail = format!(
                "{name} has the state of index {}, the cluster is at {}",
                report.state_index, self.state.index
            );
            return Err(broken(
                detail,
                format!("check the way from {name} to the leader: jaco doctor"),
            ));
        }
        if report.applied < report.planned {
            let detail = format!(
                "the router of {name} holds index {}, its plan is of {}",
                report.applied, report.planned
            );
            return Err(broken(detail, format!("see journalctl -u jacod-net on {name}")));
        }
        if let Some(why) = report.failed_networks.get(&self.course.network.0) {
            let detail =
                format!("the router of {name} has no port in {}: {why}", self.course.network_name);
            return Err(broken(
                detail,
                format!("look for the bridge on {name}: docker network ls, ip link"),
            ));
        }
        Ok(format!("{name} holds index {}", report.applied))
    }

    fn connect(&self) -> Result<String, Broken> {
        let own = self.report(self.course.asker.node, Step::Connect)?;
        let accepted: Result<Vec<String>, Broken> = self
            .course
            .ready
            .iter()
            .map(|(address, live)| self.connected(own, *address, live))
            .collect();
        Ok(accepted?.join(", "))
    }

    fn connected(
        &self,
        own: &v1::ProbeRouterResponse,
        address: Ipv4Addr,
        live: &Live,
    ) -> Result<String, Broken> {
        let (port, at, replica) = (self.to.port, self.at(live), &live.id.replica);
        let text = address.to_string();
        let tried = own.connections.iter().find(|tried| tried.address == text);
        let broken = |detail: String, fix: String| Broken::new(Step::Connect, detail, fix);
        match tried.map(|tried| (tried.result.as_str(), tried.taken_us)) {
            Some(("accepted", taken)) => {
                Ok(format!("{at} accepts at {address}:{port} in {}", millis(taken)))
            }
            Some(("refused", _)) => {
                let declared = self.declared(live);
                let detail =
                    format!("refused: nothing listens on {address}:{port} in {at}{declared}");
                let fix = format!(
                    "let it listen on 0.0.0.0:{port}, not on 127.0.0.1, or use the port that it listens on: jaco logs {replica}"
                );
                Err(broken(detail, fix))
            }
            _ => {
                let detail = format!("no answer from {address}:{port} in {at} within 2 s");
                let fix = format!(
                    "look for a firewall in the container, and whether it hangs: jaco logs {replica}"
                );
                Err(broken(detail, fix))
            }
        }
    }

    /// The ports that its container publishes.
    fn declared(&self, live: &Live) -> String {
        let seen = self.state.observed.get(&live.id);
        let ports = seen.iter().flat_map(|seen| seen.ports.keys().map(ToString::to_string));
        let ports: Vec<String> = ports.collect();
        if ports.is_empty() {
            String::new()
        } else {
            format!("; it publishes {}", ports.join(", "))
        }
    }
}
