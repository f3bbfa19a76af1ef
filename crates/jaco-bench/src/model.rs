//! The service that is measured, in compose's words and in Swarm's.

use serde_json::{Value, json};

/// How many replicas it has.
pub(crate) const REPLICAS: usize = 10;

/// How the image checks itself: it has no shell.
const TEST: [&str; 4] = ["CMD", "/hello", "check", "http://127.0.0.1:8080/healthz"];

/// Whether the replicas say how they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Unchecked,
    EverySecond,
}

impl Health {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unchecked => "no healthcheck",
            Self::EverySecond => "1 s healthcheck",
        }
    }
}

/// Where the replicas are. Swarm's service is on the engine's default bridge; compose gives a project a
/// network of its own, which the engine takes longer to set up for each container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Bridge,
    Project,
}

/// A deployment of one service, as a compose model.
pub(crate) fn compose(deployment: &str, image: &str, health: Health, network: Network) -> Value {
    let mut service = json!({"image": image, "deploy": {"replicas": REPLICAS}});
    if network == Network::Bridge {
        service["network_mode"] = json!("bridge");
    }
    if health == Health::EverySecond {
        service["healthcheck"] =
            json!({"test": TEST, "interval": "1s", "timeout": "2s", "retries": 3});
    }
    json!({"name": deployment, "services": {"web": service}})
}

/// The container of a service on the default bridge, in Swarm's words; durations are nanoseconds.
pub(crate) fn swarm(image: &str, health: Health) -> Value {
    let mut container = json!({"Image": image});
    if health == Health::EverySecond {
        container["Healthcheck"] = json!({
            "Test": TEST, "Interval": 1_000_000_000_u64, "Timeout": 2_000_000_000_u64, "Retries": 3,
        });
    }
    container
}
