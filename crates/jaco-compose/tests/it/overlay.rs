//! jaco.yaml: its closed schema, its rules, its precedence.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use jaco_compose::{JacoYaml, Options, Override, resolve};
use jaco_types::Millis;
use jaco_types::route::RouteTls;
use jaco_types::spec::{Concurrency, Placement};
use jaco_types::unit::{Bytes, MilliCores};

use crate::util::{load_text, resolve_text};

const COMPOSE: &str = "
services:
  web: {image: i, deploy: {replicas: 3}, networks: [front]}
  db: {image: i, scale: 2}
  job: {image: i, network_mode: none}
networks: {front: {}, back: {}}
";

fn check(overlay: &str, expect: Expect) {
    let shown = match resolve_text(COMPOSE, Some(overlay)) {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => problems
            .errors()
            .map(|p| format!("{}:{} {} {}", p.line, p.column, p.code.as_str(), p.message))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    expect.assert_eq(&shown);
}

/// R-IN-1
#[test]
fn unknown_keys_have_a_place_and_a_suggestion() {
    let problems = JacoYaml::parse("jaco.yaml", b"deployment: shop\nservcies: []\n").unwrap_err();
    expect![[r#"
        error[unknown_key]: jaco.yaml has no key `servcies`
          --> jaco.yaml:2:1
          |
        2 | servcies: []
          | ^
          help: did you mean `services`?"#]]
    .assert_eq(&problems.to_string());
    check(
        "deployment: shop\nservices: [{name: web, compose_service: x}]",
        expect![
            "2:24 legacy_compose_field `compose_service` belongs to an obsolete version of the compose format"
        ],
    );
}

/// R-PLACE-4: the exact words.
#[test]
fn global_with_replicas_is_refused_in_these_words() {
    check(
        "deployment: shop\nservices:\n  - {name: web, placement: global, replicas: 2}",
        expect![[
            r#"3:46 validation_failed service "web" uses placement=global; remove replicas (global runs one replica per ready node)"#
        ]],
    );
}

/// R-IN-1
#[test]
fn rules_of_the_overlay() {
    check("deployment: shop", expect!["accepted"]);
    check("{}", expect!["accepted"]);
    check("deployment: Shop!", expect!["1:13 invalid_name `Shop!` is not a valid deployment name"]);
    check(
        "deployment: other",
        expect![
            "0:0 invalid_name the compose project is named `shop`, but the deployment is named `other`"
        ],
    );
    check(
        "deployment: shop\nservices: [{name: wbe}]",
        expect!["2:19 unknown_service the compose file has no service `wbe`"],
    );
    check(
        "deployment: shop\nservices: [{name: web}, {name: web}]",
        expect!["2:25 validation_failed service `web` is declared twice"],
    );
    check(
        "deployment: shop\nservices: [{name: web, replicas: -1}]",
        expect!["2:34 validation_failed `replicas` cannot be -1"],
    );
    check(
        "deployment: shop\nservices: [{name: web, placement: somewhere}]",
        expect!["2:35 invalid_value `services[0].placement` cannot be `somewhere`"],
    );
    check(
        "deployment: shop\nservices: [{name: web, placement: hosts}]",
        expect!["2:35 validation_failed service `web` uses placement=hosts without hosts"],
    );
    check(
        "deployment: shop\nservices: [{name: db, placement: hosts, hosts: [a], replicas: 2}]",
        expect![
            "2:63 replicas_exceed_pinned_hosts service `db` has 2 replicas but only 1 pinned hosts"
        ],
    );
    check(
        "deployment: shop\nservices: [{name: web, placement: hosts, hosts: [a, b]}]",
        expect![
            "2:49 replicas_exceed_pinned_hosts service `web` has 3 replicas but only 2 pinned hosts"
        ],
    );
    check(
        "deployment: shop\nservices: [{name: web, networks: [bak]}]",
        expect!["2:34 unknown_network the compose file has no network `bak`"],
    );
    check(
        "deployment: shop\nacme: maybe",
        expect!["2:7 validation_failed `acme` must be `on` or `off`"],
    );
    check("deployment: shop\nacme: OFF\nacme_email: nobody", expect!["accepted"]);
    check(
        "deployment: shop\nacme_email: nobody",
        expect!["2:13 validation_failed `nobody` is not an e-mail address"],
    );
    check(
        "deployment: shop\nservices: [{name: web, resources: {memory: {min: 2GB, max: 1GB}}}]",
        expect!["2:44 invalid_manifest `memory.min` is more than `memory.max`"],
    );
    check(
        "deployment: shop\nservices: [{name: web, spread: {attribute: zone, targets: {a: 60, b: 50}}}]",
        expect!["2:59 invalid_value the shares add up to 110 percent"],
    );
    check(
        "deployment: shop\nservices: [{name: web, constraints: [{attribute: a, operator: like}]}]",
        expect!["2:63 invalid_value `like` is not an operator"],
    );
}

/// R-IN-1
#[test]
fn rules_of_routes() {
    let routes = |list: &str| format!("deployment: shop\nroutes:\n{list}");
    check(&routes("  - {domain: a.b, service: web, port: 80}"), expect!["accepted"]);
    check(&routes("  - {domain: a.b, service: web, port: 1}"), expect!["accepted"]);
    check(&routes("  - {domain: a.b, service: web, port: 65535}"), expect!["accepted"]);
    check(
        &routes("  - {domain: a.b, service: web}"),
        expect!["3:5 missing_key `routes[0]` has no `port`"],
    );
    check(
        &routes("  - {domain: a.b, service: web, port: 0}"),
        expect!["3:39 validation_failed the port of the route is not a valid port number"],
    );
    check(
        &routes("  - {domain: a.b, service: wbe, port: 80}"),
        expect!["3:5 unknown_service the route of `a.b` goes to `wbe`, which does not exist"],
    );
    check(
        &routes("  - {domain: a.b, service: job, port: 80}"),
        expect![
            "3:5 validation_failed the route of `a.b` goes to `job`, which has no network of its own (network_mode: none)"
        ],
    );
    check(
        &routes(
            "  - {domain: a.b, service: web, port: 80, tls: off}\n  - {domain: A.b, service: db, port: 80, path: /x}",
        ),
        expect!["4:5 route_tls_mixed the routes of `a.b` set `tls` to both `auto` and `off`"],
    );
    check(
        &routes(
            "  - {domain: a.b, service: web, port: 80}\n  - {domain: a.b, service: db, port: 80}",
        ),
        expect!["4:5 route_multiple_catchall `a.b` has a second route without a `path`"],
    );
    check(
        &routes(
            "  - {domain: a.b, service: web, port: 80, path: /x}\n  - {domain: a.b, service: db, port: 80, path: /x}",
        ),
        expect!["4:5 validation_failed `a.b` has two routes for `/x`"],
    );
    let resolved = resolve_text(
        COMPOSE,
        Some("deployment: shop\nacme: off\nroutes: [{domain: a.b, service: web, port: 80}]"),
    )
    .unwrap();
    let tls: Vec<&RouteTls> = resolved.routes.values().map(|route| &route.tls).collect();
    assert_eq!(tls, [&RouteTls::Off]);
}

/// R-IN-1: jaco.yaml, then compose, then the default.
#[test]
fn precedence() {
    let plain = resolve_text(COMPOSE, None).unwrap();
    assert_eq!(plain.services["web"].facts.replicas, 3);
    assert_eq!(plain.services["db"].facts.replicas, 2);
    assert_eq!(plain.services["job"].facts.replicas, 1);
    assert_eq!(plain.services["web"].facts.placement, Placement::Spread);
    let overlay = "deployment: shop\nservices: [{name: web, replicas: 0, placement: pack, networks: [back], selectors: auto}, {name: db, selectors: [ssd, eu]}]";
    let resolved = resolve_text(COMPOSE, Some(overlay)).unwrap();
    let web = &resolved.services["web"].facts;
    assert_eq!((web.replicas, &web.placement), (0, &Placement::Pack));
    let canonical = &resolved.services["web"].container.canonical;
    assert!(canonical.starts_with(r#"{"networks":{"back":"#), "{canonical}");
    assert_eq!(web.selectors, ["web".to_owned()].into());
    let labels: BTreeSet<String> = ["ssd".to_owned(), "eu".to_owned()].into();
    assert_eq!(resolved.services["db"].facts.selectors, labels);
}

/// R-RES-1, R-RES-2
#[test]
fn reservations_come_from_override_compose_manifest_in_this_order() {
    let compose = |more: &str| format!("services: {{a: {{image: i{more}}}}}");
    let overlay = "deployment: shop\nservices: [{name: a, resources: {memory: {min: 100, max: 1GB}, cpu: {max: 2 ghz}}}]";
    let bounded = JacoYaml::parse("jaco.yaml", overlay.as_bytes()).unwrap();
    let given = |memory: &str| Options {
        overrides: [("a".to_owned(), Override { memory: Some(memory.to_owned()), cpu: None })]
            .into(),
        ..Options::default()
    };
    let memory = |text: &str, overlay: Option<&JacoYaml>, options: &Options| {
        let project = load_text(text).unwrap().project;
        resolve(&project, overlay, options)
            .map(|resolved| resolved.services["a"].facts.reservation)
            .map_err(|problems| problems.list[0].code.as_str())
    };
    let reserved = ", deploy: {resources: {reservations: {memory: 200m, cpus: '0.25'}}}";
    let none = Options::default();
    let default = memory(&compose(""), None, &none).unwrap();
    assert_eq!((default.memory, default.cpu), (Bytes(0), MilliCores(0)));
    let manifest = memory(&compose(""), Some(&bounded), &none).unwrap();
    assert_eq!((manifest.memory, manifest.cpu), (Bytes(1 << 30), MilliCores(2_000)));
    let written = memory(&compose(reserved), Some(&bounded), &none).unwrap();
    assert_eq!((written.memory, written.cpu), (Bytes(200 << 20), MilliCores(250)));
    let chosen = memory(&compose(reserved), Some(&bounded), &given("300 MB")).unwrap();
    assert_eq!(chosen.memory, Bytes(300 << 20));
    let outside = "unsupported_resource_configuration";
    assert_eq!(memory(&compose(""), Some(&bounded), &given("99")), Err(outside));
    assert_eq!(memory(&compose(""), Some(&bounded), &given("2 GB")), Err(outside));
    assert_eq!(memory(&compose(", mem_reservation: 10m"), Some(&bounded), &none), Err(outside));
    assert_eq!(memory(&compose(""), None, &given("50")).unwrap().memory, Bytes(50 << 20));
}

/// R-IN-1: how much may be sent with a deployment.
#[test]
fn amounts_of_files() {
    let bytes = |text: &str| {
        let text = format!("deployment: shop\nmax_files: {text}");
        JacoYaml::parse("jaco.yaml", text.as_bytes()).map(|overlay| overlay.max_file_bytes)
    };
    assert_eq!(bytes("64MB").unwrap(), Some(64 << 20));
    assert_eq!(bytes("1048576").unwrap(), Some(1 << 20));
    assert_eq!(JacoYaml::parse("j", b"deployment: shop").unwrap().max_file_bytes, None);
    check(
        "deployment: shop\nmax_files: much",
        expect!["2:12 invalid_value `max_files` cannot be `much`"],
    );
}

/// R-IN-1: the rules that need no other service, one by one.
#[test]
fn rules_of_each_value() {
    let top = |line: &str| format!("deployment: shop\n{line}");
    check("deployment: ''", expect!["1:13 invalid_name `` is not a valid deployment name"]);
    check("deployment: [a]", expect!["1:13 wrong_type `deployment` is a list"]);
    check(&top("services: {name: web}"), expect!["2:11 wrong_type `services` is a mapping"]);
    check(&top("services: [{name: ''}]"), expect!["2:19 validation_failed a service has no name"]);
    check(&top("services: [{name: web, replicas: 0}]"), expect!["accepted"]);
    check(
        &top("compose_service: web"),
        expect![
            "2:1 legacy_compose_field `compose_service` belongs to an obsolete version of the compose format"
        ],
    );
    check(
        &top("routes: [{domain: '', service: web, port: 80}]"),
        expect!["2:19 validation_failed the route has no domain"],
    );
    check(
        &top("routes: [{domain: a.b, service: web, port: 65536}]"),
        expect!["2:44 validation_failed the port of the route is not a valid port number"],
    );
    check(
        &top("routes: [{domain: a.b, service: web, port: 80, tls: on}]"),
        expect!["2:53 validation_failed `tls` must be `auto`, `off` or the name of a certificate"],
    );
    check(
        &top("routes: [{domain: a.b, service: web, port: 80, compose_service: web}]"),
        expect![
            "2:48 legacy_compose_field `compose_service` belongs to an obsolete version of the compose format"
        ],
    );
    check(&top("acme: On\nacme_email: a@b.c\nenvironment: /etc/a.env"), expect!["accepted"]);
}

/// R-IN-1: `acme: off` is the routes' default, and a route's own word wins.
#[test]
fn routes_are_as_acme_says() {
    let tls = |acme: &str, own: &str| {
        let routes = format!("routes: [{{domain: a.b, service: web, port: 80{own}}}]");
        let overlay = format!("deployment: shop\n{acme}\n{routes}");
        let routes = resolve_text(COMPOSE, Some(&overlay)).expect("it is a manifest").routes;
        routes.into_values().next().expect("it has a route").tls
    };
    assert_eq!(tls("", ""), RouteTls::Auto);
    assert_eq!(tls("acme: off", ""), RouteTls::Off);
    assert_eq!(tls("acme: off", ", tls: auto"), RouteTls::Auto);
    assert_eq!(tls("", ", tls: off"), RouteTls::Off);
}

/// R-CONS-6: constraints have names; what is written beside a name wins over it, and the first name
/// over the second.
#[test]
fn roles_are_constraints_with_a_name() {
    let roles = "deployment: shop\nroles:\n  fast: cpu=4 zone=a\n  big: {ram: 8G, zone: b}\n";
    let pairs = |more: &str| {
        let resolved = resolve_text(COMPOSE, Some(&format!("{roles}{more}"))).unwrap();
        let facts = &resolved.services["web"].facts;
        let all = facts.deployment_constraints.pairs.iter().chain(&facts.constraints.pairs);
        all.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(pairs("constraints: roles=fast"), "cpu=4 zone=a");
    assert_eq!(pairs("constraints: roles=fast,big cores=2"), "cpu=2 ram=8G zone=a");
    let own = "services: [{name: web, constraints: {roles: big, zone: c}}]";
    assert_eq!(pairs(own), "ram=8G zone=c");
    check(
        "deployment: shop\nroles: {fast: roles=slow, 'a b': cpu=1}\nconstraints: roles=fats",
        expect![[r#"
            2:15 invalid_value a role cannot name other roles
            2:27 invalid_name `a b` is not the name of a role
            3:14 unknown_key there is no role `fats`"#]],
    );
}

/// R-CONS-2, R-CONS-5: what cannot be meant is told at its place, all of it at once; a key that
/// resembles none is another provider's, and no error.
#[test]
fn constraints_are_checked_where_they_are_written() {
    check(
        "deployment: shop\nconstraints: cpu=many instance-type=m5 mem=1G\n\
         services: [{name: web, constraints: {zome: a, ram: 1G, mem: 2G}}]",
        expect![[r#"
            2:14 invalid_value the constraint `cpu` cannot be `many`
            3:44 unknown_key there is no constraint `zome`
            3:52 duplicate_value the constraint `ram` is declared twice"#]],
    );
}

/// R-CONS-1: what a command line asks goes with the model, and wins over jaco.yaml's key by key.
#[test]
fn constraints_go_with_the_model() {
    let mut project = load_text(COMPOSE).unwrap().project;
    project.constrain("ram=2G zone=");
    let sent = jaco_compose::from_model(project.sent_model().to_string().as_bytes()).unwrap();
    let overlay = JacoYaml::parse("jaco.yaml", b"deployment: shop\nconstraints: cpu=1 zone=a");
    let resolved = resolve(&sent, Some(&overlay.unwrap()), &Options::default()).unwrap();
    let facts = &resolved.services["web"].facts;
    let pairs = [("cpu", "1"), ("ram", "2G"), ("zone", "")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(facts.deployment_constraints.pairs, pairs.into());
    project.constrain("ram=much");
    assert!(resolve(&project, None, &Options::default()).is_err());
}

const JOBS: &str = "
services:
  report: {image: i, deploy: {mode: replicated-job}}
  each: {image: i, deploy: {mode: global-job}}
  web: {image: i, depends_on: {gate: {condition: service_completed_successfully}}}
  gate: {image: i, deploy: {mode: replicated-job}}
";

fn schedule_problems(service: &str, schedule: &str) -> String {
    let overlay =
        format!("deployment: shop\nservices:\n  - name: {service}\n    schedule: {schedule}\n");
    match resolve_text(JOBS, Some(&overlay)) {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => {
            let problem = problems.errors().next().unwrap();
            let (line, column) = (problem.line, problem.column);
            format!("{line}:{column} {} {}", problem.code.as_str(), problem.message)
        }
    }
}

/// R-JOB-2: a schedule of a job is read with its defaults.
#[test]
fn schedules_are_read() {
    let overlay = "deployment: shop\nservices:\n  - name: report\n    schedule: {cron: '@daily', \
                   time_zone: europe/berlin, concurrency: replace, deadline: 10m, history: 3}\n  - name: \
                   gate\n    schedule: {cron: '5 4 * * sun'}\n";
    let jobs =
        JOBS.replace("condition: service_completed_successfully", "condition: service_started");
    let jobs = jobs.replace(", depends_on: {gate: {condition: service_started}}", "");
    let resolved = resolve_text(&jobs, Some(overlay)).unwrap();
    let schedule = |name: &str| resolved.services[name].facts.schedule.clone().unwrap();
    let report = schedule("report");
    assert_eq!(report.cron.as_str(), "@daily");
    assert_eq!(report.time_zone.as_str(), "Europe/Berlin", "however it is written");
    assert_eq!(report.concurrency, Concurrency::Replace);
    assert_eq!(report.deadline, Some(Millis(600_000)));
    assert_eq!(report.history.count(), 3);
    let gate = schedule("gate");
    assert_eq!((gate.time_zone.as_str(), gate.concurrency), ("UTC", Concurrency::Forbid));
    assert_eq!((gate.deadline, gate.history.count()), (None, 10));
    assert_eq!(resolved.services["web"].facts.schedule, None);
}

/// R-JOB-2, R-IN-1: what is wrong with a schedule is said with its place.
#[test]
fn wrong_schedules_are_refused() {
    for (service, schedule, expected) in [
        (
            "report",
            "{cron: '61 * * * *'}",
            "4:22 invalid_value `61 * * * *` is not a cron expression that is ever due",
        ),
        (
            "report",
            "{cron: '0 0 30 2 *'}",
            "4:22 invalid_value `0 0 30 2 *` is not a cron expression that is ever due",
        ),
        (
            "report",
            "{cron: '@daily', time_zone: Mars/Base}",
            "4:43 invalid_value `Mars/Base` is not a time zone",
        ),
        (
            "report",
            "{cron: '@daily', concurrency: allow}",
            "4:45 invalid_value `concurrency` cannot be `allow`: a replica of a job is one container at a time",
        ),
        (
            "report",
            "{cron: '@daily', concurrency: forbd}",
            "4:45 invalid_value `concurrency` cannot be `forbd`",
        ),
        (
            "report",
            "{cron: '@daily', deadline: 10ms}",
            "4:42 invalid_value `deadline` is shorter than a run takes to begin",
        ),
        ("report", "{cron: '@daily', history: 0}", "4:41 invalid_value `history` cannot be 0"),
        ("report", "{cron: '@daily', retry: 3}", "4:32 unknown_key"),
        (
            "web",
            "{cron: '@daily'}",
            "4:15 validation_failed service `web` has a schedule and is not a replicated job",
        ),
        (
            "each",
            "{cron: '@daily'}",
            "4:15 validation_failed service `each` has a schedule and is not a replicated job",
        ),
        (
            "gate",
            "{cron: '@daily'}",
            "4:15 validation_failed service `gate` has a schedule, and `web` would wait for its next run",
        ),
    ] {
        let found = schedule_problems(service, schedule);
        assert!(found.starts_with(expected), "{found}");
    }
    let found = schedule_problems("report", "{time_zone: UTC}");
    assert!(found.contains("missing_key"), "{found}");
}
