//! `jaco node drain`: requests, output and exit codes.

use std::sync::{Arc, Mutex};

use expect_test::expect;
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};

use crate::fixture::{Session, node, shop};

/// A cluster whose second node has this availability; records the availabilities that are set.
struct Cluster {
    second: &'static str,
    set_to: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn shown(&self) -> v1::StatusResponse {
        v1::StatusResponse {
            nodes: vec![node("n1", "active", 1), node("n2", self.second, 1)],
            ..shop("active", ["running", "running"])
        }
    }
}

impl Script for Cluster {
    fn overview(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        assert!(request.linearizable, "earlier changes must be seen");
        Ok(Feed::of(vec![self.shown()]))
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![self.shown()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(drain_plan(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        self.set_to.lock().unwrap().push(format!("{} {}", request.hostname, request.availability));
        Ok(v1::SetAvailabilityResponse {})
    }
}

/// The plan of draining `n2`: a replica with data cannot move.
fn drain_plan(request: &v1::WhatifRequest) -> v1::WhatifResponse {
    assert!(request.drain.contains(&"n2".to_owned()), "{request:?}");
    let pinned = v1::PlannedWait {
        deployment: "shop".to_owned(),
        service: "db".to_owned(),
        count: 1,
        reason: "data_stays_on_node".to_owned(),
        details: [("replica", "shop-db-0"), ("node", "n2")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    };
    let preview = v1::Preview { waits: vec![pinned], complete: true, ..Default::default() };
    v1::WhatifResponse { preview: Some(preview) }
}

/// The result of a command, and the availabilities that it has set.
struct Drain {
    code: Option<i32>,
    out: String,
    err: String,
    set_to: Vec<String>,
}

/// Runs a command against a second node with this availability.
fn run(second: &'static str, line: &str) -> Drain {
    let set_to = Arc::default();
    let session = Session::with(Cluster { second, set_to: Arc::clone(&set_to) });
    let run = session.run(line);
    let set_to = set_to.lock().unwrap().clone();
    Drain { code: run.code, out: run.out, err: run.err, set_to }
}

/// R-NODE-3: a drain is cancelled by its own command, and the node is active again.
#[test]
fn drain_is_cancelled() {
    let Drain { code, out, err, set_to } = run("draining", "node drain n2 --cancel");
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "n2 active\n", ""));
    assert_eq!(set_to, ["n2 active"]);
}

/// R-NODE-3: on a node that is not draining, nothing is cancelled and nothing changes.
#[test]
fn cordoned_node_stays_cordoned() {
    let Drain { code, out, err, set_to } = run("cordoned", "node drain n2 --cancel");
    assert_eq!((code, out.as_str()), (Some(0), "n2 is not draining: cordoned\n"));
    assert_eq!((err.as_str(), set_to.len()), ("", 0), "{set_to:?}");
    let Drain { out, .. } = run("cordoned", "node drain n2 --cancel -o json");
    let json: serde_json::Value = serde_json::from_str(&out).expect(&out);
    assert_eq!(json, serde_json::json!({ "node": "n2", "outcome": "cordoned" }));
}

/// R-CLI-7: --cancel excludes the options of waiting, and a wrong command line changes nothing.
#[test]
fn cancel_excludes_options_of_waiting() {
    for with in ["--detach", "--timeout 1m"] {
        let drain = run("draining", &format!("node drain n2 --cancel {with}"));
        assert_eq!((drain.code, drain.set_to.len()), (Some(2), 0), "{}", drain.err);
    }
}

/// R-CLI-8: a wait for a drain that another user cancels ends with its own code.
#[test]
fn wait_ends_when_the_drain_is_cancelled() {
    let Drain { code, out, err, set_to } = run("active", "node drain n2 --leave-data");
    assert_eq!((code, out.as_str(), set_to), (Some(1), "", vec!["n2 draining".to_owned()]));
    expect![[r#"
        1 replica of shop/db could not be placed: the data of shop-db-0 is on node n2, which is to be left
        [time] n2: 1 replica left
        [time] shop-web-1 has not started to move
        error[called_off]: the drain of n2 was cancelled by another user
          help: jaco audit shows who did it
    "#]]
    .assert_eq(&err);
}

/// A cluster whose second node never becomes empty, and has the availability that was set last.
struct NeverEmpty(Arc<Mutex<Vec<String>>>);

impl NeverEmpty {
    fn shown(&self) -> v1::StatusResponse {
        let set_to = self.0.lock().unwrap();
        let last =
            set_to.last().and_then(|set_to| set_to.split_once(' ')).map_or("cordoned", |it| it.1);
        v1::StatusResponse {
            nodes: vec![node("n1", "active", 1), node("n2", last, 1)],
            ..shop("active", ["running", "running"])
        }
    }
}

impl Script for NeverEmpty {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::of(vec![self.shown()]))
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![self.shown()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(drain_plan(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        let set_to = format!("{} {}", request.hostname, request.availability);
        self.0.lock().unwrap().push(set_to);
        Ok(v1::SetAvailabilityResponse {})
    }
}

/// R-NODE-2: at the timeout the availability of the node is restored, and a node that was to be removed
/// stays a member.
#[test]
fn drain_is_cancelled_at_the_timeout() {
    for line in ["node drain n2 --leave-data --timeout 1s", "node rm n2 --leave-data --timeout 1s"]
    {
        let set_to = Arc::default();
        let run = Session::with(NeverEmpty(Arc::clone(&set_to))).run(line);
        assert_eq!(*set_to.lock().unwrap(), ["n2 draining", "n2 cordoned"], "{line}");
        assert!(run.err.contains("error[timed_out]: n2 is not empty after 1.0s"), "{}", run.err);
        assert!(run.err.contains("n2 is cordoned, remaining replicas stay"), "{}", run.err);
    }
}

/// R-NODE-2: a dry run prints the plan and changes nothing.
#[test]
fn dry_run_changes_nothing() {
    for line in ["node drain n2 --dry-run", "node rm n2 --dry-run"] {
        let Drain { code, out, set_to, .. } = run("active", line);
        assert_eq!((code, set_to), (Some(0), vec![]), "{line}");
        assert!(out.contains("the data of shop-db-0 is on node n2"), "{out}");
    }
}

/// A cluster that records the plan and each change of a node in order.
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Script for Recorder {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::of(vec![v1::StatusResponse::default()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        self.0.lock().unwrap().push("plan".to_owned());
        Ok(drain_plan(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        self.0.lock().unwrap().push(format!("{} {}", request.hostname, request.availability));
        Err(Rejection::new(ErrorCode::NodeNotFound, "there is no node n2"))
    }
}

/// R-NODE-2: replicas that cannot move are listed on stderr before the node is changed: also if that
/// fails, and on stderr before the error.
#[test]
fn replicas_that_cannot_move_are_listed_before_the_node_is_drained() {
    let Drain { code, out, err, set_to } = run("draining", "node drain n2 --leave-data --detach");
    assert_eq!((code, set_to), (Some(0), vec!["n2 draining".to_owned()]));
    assert_eq!(out, "n2 draining\n");
    let listed = "1 replica of shop/db could not be placed: the data of shop-db-0 is on node n2, which is to be left";
    assert_eq!(err, format!("{listed}\n"));

    let requests = Arc::default();
    let run =
        Session::with(Recorder(Arc::clone(&requests))).run("node drain n2 --leave-data --detach");
    assert_eq!(*requests.lock().unwrap(), ["plan", "n2 draining"]);
    let lines: Vec<&str> = run.err.lines().take(2).collect();
    assert_eq!(lines, [listed, "error[node_not_found]: there is no node n2"], "{}", run.err);
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""));
}

/// R-NODE-2: a drain that data keeps from ending is refused at once, with what to do instead; nothing changes.
#[test]
fn node_with_data_is_not_drained_in_vain() {
    for line in ["node drain n2", "node drain n2 --detach", "node rm n2"] {
        let Drain { code, out, err, set_to } = run("active", line);
        assert_eq!((code, out.as_str(), set_to), (Some(5), "", vec![]), "{line}: {err}");
        expect![[r#"
            error[cannot_place]: n2 cannot be emptied, and nothing was changed
              because: 1 replica of shop/db cannot move: the data of shop-db-0 is on node n2, which is to be left
              help: jaco disable --node n2 stops its replicas for maintenance, and keeps their data
              help: jaco node drain n2 --leave-data moves the others
        "#]]
        .assert_eq(&err);
    }
}

/// R-NODE-3: of several nodes, none gets replicas of the others.
#[test]
fn other_nodes_are_cordoned_before_the_first_is_drained() {
    let Drain { code, set_to, .. } = run("active", "node drain n1 n2 --leave-data --detach");
    assert_eq!(code, Some(0));
    assert_eq!(set_to, ["n2 cordoned", "n1 draining", "n2 draining"]);
}

/// A cluster that has cancelled the drain of its second node.
struct TimedOut;

impl Script for TimedOut {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::of(vec![timed_out()]))
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![timed_out()]))
    }

    fn whatif(&self, _: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(v1::WhatifResponse { preview: Some(v1::Preview::default()) })
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        assert_eq!(request.drain_timeout_ms, 60_000);
        Ok(v1::SetAvailabilityResponse {})
    }
}

fn timed_out() -> v1::StatusResponse {
    let availability_reason = "drain_timeout: nothing left for 60 s; shop-db-0".to_owned();
    let second = v1::NodeInfo { availability_reason, ..node("n2", "active", 1) };
    v1::StatusResponse {
        nodes: vec![node("n1", "active", 1), second],
        ..shop("active", ["running", "running"])
    }
}

/// R-NODE-2, R-CLI-7: a drain that the cluster cancels is a timeout, with the reason.
#[test]
fn drain_that_the_cluster_cancels_is_a_timeout() {
    let run = Session::with(TimedOut).run("node rm n2 --replica-timeout 1m");
    assert_eq!(run.code, Some(7), "{}", run.err);
    let expected = "error[timed_out]: n2: drain_timeout: nothing left for 60 s; shop-db-0";
    assert!(run.err.contains(expected), "{}", run.err);
}

/// A cluster in which only the data of a replica is left on the second node, which is drained.
struct DataLeft(Arc<Mutex<Vec<u64>>>);

impl DataLeft {
    fn shown() -> v1::StatusResponse {
        let mut status = shop("active", ["running", "running"]);
        let stays = v1::UnplacedInfo {
            count: 1,
            reason: "data_stays_on_node".to_owned(),
            details: [("replica", "shop-db-0"), ("node", "n2")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        };
        status.deployments[0].services[0].unplaced = vec![stays];
        status
    }
}

impl Script for DataLeft {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::of(vec![Self::shown()]))
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![Self::shown()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(drain_plan(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        self.0.lock().unwrap().push(request.drain_timeout_ms);
        Ok(v1::SetAvailabilityResponse {})
    }
}

/// R-NODE-2, R-NODE-3: a drain that leaves data ends once nothing else is left, and is not called off for what stays by
/// choice; the node is not removed then.
#[test]
fn drain_that_leaves_data_ends_with_it() {
    let timeouts = Arc::default();
    let run = Session::with(DataLeft(Arc::clone(&timeouts))).run("node drain n2 --leave-data");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(run.out, "n2 drained but for shop-db-0, whose data is there\n");
    let years = jaco_types::Drain::WITHOUT_DATA.0;
    assert_eq!(*timeouts.lock().unwrap(), [years]);
    let run = Session::with(DataLeft(Arc::default())).run("node rm n2 --leave-data");
    assert_eq!(run.code, Some(3), "{}", run.err);
    assert!(
        run.err.contains("n2 is draining and was not removed: it has the data of shop-db-0"),
        "{}",
        run.err
    );
    let both = "node drain n2 --leave-data --replica-timeout 20s";
    assert_eq!(Session::with(DataLeft(Arc::default())).run(both).code, Some(2));
}

/// A cluster of one node.
struct Alone;

impl Script for Alone {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let nodes = vec![node("n1", "active", 1)];
        Ok(Feed::of(vec![v1::StatusResponse { nodes, ..v1::StatusResponse::default() }]))
    }
}

/// R-NODE-3: the last node is not drained for a removal that is refused.
#[test]
fn the_last_node_is_not_drained_to_be_removed() {
    let run = Session::with(Alone).run("node rm n1");
    assert_eq!(run.code, Some(3), "{}", run.err);
    assert!(run.err.contains("error[node_not_removable]: n1 is the last node"), "{}", run.err);
}
