//! What if equals reality: forecast first, done then, and compared (R-CLI-3).

use jaco_sim::forecast::Question;
use jaco_sim::{Session, World};
use jaco_types::{DeploymentName, ServiceKey, ServiceName};
use proptest::prelude::*;

/// A service without data, of any size and placement, as a script writes it.
fn service(name: &'static str) -> impl Strategy<Value = String> {
    let placement = prop_oneof![
        3 => Just("".to_owned()),
        1 => Just(" placement=pack".to_owned()),
        1 => Just(" max=2".to_owned()),
    ];
    let reserves = prop_oneof![2 => Just(""), 1 => Just(" cpu=700"), 1 => Just(" port=80")];
    (0..6u32, placement, reserves).prop_map(move |(replicas, placement, reserves)| {
        format!("{name} image={name}:1 replicas={replicas}{placement}{reserves}")
    })
}

#[derive(Debug, Clone)]
enum Edit {
    Lose(usize),
    Join,
    Scale(u32),
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        2 => (0..4usize).prop_map(Edit::Lose),
        1 => Just(Edit::Join),
        2 => (0..9u32).prop_map(Edit::Scale),
    ]
}

fn world(session: &Session) -> &World {
    session.world().expect("there are nodes")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// R-CLI-3: where every replica is once a node is lost, a node joins or a service has another
    /// size is where `jaco whatif` said that it would be.
    #[test]
    fn what_if_equals_reality(
        seed in any::<u64>(),
        capacities in prop::collection::vec(prop_oneof![Just(0), Just(1500), Just(3000)], 4),
        services in (service("web"), service("api")),
        edit in edits(),
    ) {
        let mut session = Session::new(seed, None);
        let mut say = |line: &str| session.line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        say("nodes n0");
        for (number, capacity) in capacities.iter().enumerate() {
            say(&match capacity {
                0 => format!("join n{}", number + 1),
                cpu => format!("join n{} cpu={cpu}", number + 1),
            });
        }
        say("settle");
        say(&format!("apply shop {} + {}", services.0, services.1));
        say("settle");
        let (question, line) = match &edit {
            // Not n0: a leader that is lost listens anew, and that is another question.
            Edit::Lose(number) => {
                let host = format!("n{}", number + 1);
                (Question::Lose(host.clone()), format!("power-off {host}"))
            }
            Edit::Join => (Question::Join("n9".to_owned()), "join n9".to_owned()),
            Edit::Scale(replicas) => {
                let service = ServiceKey {
                    deployment: DeploymentName::new("shop").unwrap(),
                    service: ServiceName::new("web").unwrap(),
                };
                (Question::Scale(service, *replicas), format!("change shop web replicas={replicas}"))
            }
        };
        let forecast = world(&session).forecast(&question);
        for line in [line.as_str(), "settle"] {
            session.line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        let real = world(&session).homes();
        prop_assert!(forecast.is_some(), "no forecast: {}", session.transcript());
        prop_assert_eq!(forecast, real, "{}", session.transcript());
    }
}
