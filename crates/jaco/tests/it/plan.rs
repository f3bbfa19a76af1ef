//! `jaco plan`, `jaco explain` and `jaco whatif`: output, saved plans and exit codes.

use expect_test::{Expect, expect};
use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use serde_json::Value;

use crate::fixture::{Session, preview};

const COMPOSE: &str = "name: shop\nservices:\n  web:\n    image: web:2\n";

/// A cluster that answers with this plan, and accepts only requests that expect it.
struct Planner {
    change: &'static str,
    preview: v1::Preview,
}

impl Script for Planner {
    fn explain(&self, request: v1::ExplainRequest, _: Option<&str>) -> Answer<v1::ExplainResponse> {
        let node = |name: &str, failed: &[(&str, &str)], cpu| v1::NodeAnswer {
            node: name.to_owned(),
            failed: failed
                .iter()
                .map(|(rule, text)| v1::FailedRule {
                    rule: (*rule).to_owned(),
                    text: (*text).to_owned(),
                })
                .collect(),
            affinity: 50,
            of_service: 1,
            of_all: 3,
            cpu_left_millis: cpu,
            memory_left_bytes: None,
            score: None,
        };
        let full =
            [("cordoned", "cordoned"), ("insufficient_cpu", "100m of cpu left, 500m needed")];
        Ok(v1::ExplainResponse {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            placement: "spread".to_owned(),
            desired: 3,
            present: 2,
            replica_node: if request.replica.is_empty() { "" } else { "n1" }.to_owned(),
            replica: request.replica,
            nodes: vec![node("n1", &[], None), node("n2", &full, Some(100))],
            waits: vec![v1::PlannedWait {
                deployment: "shop".to_owned(),
                service: "web".to_owned(),
                count: 1,
                reason: "no_eligible_node".to_owned(),
                ..Default::default()
            }],
            smallest_change: vec!["uncordon n2".to_owned(), "free 400m of cpu on n2".to_owned()],
            shares: Vec::new(),
        })
    }

    fn explain_path(
        &self,
        request: v1::ExplainPathRequest,
        _: Option<&str>,
    ) -> Answer<v1::ExplainPathResponse> {
        let step = |step: &str, holds, detail: &str, fix: &str| v1::PathStep {
            step: step.to_owned(),
            holds,
            detail: detail.to_owned(),
            fix: fix.to_owned(),
        };
        if !request.url.is_empty() {
            let steps = vec![step("route", true, "shop.example.com goes to shop/web:8080", "")];
            let from = "outside".to_owned();
            return Ok(v1::ExplainPathResponse {
                from,
                to: request.url,
                steps,
                ..Default::default()
            });
        }
        let mut steps = vec![step("network", true, "both are attached to shop/default", "")];
        if request.port > 0 {
            steps.push(step("connect", false, "nothing listens", "let it listen"));
        }
        Ok(v1::ExplainPathResponse {
            from: "shop-web-0".to_owned(),
            from_node: "n1".to_owned(),
            to: request.to,
            port: request.port,
            steps,
            asked: vec!["shop-web-0".to_owned(), "shop-web-1".to_owned()],
        })
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        let v1::WhatifRequest { lose, add, scale, .. } = request;
        assert_eq!(lose, ["n3", "n4"]);
        assert_eq!((add[0].hostname.as_str(), add[0].cpu_millis), ("n9", 8000));
        assert_eq!((scale[0].service.as_str(), scale[0].replicas), ("web", 12));
        Ok(v1::WhatifResponse { preview: Some(self.preview.clone()) })
    }

    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        if !request.dry_run && request.expected_digest != self.preview.digest {
            return Err(Rejection::new(ErrorCode::StalePlan, "the cluster has moved"));
        }
        Ok(v1::ApplyResponse {
            deployment: "shop".to_owned(),
            revision: 2,
            change: self.change.to_owned(),
            raft_index: 40,
            preview: request.dry_run.then(|| self.preview.clone()),
            ..Default::default()
        })
    }
}

/// A service with spread criteria, on nodes that are compared by Nomad's formulas.
struct Scored;

impl Script for Scored {
    fn explain(&self, _: v1::ExplainRequest, _: Option<&str>) -> Answer<v1::ExplainResponse> {
        let node = |name: &str, total, anti_affinity| v1::NodeAnswer {
            node: name.to_owned(),
            score: Some(v1::NodeScore {
                fit: 759_747,
                anti_affinity,
                affinity: Some(0),
                spread: None,
                total,
            }),
            ..Default::default()
        };
        let share = |value: Option<&str>, desired, actual| v1::SpreadShare {
            attribute: "node.zone".to_owned(),
            value: value.map(str::to_owned),
            desired,
            actual,
        };
        Ok(v1::ExplainResponse {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            placement: "pack".to_owned(),
            desired: 3,
            present: 3,
            nodes: vec![node("n1", -80_084, Some(-1_000_000)), node("n2", 379_874, None)],
            shares: vec![share(Some("a"), 2, 3), share(Some("b"), 1, 0), share(None, 0, 0)],
            ..Default::default()
        })
    }
}

/// R-CLI-3, R-SPREAD-6: the shares of the spread criteria, and Nomad's scores with all their terms.
#[test]
fn shares_and_scores_are_explained() {
    let session = Session::with(Scored);
    check(
        &session,
        "explain shop/web",
        &expect![[r#"
        shop/web: placement pack, 3 of 3 present
        one more replica: 2 of 2 nodes eligible

        SPREAD OVER  VALUE   DESIRED  ACTUAL
        node.zone    a       2        3
        node.zone    b       1        0
        node.zone    (none)  0        0

        SCORE OF NODE  TOTAL   BINPACK  ANTI-AFFINITY  AFFINITY  SPREAD  ELIGIBLE
        n2             0.380   0.760    -              0.000     -       yes
        n1             -0.080  0.760    -1.000         0.000     -       yes

        NODE  OF SERVICE  OF ALL  CPU LEFT  MEMORY LEFT  AFFINITY  ELIGIBILITY
        n1    0           0       -         -            0         eligible
        n2    0           0       -         -            0         eligible
        --- stderr
        --- exit 0
    "#]],
    );
    check(
        &session,
        "explain shop/web -o json",
        &expect![[r#"
        {
          "deployment": "shop",
          "desired": 3,
          "nodes": [
            {
              "affinity": 0,
              "eligible": true,
              "failed": [],
              "node": "n1",
              "of_all": 0,
              "of_service": 0,
              "score": {
                "affinity_micros": 0,
                "anti_affinity_micros": -1000000,
                "fit_micros": 759747,
                "total_micros": -80084
              }
            },
            {
              "affinity": 0,
              "eligible": true,
              "failed": [],
              "node": "n2",
              "of_all": 0,
              "of_service": 0,
              "score": {
                "affinity_micros": 0,
                "fit_micros": 759747,
                "total_micros": 379874
              }
            }
          ],
          "pending": [],
          "placement": "pack",
          "present": 3,
          "service": "web",
          "shares": [
            {
              "actual": 3,
              "attribute": "node.zone",
              "desired": 2,
              "value": "a"
            },
            {
              "actual": 0,
              "attribute": "node.zone",
              "desired": 1,
              "value": "b"
            },
            {
              "actual": 0,
              "attribute": "node.zone",
              "desired": 0,
              "value": null
            }
          ],
          "smallest_change": []
        }
        --- stderr
        --- exit 0
    "#]],
    );
}

fn planner(change: &'static str, preview: v1::Preview) -> Session {
    let session = Session::with(Planner { change, preview });
    session.write("compose.yaml", COMPOSE);
    session
}

fn check(session: &Session, line: &str, expected: &Expect) {
    let run = session.run(line);
    let code = run.code.map(|code| code.to_string()).unwrap_or_default();
    expected.assert_eq(&format!("{}--- stderr\n{}--- exit {code}\n", run.out, run.err));
}

/// R-CLI-2: a plan shows nodes, actions with their reasons, and losses that would not be survived.
#[test]
fn plan_shows_changes_and_survival() {
    let mut plan = preview();
    plan.waits.push(v1::PlannedWait {
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        count: 1,
        reason: "no_eligible_node".to_owned(),
        details: [("nodes".to_owned(), "2 draining".to_owned())].into(),
    });
    plan.changes[3].node = String::new();
    plan.complete = false;
    plan.stays.push(v1::PlannedStay {
        deployment: "shop".to_owned(),
        service: "db".to_owned(),
        replica: "shop-db-0".to_owned(),
        node: "n1".to_owned(),
        failed: vec!["does not satisfy node.zone = b".to_owned()],
    });
    check(
        &planner("updated", plan),
        "plan",
        &expect![[r#"
            shop revision 2 would be updated; nothing was changed

            SERVICE   CHANGE   DETAILS
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     REASON
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; start first
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       surplus
            create   shop-web-3  ?        spread

            the plan is incomplete: it has more steps than are computed in advance; replicas without a node get one in a later step
            1 replica of shop/web could not be placed: no node is eligible (nodes 2 draining)
            shop-db-0 does not comply and stays on n1: n1 does not satisfy node.zone = b
            a changed rule moves no replica; draining its node moves one without data
            survives the loss of any one node: no: n2 (2 replicas of shop/web would be pending)
            survives the loss of any one zone: no node has a zone
            --- stderr
            --- exit 0
        "#]],
    );
}

/// R-CLI-7: 4 if something would change, 0 if nothing would, 5 if replicas could not be placed.
#[test]
fn exit_code_reports_pending_changes() {
    let code = |session: &Session, line: &str| session.run(line).code;
    let pending = planner("updated", preview());
    assert_eq!((code(&pending, "plan"), code(&pending, "plan --exit-code")), (Some(0), Some(4)));
    // Changes of other deployments do not count.
    let mut others = preview();
    others.changes.iter_mut().for_each(|change| change.deployment = "blog".to_owned());
    assert_eq!(code(&planner("unchanged", others.clone()), "plan --exit-code"), Some(0));
    let wait = |deployment: &str| v1::PlannedWait {
        deployment: deployment.to_owned(),
        count: 1,
        ..Default::default()
    };
    others.waits.push(wait("blog"));
    assert_eq!(code(&planner("unchanged", others.clone()), "plan --exit-code"), Some(0));
    others.waits.push(wait("shop"));
    assert_eq!(code(&planner("updated", others), "plan --exit-code"), Some(5));
}

/// R-CLI-2: a loss that is not survived, or not known to be survived, has its own exit code.
#[test]
fn survival_can_be_required() {
    let session = planner("updated", preview());
    assert_eq!(session.run("plan -q --require-survive node").code, Some(11));
    let run = session.run("plan --require-survive zone -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &json["survives"]), (Some(11), &false.into()));
    assert!(run.err.contains("would_not_survive"), "{}", run.err);
    let mut safe = preview();
    safe.survival[0].losses.clear();
    assert_eq!(planner("updated", safe).run("plan -q --require-survive node").code, Some(0));
}

/// R-CLI-2: a saved plan is applied as it was shown, or refused with 8.
#[test]
fn saved_plan_is_applied_or_stale() {
    let session = planner("updated", preview());
    assert_eq!(session.run("plan --out plan.json").code, Some(0));
    assert_eq!(session.run("apply -q --detach plan.json").code, Some(0));
    let moved = planner("updated", v1::Preview { digest: "d2".to_owned(), ..preview() });
    let kept = std::fs::read_to_string(session.folder.path().join("plan.json")).unwrap();
    moved.write("plan.json", &kept);
    let run = moved.run("apply -q --detach plan.json");
    assert_eq!(run.code, Some(8), "{}", run.err);
    assert!(run.err.contains("error[stale_plan]"), "{}", run.err);
}

/// R-CLI-6: the JSON holds the whole plan.
#[test]
fn plan_is_printed_as_json() {
    let run = planner("updated", preview()).run("plan -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["outcome"], "changes_pending");
    assert_eq!(json["changes"][1]["from_node"], "n3");
    assert_eq!(json["changes"][0]["fields"][0], "image web:1 → web:2");
    assert_eq!(json["survival"][0]["losses"][0]["pending"]["shop/web"], 2);
    assert_eq!(json["services"][0]["change"], "updated");
}

/// R-CLI-3: every node with every rule and the values of the ranking.
#[test]
fn eligibility_of_every_node_is_explained() {
    let session = planner("unchanged", preview());
    check(
        &session,
        "explain shop-web-0",
        &expect![[r#"
            shop/web: placement spread, 2 of 3 present
            shop-web-0 is on n1
            1 replica of shop/web cannot be placed: no node is eligible
            one more replica: 1 of 2 nodes eligible
            what is pending has conditions of its own, such as its data; the table is about a new replica
            smallest change: uncordon n2; and free 400m of cpu on n2

            NODE  OF SERVICE  OF ALL  CPU LEFT  MEMORY LEFT  AFFINITY  ELIGIBILITY
            n1    1           3       -         -            50        eligible
            n2    1           3       100m      -            50        cordoned; 100m of cpu left, 500m needed
            --- stderr
            --- exit 0
        "#]],
    );
    let run = session.run("explain shop/web -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["nodes"][1]["failed"][1]["rule"], "insufficient_cpu");
    assert_eq!(json["smallest_change"][1], "free 400m of cpu on n2");
    assert_eq!((&json["nodes"][0]["eligible"], &json["replica"]), (&true.into(), &().into()));
}

/// R-CLI-3: the steps of a path, and the fix of the one that does not hold; the exit code says whether all hold.
#[test]
fn a_path_is_printed_step_by_step() {
    let session = planner("unchanged", preview());
    check(
        &session,
        "explain shop/web --to shop/db:5432",
        &expect![[r#"
        shop-web-0 on n1 to shop/db:5432
        asked from shop-web-0, shop-web-1

        STEP     HOLDS  FOUND
        network  yes    both are attached to shop/default
        connect  no     nothing listens

        fix: let it listen
        --- stderr
        --- exit 1
    "#]],
    );
    let run = session.run("explain shop/web --to shop/db -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &json["holds"], &json["port"]), (Some(0), &true.into(), &().into()));
    assert_eq!(json["steps"][0]["step"], "network");
    for port in ["0", "http", "65536"] {
        let run = session.run(&format!("explain shop/web --to shop/db:{port}"));
        assert_eq!(run.code, Some(2), "{}", run.err);
    }
}

/// R-CLI-3: an address is asked for from outside, and only that.
#[test]
fn a_request_from_outside_is_explained() {
    let session = planner("unchanged", preview());
    check(
        &session,
        "explain --to https://shop.example.com/cart",
        &expect![[r#"
            outside to https://shop.example.com/cart

            STEP   HOLDS  FOUND
            route  yes    shop.example.com goes to shop/web:8080
            --- stderr
            --- exit 0
        "#]],
    );
    for line in
        ["explain", "explain --to shop/db", "explain shop/web --to https://shop.example.com"]
    {
        let run = session.run(line);
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
    }
}

/// R-CLI-3: a what-if is sent as given, and printed like a plan.
#[test]
fn whatif_is_printed_like_a_plan() {
    let session = planner("unchanged", preview());
    let mut command = session.command("whatif --lose n3 --lose n4 --scale web=12 -o json --add");
    let run = session.result(command.arg("n9 zone=c cpu=8").output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &json["changes"][1]["from_node"]), (Some(0), &"n3".into()));
    assert_eq!(session.run("whatif").code, Some(2), "without a hypothesis there is no question");
}

/// R-CLI-2: a plan says which services stop first and why that may be, has a total where it is large, and
/// lists replicas in natural order.
#[test]
fn large_plans_have_a_total_and_name_what_stops_first() {
    let change = |number: u32, order: &str| v1::PlannedChange {
        action: if order.is_empty() { "create" } else { "replace" }.to_owned(),
        replica: format!("shop-web-{number}"),
        node: "n1".to_owned(),
        reason: "spec_changed".to_owned(),
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        order: order.to_owned(),
        ..Default::default()
    };
    let orders = [(10, ""), (7, "stop_first"), (8, "stop_first"), (9, "stop_first"), (11, "")];
    let changes: Vec<_> = orders.iter().map(|(number, order)| change(*number, order)).collect();
    let of = |changes: &[v1::PlannedChange]| {
        let preview = v1::Preview { changes: changes.to_vec(), complete: true, ..preview() };
        planner("updated", preview).run("plan").out
    };
    let large = of(&changes);
    assert!(large.contains("5 replicas would change: 2 create, 3 replace\n"), "{large}");
    let sentence = "shop/web stops each replica before its successor starts: it is a job, writes to a volume, \
                    holds a host port, has no room for both, or `order` says so\n";
    assert_eq!(large.matches(sentence).count(), 1, "{large}");
    let position = |number: u32| large.find(&format!("shop-web-{number} ")).expect(&large);
    assert!(position(9) < position(10), "{large}");
    let small = of(&changes[..1]);
    assert!(!small.contains("would change") && !small.contains("stops each"), "{small}");
}

/// R-EDGE-2: a plan names the routes that come, go and change, also where no replica does.
#[test]
fn plan_names_routes() {
    let route = |route: &str, change: &str, target: &str| v1::PlannedRoute {
        deployment: "shop".to_owned(),
        route: route.to_owned(),
        change: change.to_owned(),
        target: target.to_owned(),
        tls: "auto".to_owned(),
    };
    let routes = vec![
        route("example.com", "added", "web:8080"),
        route("example.com/old", "removed", "redirect to /new"),
    ];
    let preview =
        v1::Preview { routes, digest: "d1".to_owned(), complete: true, ..Default::default() };
    let session = planner("updated", preview);
    check(
        &session,
        "plan",
        &expect![[r#"
            shop revision 2 would be updated; nothing was changed

            ROUTE            CHANGE   DEPLOYMENT  TARGET            TLS
            example.com      added    shop        web:8080          auto
            example.com/old  removed  shop        redirect to /new  auto

            no replica would change
            --- stderr
            --- exit 0
        "#]],
    );
    let json: Value = serde_json::from_str(&session.run("plan -o json").out).unwrap();
    assert_eq!(json["routes"][1]["change"], "removed");
    assert_eq!(json["outcome"], "changes_pending");
}

/// R-EDGE-2: a plan names the ports that every node would answer, or not any more.
#[test]
fn plan_names_published_ports() {
    let port = |port: &str, change: &str| v1::PlannedPort {
        deployment: "shop".to_owned(),
        port: port.to_owned(),
        change: change.to_owned(),
        target: "web:80".to_owned(),
    };
    let ports = vec![port("*:8080/tcp", "added"), port("10.0.0.1:90/tcp", "removed")];
    let preview =
        v1::Preview { ports, digest: "d1".to_owned(), complete: true, ..Default::default() };
    let session = planner("updated", preview);
    check(
        &session,
        "plan",
        &expect![[r#"
        shop revision 2 would be updated; nothing was changed

        PORT             CHANGE   DEPLOYMENT  TARGET
        *:8080/tcp       added    shop        web:80
        10.0.0.1:90/tcp  removed  shop        web:80

        no replica would change
        --- stderr
        --- exit 0
    "#]],
    );
    let json: Value = serde_json::from_str(&session.run("plan -o json").out).unwrap();
    assert_eq!(json["ports"][0]["port"], "*:8080/tcp");
}
