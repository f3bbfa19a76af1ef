//! Many containers that ask for names at once.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hickory_proto::rr::RecordType;
use jaco_net::Namespace;

use crate::cluster::{FIRST, host};
use crate::lab::{Site, run};
use crate::names::question;

/// Questions a second of all together.
const RATE: u32 = 5000;

/// How long they ask.
const TIME: Duration = Duration::from_secs(5);

/// Networks whose containers of this site ask: so many that none exceeds its own limit.
const NETWORKS: u32 = 2;

/// How long each answer took. A question that is not answered took a second.
pub(crate) fn ask(site: &Site, addresses: u8) -> Vec<Duration> {
    let container = Namespace::ensure(&site.folder.join("askers")).unwrap();
    let hosts: Vec<(u32, u8)> = (1..=NETWORKS)
        .flat_map(|network| (0..addresses).step_by(3).map(move |place| (network, FIRST + place)))
        .collect();
    let mut script = String::from("ip link set lo up\n");
    for network in 1..=NETWORKS {
        attach(site, &container, network);
        script += &format!("ip link set eth{network} up\n");
    }
    for (network, last) in &hosts {
        script += &format!("ip addr add {}/24 dev eth{network}\n", host(*network, *last));
    }
    run(&container, Command::new("sh").args(["-ec", &script]));
    let askers = u32::try_from(hosts.len()).unwrap();
    let (pause, begun) = (Duration::from_secs(1) * askers / RATE, Instant::now());
    let threads: Vec<_> = (0..askers)
        .zip(hosts)
        .map(|(number, (network, last))| {
            let bind = || UdpSocket::bind((host(network, last), 0)).unwrap();
            let socket = container.run(bind).unwrap();
            socket.connect((host(network, 2), 53)).unwrap();
            thread::spawn(move || asker(&socket, begun + pause * number / askers, pause))
        })
        .collect();
    let times: Vec<Vec<Duration>> = threads.into_iter().map(|one| one.join().unwrap()).collect();
    println!("# {askers} containers asked {} questions", times.iter().map(Vec::len).sum::<usize>());
    times.concat()
}

fn attach(site: &Site, container: &Namespace, network: u32) {
    let bridge = jaco_types::NetworkId(network).bridge();
    let name = container.path().to_str().unwrap();
    let pair = format!("ip link add ask{network} type veth peer name eth{network} netns {name}");
    let up = format!("ip link set ask{network} master {bridge} up");
    run(&site.engine, Command::new("sh").args(["-ec", &format!("{pair}\n{up}")]));
}

fn asker(socket: &UdpSocket, first: Instant, pause: Duration) -> Vec<Duration> {
    let bytes = question("web.", RecordType::A).to_vec().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut times, mut buffer) = (Vec::new(), [0; 4096]);
    let mut next = first;
    while next < first + TIME {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        socket.send(&bytes).unwrap();
        let answered = socket.recv(&mut buffer).is_ok();
        times.push(if answered { begun.elapsed() } else { Duration::from_secs(1) });
        next += pause;
    }
    times
}
