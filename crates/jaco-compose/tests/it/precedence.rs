//! Which of two files decides: jaco.yaml, then the compose file, then the default, key by key. R-IN-1.

use jaco_compose::facts::Facts;
use jaco_types::Millis;
use jaco_types::spec::{
    FailureAction, Placement, RollbackFailureAction, Scoring, UpdateOrder, UpdatePolicy,
};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use crate::util::resolve_text;

/// The parts of a policy that both files have, as one of them may say.
#[derive(Debug, Clone, Default)]
struct Policy {
    parallelism: Option<u32>,
    delay: Option<u64>,
    monitor: Option<u64>,
    permille: Option<u32>,
    action: Option<FailureAction>,
    order: Option<UpdateOrder>,
}

impl Policy {
    fn write(&self) -> Json {
        let action = |action| match action {
            FailureAction::Pause => "pause",
            FailureAction::Continue => "continue",
            FailureAction::Rollback => "rollback",
        };
        let order = |order| match order {
            UpdateOrder::StartFirst => "start-first",
            UpdateOrder::StopFirst => "stop-first",
        };
        let members = [
            ("parallelism", self.parallelism.map(Json::from)),
            ("delay", self.delay.map(|millis| json!(format!("{millis}ms")))),
            ("monitor", self.monitor.map(|millis| json!(format!("{millis}ms")))),
            (
                "max_failure_ratio",
                self.permille.map(|permille| json!(f64::from(permille) / 1000.0)),
            ),
            ("failure_action", self.action.map(|each| json!(action(each)))),
            ("order", self.order.map(|each| json!(order(each)))),
        ];
        let written = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Json::Object(written.collect::<Map<_, _>>())
    }

    /// What holds where `self` stands above `below`.
    fn over(&self, below: &Self) -> Self {
        Self {
            parallelism: self.parallelism.or(below.parallelism),
            delay: self.delay.or(below.delay),
            monitor: self.monitor.or(below.monitor),
            permille: self.permille.or(below.permille),
            action: self.action.or(below.action),
            order: self.order.or(below.order),
        }
    }
}

fn policy(actions: &'static [FailureAction]) -> impl Strategy<Value = Policy> {
    let orders = vec![UpdateOrder::StartFirst, UpdateOrder::StopFirst];
    (
        option::of(0..5_u32),
        option::of(0..5_000_u64),
        option::of(0..5_000_u64),
        option::of(0..=1000_u32),
        option::of(prop::sample::select(actions)),
        option::of(prop::sample::select(orders)),
    )
        .prop_map(|(parallelism, delay, monitor, permille, action, order)| Policy {
            parallelism,
            delay,
            monitor,
            permille,
            action,
            order,
        })
}

const UPDATE: &[FailureAction] =
    &[FailureAction::Pause, FailureAction::Continue, FailureAction::Rollback];
const ROLLBACK: &[FailureAction] = &[FailureAction::Pause, FailureAction::Continue];

/// The facts of a service with these members in the compose file and in jaco.yaml.
fn facts(compose: &Json, own: &Json, top: &Json) -> Facts {
    let mut web = json!({"image": "i"});
    let mut overlay = json!({"name": "web"});
    let mut file = json!({"deployment": "shop"});
    for (target, members) in [(&mut web, compose), (&mut overlay, own), (&mut file, top)] {
        for (key, value) in members.as_object().into_iter().flatten() {
            target[key] = value.clone();
        }
    }
    file["services"] = json!([overlay]);
    let compose = json!({"services": {"web": web}, "volumes": {"data": {}}}).to_string();
    let resolved = resolve_text(&compose, Some(&file.to_string()));
    resolved.unwrap_or_else(|problems| panic!("{problems}")).services["web"].facts.clone()
}

fn all_at_once(parallelism: u32) -> u32 {
    if parallelism == 0 { UpdatePolicy::ALL_AT_ONCE } else { parallelism }
}

proptest! {
    /// Each part of a rollout and of a rollback for itself; a step's time is jaco.yaml's alone, and what neither
    /// file says about the order depends on the data of the service.
    #[test]
    fn policies_are_taken_part_by_part(
        compose in (policy(UPDATE), policy(ROLLBACK)),
        own in (policy(UPDATE), option::of(policy(ROLLBACK))),
        step in option::of(1..100_u64),
        writes in any::<bool>(),
    ) {
        let volumes = if writes { json!(["data:/d"]) } else { json!([]) };
        let deploy = json!({"update_config": compose.0.write(), "rollback_config": compose.1.write()});
        let mut overlay = json!({"update": own.0.write()});
        if let Some(seconds) = step {
            overlay["update"]["step_timeout"] = json!(format!("{seconds}s"));
        }
        if let Some(rollback) = &own.1 {
            overlay["rollback"] = rollback.write();
        }
        let found = facts(&json!({"deploy": deploy, "volumes": volumes}), &overlay, &json!({})).update;

        let (default, usual) = (
            UpdatePolicy::default(),
            if writes { UpdateOrder::StopFirst } else { UpdateOrder::StartFirst },
        );
        let update = own.0.over(&compose.0);
        prop_assert_eq!(found.parallelism, update.parallelism.map_or(default.parallelism, all_at_once));
        prop_assert_eq!(found.delay, update.delay.map_or(default.delay, Millis));
        prop_assert_eq!(found.monitor, update.monitor.map(Millis));
        prop_assert_eq!(found.max_failure_permille, update.permille.unwrap_or(default.max_failure_permille));
        prop_assert_eq!(found.failure_action, update.action.unwrap_or(default.failure_action));
        prop_assert_eq!(found.order, update.order.unwrap_or(usual));
        prop_assert_eq!(found.step_timeout, step.map_or(default.step_timeout, Millis::from_secs));

        let rollback = own.1.unwrap_or_default().over(&compose.1);
        let (found, default) = (found.rollback, default.rollback);
        prop_assert_eq!(found.parallelism, rollback.parallelism.map_or(default.parallelism, all_at_once));
        prop_assert_eq!(found.delay, rollback.delay.map_or(default.delay, Millis));
        prop_assert_eq!(found.monitor, rollback.monitor.map(Millis));
        prop_assert_eq!(found.max_failure_permille, rollback.permille.unwrap_or(default.max_failure_permille));
        prop_assert_eq!(found.order, rollback.order.unwrap_or(usual));
        let pauses = rollback.action == Some(FailureAction::Pause);
        prop_assert_eq!(found.failure_action == RollbackFailureAction::Pause, pauses);
    }

    /// How many and where: jaco.yaml's number, then `deploy.replicas`, then `scale`, then one; its placement, then
    /// the mode; and a global service has one replica for each node, whatever is written.
    #[test]
    fn numbers_and_places_are_taken_from_the_first_that_says_one(
        own in option::of(0..9_u32),
        replicas in option::of(0..9_u32),
        scale in option::of(0..9_u32),
        mode in option::of(prop::sample::select(vec!["replicated", "global", "replicated-job", "global-job"])),
        placement in option::of(prop::sample::select(vec!["spread", "pack", "global"])),
        scoring in (option::of(any::<bool>()), option::of(any::<bool>())),
    ) {
        // Two numbers of one file must be the same one.
        let scale = scale.map(|scale| replicas.unwrap_or(scale));
        let own = own.filter(|_| placement != Some("global"));
        let mut deploy = json!({});
        for (key, value) in [("replicas", replicas.map(Json::from)), ("mode", mode.map(Json::from))] {
            if let Some(value) = value {
                deploy[key] = value;
            }
        }
        let mut compose = json!({"deploy": deploy});
        if let Some(scale) = scale {
            compose["scale"] = json!(scale);
        }
        let name = |nomad: bool| json!(if nomad { "nomad" } else { "jaco" });
        let mut overlay = json!({});
        for (key, value) in [
            ("replicas", own.map(Json::from)),
            ("placement", placement.map(Json::from)),
            ("scoring", scoring.0.map(name)),
        ] {
            if let Some(value) = value {
                overlay[key] = value;
            }
        }
        let top = scoring.1.map_or(json!({}), |nomad| json!({"scoring": name(nomad)}));
        let found = facts(&compose, &overlay, &top);

        let expected = match (placement, mode) {
            (Some("pack"), _) => Placement::Pack,
            (Some("global"), _) | (None, Some("global" | "global-job")) => Placement::Global,
            _ => Placement::Spread,
        };
        let number = own.or(replicas).or(scale).unwrap_or(1);
        let number = if expected == Placement::Global { 1 } else { number };
        prop_assert_eq!((found.placement, found.replicas), (expected, number));
        let nomad = scoring.0.or(scoring.1).unwrap_or(false);
        prop_assert_eq!(found.scoring == Scoring::Nomad, nomad);
    }
}
