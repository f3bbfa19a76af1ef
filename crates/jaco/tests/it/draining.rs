//! `jaco node drain`: what it sends, and how it ends.

use std::sync::{Arc, Mutex};

use expect_test::expect;
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;

use crate::session::{Session, node, shop};

/// Its second node is as the test says; what a node is made is noted.
struct Cluster {
    second: &'static str,
    made: Arc<Mutex<Vec<String>>>,
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
    fn status(&self, request: v1::StatusRequest, _: Option<&str>) -> Answer<v1::StatusResponse> {
        assert!(request.linearizable, "what was agreed on before is seen");
        Ok(self.shown())
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![self.shown()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(asked(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        self.made.lock().unwrap().push(format!("{} {}", request.hostname, request.availability));
        Ok(v1::SetAvailabilityResponse {})
    }
}

/// What cannot move where `n2` is to be empty: its data is there.
fn asked(request: &v1::WhatifRequest) -> v1::WhatifResponse {
    assert!(request.drain.contains(&"n2".to_owned()), "{request:?}");
    let pinned = v1::PlannedWait {
        deployment: "shop".to_owned(),
        service: "db".to_owned(),
        count: 1,
        reason: "data_stays_on_node".to_owned(),
        details: [("replica".to_owned(), "shop-db-0".to_owned())].into(),
    };
    let preview = v1::Preview { waits: vec![pinned], complete: true, ..Default::default() };
    v1::WhatifResponse { preview: Some(preview) }
}

/// Runs a command against a second node that is so: exit code and stdout, and what was made of nodes.
fn run(second: &'static str, line: &str) -> (Option<i32>, String, Vec<String>) {
    let made = Arc::default();
    let session = Session::with(Cluster { second, made: Arc::clone(&made) });
    let did = session.run(line);
    let made = made.lock().unwrap().clone();
    (did.code, format!("{}{}", did.out, did.err), made)
}

/// R-NODE-3: a drain is called off by its own command, and the node takes replicas again.
#[test]
fn a_drain_is_called_off() {
    let (code, said, made) = run("draining", "node drain n2 --cancel");
    assert_eq!((code, said.as_str()), (Some(0), "n2 active\n"));
    assert_eq!(made, ["n2 active"]);
}

/// R-NODE-3: there is nothing to call off on a node that is not draining, and it stays as it is.
#[test]
fn a_cordoned_node_stays_cordoned() {
    let (code, said, made) = run("cordoned", "node drain n2 --cancel");
    assert_eq!((code, said.as_str()), (Some(0), "n2 is not being drained: cordoned\n"));
    assert!(made.is_empty(), "{made:?}");
    let (_, said, _) = run("cordoned", "node drain n2 --cancel -o json");
    let json: serde_json::Value = serde_json::from_str(&said).expect(&said);
    assert_eq!(json, serde_json::json!({ "node": "n2", "outcome": "cordoned" }));
}

/// R-CLI-7: who calls a drain off does not wait for it; a wrong command line changes nothing.
#[test]
fn calling_off_waits_for_nothing() {
    for with in ["--detach", "--timeout 1m"] {
        let (code, said, made) = run("draining", &format!("node drain n2 --cancel {with}"));
        assert_eq!((code, made.len()), (Some(2), 0), "{said}");
    }
}

/// R-CLI-8: whoever waits for a drain that somebody calls off is told so, with a code.
#[test]
fn a_wait_ends_when_the_drain_is_called_off() {
    let (code, said, made) = run("active", "node drain n2");
    assert_eq!((code, made), (Some(1), vec!["n2 draining".to_owned()]));
    expect![[r#"
        1 replica of shop/db would have no place: data_stays_on_node, replica=shop-db-0
        [time] n2: 1 replica left
        [time] shop-web-1 waits
        error[called_off]: the drain of n2 was called off by somebody else
          help: jaco audit shows by whom
    "#]]
    .assert_eq(&said);
}

/// A node that never gets empty; what it was made last is what it is.
struct Full(Arc<Mutex<Vec<String>>>);

impl Full {
    fn shown(&self) -> v1::StatusResponse {
        let made = self.0.lock().unwrap();
        let last = made.last().and_then(|made| made.split_once(' ')).map_or("cordoned", |it| it.1);
        v1::StatusResponse {
            nodes: vec![node("n1", "active", 1), node("n2", last, 1)],
            ..shop("active", ["running", "running"])
        }
    }
}

impl Script for Full {
    fn status(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<v1::StatusResponse> {
        Ok(self.shown())
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![self.shown()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(asked(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        let made = format!("{} {}", request.hostname, request.availability);
        self.0.lock().unwrap().push(made);
        Ok(v1::SetAvailabilityResponse {})
    }
}

/// R-NODE-2: a node that is not empty in time is what it was before, a cordoned one cordoned; a node
/// that was to be removed stays a member.
#[test]
fn a_drain_that_takes_too_long_is_called_off() {
    for line in ["node drain n2 --timeout 1s", "node remove n2 --timeout 1s"] {
        let made = Arc::default();
        let did = Session::with(Full(Arc::clone(&made))).run(line);
        assert_eq!(*made.lock().unwrap(), ["n2 draining", "n2 cordoned"], "{line}");
        assert!(did.err.contains("error[timed_out]: n2 is not empty after 1.0s"), "{}", did.err);
        assert!(did.err.contains("n2 is cordoned, what is on it stays"), "{}", did.err);
    }
}

/// R-NODE-2: what would move and what could not is said, and nothing is changed.
#[test]
fn a_dry_run_changes_nothing() {
    for line in ["node drain n2 --dry-run", "node remove n2 --dry-run"] {
        let (code, said, made) = run("active", line);
        assert_eq!((code, made), (Some(0), vec![]), "{line}");
        assert!(said.contains("data_stays_on_node") && said.contains("shop-db-0"), "{said}");
    }
}

/// R-NODE-2: what cannot move is named before the node is touched.
#[test]
fn what_cannot_move_is_named_first() {
    let (code, said, made) = run("draining", "node drain n2 --detach");
    assert_eq!((code, made), (Some(0), vec!["n2 draining".to_owned()]));
    let (first, rest) = said.split_once('\n').expect("two lines");
    assert_eq!(first, "n2 draining");
    assert!(rest.contains("data_stays_on_node, replica=shop-db-0"), "{said}");
}

/// R-NODE-3: of several nodes none takes what leaves the others.
#[test]
fn several_nodes_are_closed_before_the_first_is_drained() {
    let (code, _, made) = run("active", "node drain n1 n2 --detach");
    assert_eq!(code, Some(0));
    assert_eq!(made, ["n2 cordoned", "n1 draining", "n2 draining"]);
}

/// A cluster that has given up draining its second node.
struct GaveUp;

impl Script for GaveUp {
    fn status(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<v1::StatusResponse> {
        Ok(gave_up())
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::open(vec![gave_up()]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        Ok(asked(&request))
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        assert_eq!(request.drain_patience_ms, 60_000);
        Ok(v1::SetAvailabilityResponse {})
    }
}

fn gave_up() -> v1::StatusResponse {
    let availability_reason = "drain_timeout: nothing left for 60 s; shop-db-0".to_owned();
    let second = v1::NodeInfo { availability_reason, ..node("n2", "active", 1) };
    v1::StatusResponse {
        nodes: vec![node("n1", "active", 1), second],
        ..shop("active", ["running", "running"])
    }
}

/// R-NODE-2, R-CLI-7: where the cluster gives up, whoever waits is told so and why.
#[test]
fn a_drain_that_the_cluster_gives_up_is_a_timeout() {
    let did = Session::with(GaveUp).run("node remove n2 --replica-timeout 1m");
    assert_eq!(did.code, Some(7), "{}", did.err);
    let said = "error[timed_out]: n2: drain_timeout: nothing left for 60 s; shop-db-0";
    assert!(did.err.contains(said), "{}", did.err);
}
