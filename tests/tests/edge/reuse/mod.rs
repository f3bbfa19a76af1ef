//! Addresses that instances leave and others get, while clients go on with what they know.

mod client;
mod dns;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jaco_testkit::engines::Machines;
use jaco_testkit::{eventually_within, ran, succeeded, v1};

use self::client::{Seat, Tally};
use crate::asked::asked;

/// The services that are restarted again and again; all their addresses are of one network.
const SERVICES: [&str; 2] = ["red", "blue"];

/// Addresses that both services have had, before the test ends: they were given again.
const CROSSED: usize = 5;

/// How long addresses may take to be given again, beside the restarts that were asked for: five times their quarantine.
const LONGEST: Duration = Duration::from_secs(300);

/// How long replicas may take to run: where all addresses are taken, they wait for the end of a quarantine.
const PLACED: Duration = Duration::from_secs(180);

/// The size of the deployment. Addresses are given one after the other, and rest for a minute: the size of the network says
/// how many replicas can be restarted in that time, and each address comes again about when it may.
#[derive(Clone, Copy)]
struct Size {
    /// Instances of each service.
    replicas: usize,
    subnet: &'static str,
}

/// 124 addresses, so that they cross soon.
const SMALL: Size = Size { replicas: 9, subnet: "10.0.0.0/25" };

/// 252 addresses, so that two or three times as many are restarted in the same time.
const LARGE: Size = Size { replicas: 18, subnet: "10.0.0.0/24" };

/// From how many restarts on the large one is used: it takes longer until addresses cross, and less for each restart.
const MANY: usize = 1_000;

fn compose(Size { replicas, subnet }: Size) -> String {
    let service = |name: &str| {
        format!(
            "
  {name}:
    image: jaco-hello:v1
    command: [serve]
    environment: {{HELLO_VERSION: {name}}}
    deploy: {{replicas: {replicas}, update_config: {{parallelism: {replicas}, monitor: 0s}}}}
    stop_grace_period: 2s"
        )
    };
    let services: String = SERVICES.map(service).concat();
    format!(
        "
name: reuse
services:{services}
  client:
    image: jaco-hello:v1
    command: [serve]
    deploy: {{mode: global}}
networks:
  default: {{ipam: {{config: [{{subnet: {subnet}}}]}}}}
"
    )
}

/// NET-4: the replicas of two services in one network are restarted again and again, so that addresses of one are given to the
/// other. Clients on three machines hold connections, and use addresses for nearly a minute after they were told. None is
/// ever answered by an instance of another service, or over one connection by two instances.
///
/// Ends once addresses have crossed, and `JACO_RESTARTS` replicas were restarted.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_reaches_another_service_at_an_address_that_it_knows() {
    let wanted = asked("JACO_RESTARTS", 100);
    let size = if wanted < MANY { SMALL } else { LARGE };
    let path = std::env::var("PATH").expect("there is one");
    let mut machines = Machines::start(3, &format!("{path}:/usr/sbin:/sbin")).await;
    machines.found(&["--name", "reuse"]).await;
    machines.have_routers().await;
    machines.apply(&compose(size), None);
    let stop = Arc::new(AtomicBool::new(false));
    let clients = [0, 1, 2].map(|at| {
        let (seat, stop) = (seat(&machines, at), Arc::clone(&stop));
        thread::spawn(move || client::run(seat, SERVICES, &stop))
    });
    let (mut seen, begun) = (Seen::of(size), Instant::now());
    seen.look(&machines).await;
    let first = seen.containers.len();
    let (mut late, mut rounds) = (None, 0);
    loop {
        let restarted = seen.containers.len() - first;
        let crossed = seen.crossed();
        if restarted >= wanted && crossed >= CROSSED {
            break;
        }
        if restarted >= wanted {
            let since = *late.get_or_insert_with(Instant::now);
            assert!(since.elapsed() < LONGEST, "{crossed} addresses have had both services");
        }
        assert!(!clients.iter().any(thread::JoinHandle::is_finished), "a client has found one");
        let service = format!("reuse/{}", SERVICES[rounds % SERVICES.len()]);
        succeeded(&machines.cluster.cli(rounds % 3, &["restart", &service, "--detach"]));
        seen.look(&machines).await;
        rounds += 1;
        if rounds.is_multiple_of(50) {
            println!("{:?}: {restarted} restarts, {crossed} addresses crossed", begun.elapsed());
        }
    }
    stop.store(true, Ordering::SeqCst);
    let tallies = clients.map(|client| {
        let tally = client.join().expect("clients do not panic");
        tally.unwrap_or_else(|law| panic!("{law}"))
    });
    println!(
        "{:?}: {} restarts, {} of {} addresses had both services; clients: {tallies:?}",
        begun.elapsed(),
        seen.containers.len() - first,
        seen.crossed(),
        seen.services.len(),
    );
    let done = |tally: &Tally| [tally.answered, tally.vain, tally.held, tally.ended];
    let busy = tallies.iter().all(|tally| done(tally).iter().all(|count| *count > 0));
    assert!(busy, "each client met instances that were there and that had gone: {tallies:?}");
}

/// What replicas have had.
struct Seen {
    /// How many run where none is restarted.
    replicas: usize,
    containers: BTreeSet<String>,
    /// The services that had an address.
    services: BTreeMap<String, BTreeSet<String>>,
}

impl Seen {
    fn of(size: Size) -> Self {
        let clients = 3;
        Self {
            replicas: SERVICES.len() * size.replicas + clients,
            containers: BTreeSet::new(),
            services: BTreeMap::new(),
        }
    }

    /// Waits until each replica is running as it should be, and notes what it has.
    async fn look(&mut self, machines: &Machines) {
        let replicas = eventually_within(PLACED, "all replicas run", || async {
            let all = v1::StatusRequest { linearizable: true, ..v1::StatusRequest::default() };
            let status = machines.cluster.nodes[0].client().read_status(all).await;
            let status = status.map_err(|error| error.to_string())?;
            let is_over = status.deployments.iter().all(|found| found.status == "active");
            let replicas = status.replicas;
            let is_up = |one: &v1::ReplicaInfo| one.state == "running" && one.retiring.is_none();
            let up = replicas.iter().filter(|one| is_up(one)).count();
            if is_over && up == replicas.len() && up == self.replicas {
                Ok(replicas)
            } else {
                Err(format!("{replicas:?}"))
            }
        })
        .await;
        for replica in replicas.into_iter().filter(|one| SERVICES.contains(&&*one.service)) {
            self.containers.insert(replica.container_id);
            for found in replica.addresses {
                self.services.entry(found.address).or_default().insert(replica.service.clone());
            }
        }
    }

    /// How many addresses both services have had.
    fn crossed(&self) -> usize {
        self.services.values().filter(|services| services.len() == SERVICES.len()).count()
    }
}

/// The network of the client's container on a machine.
fn seat(machines: &Machines, at: usize) -> Seat {
    let engine = &machines.engines[at];
    let filter = "label=jaco.service=client";
    let container = ran(&mut engine.command(&["ps", "--quiet", "--filter", filter]));
    let shown = ["inspect", "--format", "{{.State.Pid}}", container.trim()];
    let pid: u32 = ran(&mut engine.command(&shown)).trim().parse().expect("it runs");
    let resolver = std::fs::read_to_string(format!("/proc/{pid}/root/etc/resolv.conf"));
    let resolver = resolver.expect("containers have one");
    let server = resolver.lines().find_map(|line| line.strip_prefix("nameserver "));
    let name_server: IpAddr =
        server.and_then(|server| server.trim().parse().ok()).expect("it names a server");
    let namespace = PathBuf::from(format!("/proc/{pid}/ns/net"));
    Seat { namespace, name_server, seed: u64::try_from(at).expect("there are few machines") }
}
