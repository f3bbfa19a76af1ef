//! What of the scheduling policy is said for the deployment and what for a service, and how the two
//! combine.

use jaco_compose::facts::Facts;
use jaco_types::spec::{Operator, SpreadCriterion};

use crate::util::resolve_text;

const TWO: &str = "name: shop\nservices:\n  db:\n    image: i\n  web:\n    image: i\n";

/// The facts of `db` and `web` with this jaco.yaml.
fn facts(overlay: &str) -> [Facts; 2] {
    let resolved = resolve_text(TWO, Some(&format!("deployment: shop\n{overlay}"))).unwrap();
    ["db", "web"].map(|name| resolved.services[name].facts.clone())
}

fn criteria(facts: &Facts) -> Vec<String> {
    let shown = |criterion: &SpreadCriterion| {
        let targets: Vec<_> = criterion
            .targets
            .iter()
            .map(|target| format!(" {}={}%", target.value, target.percent))
            .collect();
        format!("{} at {}{}", criterion.attribute, criterion.weight, targets.concat())
    };
    facts.spread.iter().map(shown).collect()
}

/// R-SPREAD-3: the criteria of the deployment hold of every service, beside those of its own.
#[test]
fn spread_criteria_of_both_levels_combine() {
    let [db, web] = facts(
        "spread: [{attribute: node.zone, weight: 80}, {attribute: rack}]\n\
         services:\n  - name: web\n    spread: [{attribute: disk, targets: {ssd: 70}}]\n",
    );
    assert_eq!(criteria(&db), ["node.zone at 80", "rack at 50"]);
    let mut both = criteria(&web);
    both.sort();
    assert_eq!(both, ["disk at 50 ssd=70%", "node.zone at 80", "rack at 50"]);
    let [db, web] = facts("services:\n  - name: web\n    spread: [{attribute: disk}]\n");
    assert_eq!((criteria(&db).len(), criteria(&web)), (0, vec!["disk at 50".to_owned()]));
}

/// R-SEL-1: left out is any node, `auto` is the service's own name, and each service has its own.
#[test]
fn selectors_are_each_services_own() {
    let labels = |facts: &Facts| facts.selectors.iter().cloned().collect::<Vec<_>>().join(" ");
    let [db, web] = facts(
        "services:\n  - {name: db, selectors: auto}\n  - {name: web, selectors: [ssd, eu]}\n",
    );
    assert_eq!((labels(&db).as_str(), labels(&web).as_str()), ("db", "eu ssd"));
    let [db, web] = facts("services:\n  - {name: web, selectors: auto}\n");
    assert_eq!((labels(&db).as_str(), labels(&web).as_str()), ("", "web"));
}

/// R-CONS-1, R-CONS-2: the pairs of each level are kept apart, an empty one included, so that each key can
/// fall back by itself; `max` is kept under the key's present name.
#[test]
fn pairs_of_both_levels_are_kept() {
    let [db, web] = facts(
        "constraints: cpu=max zone=0 max=3\n\
         services:\n  - {name: web, constraints: \"cpu= tags=ssd,eu max-per-node=1\"}\n",
    );
    let pairs = |pairs: &std::collections::BTreeMap<String, String>| {
        pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    for facts in [&db, &web] {
        let of_deployment = pairs(&facts.deployment_constraints.pairs);
        assert_eq!(of_deployment, "cpu=max max-per-node=3 zone=0");
    }
    assert_eq!(pairs(&db.constraints.pairs), "");
    assert_eq!(pairs(&web.constraints.pairs), "cpu= max-per-node=1 tags=ssd,eu");
}

/// R-CONS-7: affinities are a service's own.
#[test]
fn affinities_are_each_services_own() {
    let [db, web] = facts(
        "services:\n  - {name: web, affinities: {attribute: ssd, operator: is_set, weight: -7}}\n",
    );
    assert_eq!(db.affinities, []);
    let [affinity] = &web.affinities[..] else { panic!("{:?}", web.affinities) };
    assert_eq!((affinity.weight, affinity.constraint.operator), (-7, Operator::IsSet));
}
