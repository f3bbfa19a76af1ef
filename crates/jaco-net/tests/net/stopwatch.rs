//! How long a change takes from the replicated state to the kernel, and what a router costs: lines for
//! `cargo xtask bench net`, never judged here.

use std::fs;
use std::time::{Duration, Instant};

use jaco_dataplane::{Planner, Topology, plan};
use jaco_net::{RouterClient, RouterStatus};
use jaco_state::ClusterState;
use jaco_types::{NodeId, StateIndex};

use crate::cluster::{FIRST, add, remove, state};
use crate::lab::{Lab, Site};
use crate::questions;
use crate::scenario::Scenario;
use crate::service::{Service, hold, runtime, status};
use crate::steady::TWO_SITES;

/// Networks, and addresses in each.
const SIZE: (u32, u8) = (500, 50);

/// Changes of each kind whose times are put in order, an even number.
const CHANGES: usize = 60;

/// How long an idle router is watched: it is compared with the kernel once in this time.
const IDLE: Duration = Duration::from_secs(30);

/// Measures and prints lines `figure: value unit`.
pub(crate) fn print() {
    small();
    large();
}

fn say(figure: &str, value: f64, unit: &str) {
    println!("{figure}: {value:.3} {unit}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn timed<T>(task: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let done = task();
    (done, begun.elapsed())
}

/// The median and the 99th percentile, in milliseconds.
fn spread(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    say(&format!("{what} p50"), millis(at(50)), "ms");
    say(&format!("{what} p99"), millis(at(99)), "ms");
}

/// A router of two networks, at rest.
fn small() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let service = Service::start(&lab.sites[&1]);
    runtime().block_on(async {
        let mut client = service.connect().await;
        hold(&mut client, 1, &scenario, 1).await;
        wait(&client, StateIndex(1)).await;
    });
    idle("2 networks", &service);
}

fn idle(what: &str, service: &Service) {
    let before = service.processor_time();
    // What is measured is the passing of time.
    std::thread::sleep(IDLE);
    let used = service.processor_time() - before;
    say(&format!("idle memory, {what}"), service.memory_mib(), "MiB");
    say(&format!("idle processor, {what}"), used.as_secs_f64() / IDLE.as_secs_f64() * 1e2, "%");
}

fn large() {
    let (mut state, time) = timed(|| state(SIZE.0, SIZE.1));
    println!("# {} x {}: the state itself took {time:.0?}", SIZE.0, SIZE.1);
    let (topology, time) = timed(|| Topology::of(&state));
    say("topology from scratch", millis(time), "ms");
    let (_, time) = timed(|| plan(&topology, NodeId(1)));
    say("plan from a topology", millis(time), "ms");
    let lab = Lab::of(&topology);
    let site = &lab.sites[&1];
    let service = Service::start(site);
    runtime().block_on(async {
        let client = service.connect().await;
        let mut router = Follower::new(client, &state).await;
        router.whole(site, &state).await;
        router.changes(site, &mut state).await;
    });
    idle("500 × 50", &service);
    spread("DNS, 5,000 questions/s", questions::ask(site, SIZE.1));
}

/// A router, and what it was told.
struct Follower {
    client: RouterClient,
    planner: Planner,
    index: StateIndex,
}

impl Follower {
    /// Tells the first plan, whole, to a router that has nothing.
    async fn new(mut client: RouterClient, state: &ClusterState) -> Self {
        let mut planner = Planner::new(NodeId(1));
        let (_, time) = timed(|| planner.next(state));
        say("first plan from a state", millis(time), "ms");
        let begun = Instant::now();
        client.hold(state.index, planner.plan()).await.unwrap();
        wait(&client, state.index).await;
        say("whole plan to kernel, from nothing", millis(begun.elapsed()), "ms");
        Self { client, planner, index: state.index }
    }

    /// The same plan once more: what a daemon that starts again costs.
    async fn whole(&mut self, site: &Site, state: &ClusterState) {
        let begun = Instant::now();
        self.client.hold(StateIndex(state.index.0 + 1), self.planner.plan()).await.unwrap();
        self.index = StateIndex(state.index.0 + 1);
        wait(&self.client, self.index).await;
        say("whole plan to kernel, nothing new", millis(begun.elapsed()), "ms");
        say("length of a whole plan", journal(site).0 / 1e3, "kB");
    }

    /// Instances that come and go elsewhere, and then the last one of a network here.
    async fn changes(&mut self, site: &Site, state: &mut ClusterState) {
        state.index = self.index;
        let (mut planned, mut all) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for number in 0..CHANGES {
            let (network, gone) = (1 + u32::try_from(number / 2).unwrap(), number % 2);
            match gone {
                0 => add(state, 2, network, FIRST + SIZE.1),
                _ => remove(state, network, FIRST + SIZE.1),
            }
            let (in_plan, whole) = self.follow(state).await;
            planned[gone].push(in_plan);
            all[gone].push(whole);
        }
        say("length of a change", journal(site).1, "bytes");
        let [come, go] = all;
        spread("state to change of plan", planned.concat());
        spread("state to kernel, an instance more", come);
        spread("state to kernel, an instance less", go);
        let here = (0..SIZE.1).step_by(3).map(|place| FIRST + place);
        let here: Vec<u8> = here.collect();
        let mut ports = [Vec::new(), Vec::new()];
        for network in 1..=5 {
            here.iter().for_each(|last| remove(state, network, *last));
            ports[0].push(self.follow(state).await.1);
            here.iter().for_each(|last| add(state, 1, network, *last));
            ports[1].push(self.follow(state).await.1);
        }
        let [less, more] = ports;
        spread("state to kernel, a network less", less);
        spread("state to kernel, a network more", more);
    }

    /// Follows the state: how long until it is planned, and until the kernel has it.
    async fn follow(&mut self, state: &ClusterState) -> (Duration, Duration) {
        let begun = Instant::now();
        let change = self.planner.next(state);
        let planned = begun.elapsed();
        self.client.change(self.index, state.index, &change).await.unwrap();
        self.index = state.index;
        wait(&self.client, self.index).await;
        (planned, begun.elapsed())
    }
}

/// Until the router holds the plan of this state without a failure.
async fn wait(client: &RouterClient, index: StateIndex) {
    let holds = |status: &RouterStatus| status.applied() == Some(index);
    let held = status(client, holds).await;
    assert_eq!((held.error.clone(), held.failures().next()), (None, None));
}

/// Bytes of the plan that the router keeps, and of the last change of it.
fn journal(site: &Site) -> (f64, f64) {
    let kept = fs::read_to_string(site.folder.join("plan")).unwrap();
    let lengths: Vec<u32> = kept.lines().map(|line| line.len().try_into().unwrap()).collect();
    (lengths[0].into(), lengths[lengths.len() - 1].into())
}
