//! Values of both files that contradict each other or have no effect are warned about at their place,
//! and a jaco.yaml needs no name. R-IN-1, R-IN-2, R-SPREAD-3.

use jaco_types::spec::{SpreadCriterion, UpdatePolicy};

use crate::util::{problems_of, resolve_text};

const COMPOSE: &str = "services:\n  web: {image: i}\n  db: {image: d}\n";

fn warnings(compose: &str, overlay: Option<&str>) -> String {
    let resolved = resolve_text(compose, overlay);
    problems_of(&resolved.unwrap_or_else(|problems| panic!("{problems}")).warnings)
}

#[test]
fn hosts_need_their_placement() {
    for placement in ["", ", placement: spread", ", placement: pack"] {
        let overlay =
            format!("deployment: shop\nservices:\n  - {{name: web, hosts: [n1]{placement}}}\n");
        assert_eq!(
            warnings(COMPOSE, Some(&overlay)),
            "3:24 warning no_effect: `hosts` of service `web` has no effect without `placement: hosts`\n  \
             help add `placement: hosts`"
        );
    }
    let overlay = "deployment: shop\nservices:\n  - {name: web, hosts: [n1], placement: hosts}\n";
    assert_eq!(warnings(COMPOSE, Some(overlay)), "");
}

/// As in Swarm, a parallelism of 0 is all at once, wherever it is written.
#[test]
fn no_parallelism_is_all_at_once() {
    let update = |compose: &str, overlay: Option<&str>| {
        let resolved =
            resolve_text(compose, overlay).unwrap_or_else(|problems| panic!("{problems}"));
        let update = resolved.services["web"].facts.update;
        (update.parallelism, update.rollback.parallelism)
    };
    let all = UpdatePolicy::ALL_AT_ONCE;
    let written = |key: &str, number: u32| {
        format!("services: {{web: {{image: i, deploy: {{{key}: {{parallelism: {number}}}}}}}}}")
    };
    assert_eq!(update(&written("update_config", 0), None), (all, 1));
    assert_eq!(update(&written("rollback_config", 0), None), (1, all));
    assert_eq!(update(&written("update_config", 3), None), (3, 1));
    let overlay = |key: &str| {
        format!("deployment: shop\nservices: [{{name: web, {key}: {{parallelism: 0}}}}]\n")
    };
    assert_eq!(update(COMPOSE, Some(&overlay("update"))), (all, 1));
    assert_eq!(update(COMPOSE, Some(&overlay("rollback"))), (1, all));
    assert_eq!(update(&written("update_config", 3), Some(&overlay("update"))), (all, 1));
}

#[test]
fn a_global_service_has_no_number_of_replicas() {
    let global = |members: &str| {
        format!("services:\n  web:\n    image: i\n    deploy: {{mode: global}}\n    {members}\n")
    };
    assert_eq!(
        warnings(
            "services:\n  web:\n    image: i\n    deploy: {mode: global, replicas: 3}\n",
            None
        ),
        "4:38 warning no_effect: the number of replicas of service `web` has no effect\n  \
         help remove it: a global service runs one replica on each ready node"
    );
    assert!(warnings(&global("scale: 3"), None).starts_with("5:12 warning no_effect"));
    assert_eq!(warnings(&global("tty: true"), None), "");
    let overlay = "deployment: shop\nservices: [{name: web, placement: global}]\n";
    let replicas = "services: {web: {image: i, deploy: {replicas: 3}}, db: {image: d}}";
    assert!(warnings(replicas, Some(overlay)).contains("1:47 warning no_effect"));
    assert_eq!(warnings(COMPOSE, Some(overlay)), "");
}

/// R-SPREAD-3: the criteria of the service, those of its compose file and those of the deployment
/// count together, in this order.
#[test]
fn spread_of_both_levels_combines() {
    let compose = "services:\n  web:\n    image: i\n    deploy: {placement: {preferences: [{spread: node.labels.rack}]}}\n  db: {image: d}\n";
    let overlay = "deployment: shop\nspread: [{attribute: node.arch, weight: 20}, {attribute: node.os, weight: 10}]\nservices:\n  - {name: web, spread: [{attribute: node.zone, weight: 70}]}\n";
    let resolved =
        resolve_text(compose, Some(overlay)).unwrap_or_else(|problems| panic!("{problems}"));
    let criterion = |attribute: &str, weight| SpreadCriterion {
        attribute: attribute.to_owned(),
        weight,
        targets: Vec::new(),
    };
    let of = |service: &str| resolved.services[service].facts.spread.clone();
    let deployment = [criterion("node.arch", 20), criterion("node.os", 10)];
    let own = [criterion("node.zone", 70), criterion("meta.rack", 50)];
    assert_eq!(of("web"), [own.as_slice(), deployment.as_slice()].concat());
    assert_eq!(of("db"), deployment);
}

#[test]
fn the_same_attribute_on_both_levels_is_told() {
    let overlay = "deployment: shop\nspread: [{attribute: node.zone, weight: 20}]\nservices:\n  - {name: web, spread: [{attribute: node.zone, weight: 70}]}\n";
    assert_eq!(
        warnings(COMPOSE, Some(overlay)),
        "4:25 warning honoured_differently: service `web` is spread over `node.zone` by its own criterion \
         and by the deployment's; both weights count\n  help remove one of them"
    );
    let resolved = resolve_text(COMPOSE, Some(overlay)).expect("it runs");
    assert_eq!(resolved.services["web"].facts.spread.len(), 2);
    let compose = "services: {web: {image: i, deploy: {placement: {preferences: [{spread: node.hostname}]}}}, db: {image: d}}";
    let overlay = "deployment: shop\nspread: [{attribute: node.hostname, weight: 20}]\n";
    assert!(warnings(compose, Some(overlay)).contains("2:9 warning honoured_differently"));
}

/// D13: the name of the deployment is that of the compose file where jaco.yaml has none.
#[test]
fn a_jaco_yaml_needs_no_name() {
    let overlay = "services: [{name: web, replicas: 3}]\n";
    let resolved =
        resolve_text(COMPOSE, Some(overlay)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(resolved.name, "shop");
    assert_eq!(resolved.services["web"].facts.replicas, 3);
    let other = resolve_text(COMPOSE, Some("deployment: other\n")).expect_err("the names differ");
    assert_eq!(other.list[0].code.as_str(), "invalid_name");
    let empty = resolve_text(COMPOSE, Some("deployment: ''\n")).expect_err("it is no name");
    assert_eq!(empty.list[0].code.as_str(), "invalid_name");
}
