//! Numbers at and beyond the bounds of what engines and the planner take: what runs can be read by the agent, what
//! cannot run is refused where it stands. R-IN-2, R-IN-3.

use std::collections::BTreeSet;

use jaco_compose::model::ContainerSpec;
use jaco_compose::support::{Class, Inside, Object, Shape, TOP_LEVEL};
use serde_json::{Value as Json, json};

use crate::util::{problems_of, resolve_text};

/// The places of all numbers of a service, with the keys that have to stand beside them.
fn numbers(object: &'static Object, path: &[Step], all: &mut Vec<(Vec<Step>, &'static Shape)>) {
    for key in
        object.keys.iter().filter(|key| matches!(key.class, Class::Honoured | Class::Differently))
    {
        let mut path = path.to_vec();
        path.push(Step::Key(key.name, object.required));
        let mut shape = &key.shape;
        loop {
            match shape.inside() {
                Inside::Itself(inner) => shape = inner,
                Inside::Items(inner) => {
                    path.push(Step::Item);
                    shape = inner;
                }
                Inside::Values(inner) => {
                    path.push(Step::Key("n", &[]));
                    shape = inner;
                }
                Inside::Keys(inner) => {
                    numbers(inner, &path, all);
                    break;
                }
                Inside::Nothing => {
                    all.push((path, shape));
                    break;
                }
            }
        }
    }
}

/// A step from a service to a value in it.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A key, and those that its mapping has to have.
    Key(&'static str, &'static [&'static str]),
    Item,
}

/// A service with `value` at a place.
fn service(path: &[Step], value: Json) -> Json {
    path.iter().rev().fold(value, |value, step| match step {
        Step::Item => json!([value]),
        Step::Key(key, required) => {
            let beside = |name: &&str| match *name {
                "type" => json!("tmpfs"),
                "capabilities" => json!(["gpu"]),
                _ => json!(1),
            };
            let mut map: serde_json::Map<_, _> =
                required.iter().map(|name| ((*name).to_owned(), beside(name))).collect();
            if *key == "tmpfs" {
                map.insert("target".to_owned(), json!("/t"));
            }
            map.insert((*key).to_owned(), value);
            Json::Object(map)
        }
    })
}

fn shown(path: &[Step]) -> String {
    let name = |step: &Step| match step {
        Step::Key(key, _) => (*key).to_owned(),
        Step::Item => "[]".to_owned(),
    };
    path.iter().map(name).collect::<Vec<_>>().join(".")
}

/// Whatever number stands at a key, the file is refused with a place and an expectation, or the agent can read the
/// container that is made of it.
#[test]
fn any_number_is_refused_or_can_be_read() {
    let Inside::Values(shape) = TOP_LEVEL.key("services").expect("it is there").shape.inside()
    else {
        panic!("services have names")
    };
    let Inside::Keys(keys) = shape.inside() else { panic!("a service has keys") };
    let mut places = Vec::new();
    numbers(keys, &[], &mut places);
    let values = [
        json!(-1),
        json!(0),
        json!(1),
        json!(9),
        json!(1_001),
        json!(65_535),
        json!(65_536),
        json!(1_u64 << 32),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(0.000_000_1),
        json!(1e300),
        json!(-0.5),
        json!("-2"),
        json!("1e-9"),
    ];
    let (mut checked, mut ran) = (BTreeSet::new(), 0);
    for (path, shape) in places {
        let is_number = matches!(
            shape,
            Shape::Int
                | Shape::Number
                | Shape::Bytes
                | Shape::BytesText
                | Shape::Mode
                | Shape::Count
                | Shape::StrOrNum
        );
        if !is_number {
            continue;
        }
        checked.insert(shown(&path));
        for value in &values {
            let mut web = service(&path, value.clone());
            web["image"] = json!("i");
            let text = json!({"services": {"web": web}, "networks": {"n": {}}}).to_string();
            let at = format!("{} = {value}", shown(&path));
            match resolve_text(&text, None) {
                Ok(resolved) => {
                    ran += 1;
                    let canonical = &resolved.services["web"].container.canonical;
                    if let Err(error) = ContainerSpec::parse(canonical) {
                        panic!("{at}: {error:?}\n{canonical}");
                    }
                }
                Err(problems) => {
                    let first = problems.errors().next().expect("there is an error");
                    assert_eq!(first.line, 1, "{at}: {problems}");
                    assert!(
                        first.expected.is_some() || first.suggestion.is_some(),
                        "{at}: {problems}"
                    );
                }
            }
        }
    }
    assert!(checked.len() >= 35, "{checked:#?}");
    assert!(ran > 200, "only {ran} of them run, so this says little");
}

/// The problem of a service with these members, without what would have been right.
fn said(members: &str) -> String {
    let text = format!("services:\n  web:\n    image: i\n    {members}\n");
    let said = match resolve_text(&text, None) {
        Ok(_) => "it runs".to_owned(),
        Err(problems) => problems_of(&problems),
    };
    said.lines().find(|line| !line.contains(" warning ")).unwrap_or_default().to_owned()
}

/// Each bound from both sides, with the place of the number that is beyond it.
#[test]
fn numbers_have_bounds() {
    let runs = "it runs";
    for (members, expected) in [
        ("blkio_config: {weight: 10}", runs),
        ("blkio_config: {weight: 1000}", runs),
        ("blkio_config: {weight: 0}", runs),
        (
            "blkio_config: {weight: 9}",
            "4:28 error invalid_value: `blkio_config.weight` cannot be 9",
        ),
        (
            "blkio_config: {weight: 1001}",
            "4:28 error invalid_value: `blkio_config.weight` cannot be 1001",
        ),
        (
            "blkio_config: {weight_device: [{path: /a, weight: 10}, {path: /b, weight: 70000}]}",
            "4:79 error invalid_value: `blkio_config.weight_device.weight` cannot be 70000",
        ),
        ("deploy: {placement: {max_replicas_per_node: 1}}", runs),
        (
            "deploy: {placement: {max_replicas_per_node: -1}}",
            "4:49 error invalid_value: `deploy.placement.max_replicas_per_node` cannot be -1",
        ),
        ("deploy: {restart_policy: {condition: on-failure, max_attempts: 0}}", runs),
        (
            "deploy: {restart_policy: {condition: on-failure, max_attempts: -1}}",
            "4:68 error invalid_value: `deploy.restart_policy.max_attempts` cannot be -1",
        ),
        (
            "deploy: {restart_policy: {condition: on-failure, max_attempts: 4294967296}}",
            "4:68 error invalid_value: `deploy.restart_policy.max_attempts` cannot be 4294967296",
        ),
        (
            "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: -1}]}}}",
            runs,
        ),
        (
            "deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: -2}]}}}",
            "4:80 error invalid_value: `deploy.resources.reservations.devices.count` cannot be -2",
        ),
        ("gpus: [{count: 2}]", runs),
        ("gpus: [{count: -2}]", "4:20 error invalid_value: `gpus.count` cannot be -2"),
        (
            "gpus: [{count: 4294967296}]",
            "4:20 error invalid_value: `gpus.count` cannot be 4294967296",
        ),
        ("healthcheck: {test: x, retries: 0}", runs),
        (
            "healthcheck: {test: x, retries: -1}",
            "4:37 error invalid_value: `healthcheck.retries` cannot be -1",
        ),
        ("oom_score_adj: -1000", runs),
        ("oom_score_adj: 1000", runs),
        ("oom_score_adj: -1001", "4:20 error invalid_value: `oom_score_adj` cannot be -1001"),
        ("oom_score_adj: 1001", "4:20 error invalid_value: `oom_score_adj` cannot be 1001"),
        ("volumes: [{type: tmpfs, target: /t, tmpfs: {mode: 0o7777}}]", runs),
        (
            "volumes: [{type: tmpfs, target: /t, tmpfs: {mode: 0o10000}}]",
            "4:55 error invalid_value: `volumes.tmpfs.mode` cannot be 4096",
        ),
        (
            "volumes: [{type: tmpfs, target: /t, tmpfs: {mode: -1}}]",
            "4:55 error invalid_value: `volumes.tmpfs.mode` cannot be -1",
        ),
        ("cpus: 0", runs),
        ("cpus: 0.0", runs),
        ("cpus: 0.001", runs),
        ("cpus: 0.0009", "4:11 error invalid_value: `cpus` cannot be 0.0009"),
        ("cpus: 1e-7", "4:11 error invalid_value: `cpus` cannot be 0.0000001"),
        (
            "deploy: {resources: {limits: {cpus: '0.0001'}}}",
            "4:41 error invalid_value: `deploy.resources.limits.cpus` cannot be 0.0001",
        ),
        (
            "deploy: {resources: {reservations: {cpus: 0.0001}}}",
            "4:47 error invalid_value: `deploy.resources.reservations.cpus` cannot be 0.0001",
        ),
    ] {
        assert_eq!(said(members), expected, "{members}");
    }
}

/// A published port of the long form: a number, or a range from the lower to the higher one, without signs.
#[test]
fn published_ports_of_the_long_form_have_bounds() {
    for published in ["80", "'80'", "0", "65535", "80-90", "'80-80'"] {
        assert_eq!(said(&format!("ports: [{{target: 80, published: {published}}}]")), "it runs");
    }
    for published in
        ["90-80", "'+80'", "65536", "-80", "80-", "80-90-100", "80x", "' 80'", "80-65536"]
    {
        let found = said(&format!("ports: [{{target: 80, published: {published}}}]"));
        let shown = published.trim_matches('\'');
        assert_eq!(found, format!("4:13 error invalid_value: `{shown}` is not a valid host port"));
    }
}

/// A constraint compares with something: a variable that is not set leaves nothing.
#[test]
fn constraints_of_swarm_have_a_value() {
    for constraint in ["node.labels.a ==", "node.labels.a != ", "node.hostname==${UNSET}"] {
        let found = said(&format!("deploy: {{placement: {{constraints: ['{constraint}']}}}}"));
        assert!(found.starts_with("4:40 error invalid_value: "), "{found}");
        assert!(found.ends_with("is not a constraint"), "{found}");
    }
}
