//! The router's process is killed under open connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jaco_net::Namespace;

use crate::Test;
use crate::lab::Lab;
use crate::scenario::{Scenario, address};
use crate::steady::TWO_SITES;
use crate::vm;

pub(crate) const TESTS: &[Test] = &[
    ("a_connection_outlives_the_routers_process", a_connection_outlives_the_routers_process),
    ("a_router_that_starts_again_takes_up_what_is_there", a_router_takes_up_what_is_there),
];

/// The longest pause that a killed and restarted process may cause.
const PAUSE: Duration = Duration::from_secs(1);

/// So few messages are no conversation; on emulated processors most of the time is the pause.
pub(crate) fn too_few() -> usize {
    if vm::is_emulated() { 3 } else { 100 }
}

/// A connection whose messages come back, and the longest that one took.
pub(crate) struct Conversation {
    stopped: Arc<AtomicBool>,
    speaker: thread::JoinHandle<(usize, Duration)>,
}

impl Conversation {
    /// Between the two containers of network 7.
    pub(crate) fn begin(lab: &Lab, port: u16) -> Self {
        let target = SocketAddr::from((address(7, 12), port));
        Self::between(lab.container(1, 10), lab.container(2, 12), target)
    }

    /// From one namespace to an address of another.
    pub(crate) fn between(from: &Namespace, to: &Namespace, target: SocketAddr) -> Self {
        let listener = to.run(|| TcpListener::bind(target).unwrap()).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1024];
            while stream.read_exact(&mut buffer).is_ok() && stream.write_all(&buffer).is_ok() {}
        });
        let mut stream = from.run(|| TcpStream::connect(target).unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let speaker = thread::spawn(move || {
            let (mut count, mut longest) = (0, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let mut buffer = [7; 1024];
                stream.write_all(&buffer).unwrap();
                stream.read_exact(&mut buffer).unwrap();
                longest = longest.max(begun.elapsed());
                count += 1;
            }
            (count, longest)
        });
        Self { stopped, speaker }
    }

    /// How many messages came back, and the longest that one took.
    pub(crate) fn end(self) -> (usize, Duration) {
        self.stopped.store(true, Ordering::Relaxed);
        self.speaker.join().expect("the connection was not reset")
    }
}

/// `kill -9` of the process, with the tunnel where it is in there, on either side: no reset, a pause below a second.
fn a_connection_outlives_the_routers_process() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::started(&scenario);
    for number in [1, 2] {
        let conversation = Conversation::begin(&lab, 5000 + u16::from(number));
        thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let site = lab.sites.get_mut(&number).unwrap();
        site.kill();
        site.start();
        site.tell_cluster(&scenario);
        assert!(site.ask("apply").starts_with("ok"));
        let away = begun.elapsed();
        // Long enough to see the pause end.
        thread::sleep(Duration::from_millis(1500));
        let (count, longest) = conversation.end();
        println!("site {number}: away {away:.0?}, longest pause {longest:.0?}, {count} messages");
        assert!(count > too_few(), "{count}");
        assert!(longest < PAUSE, "{longest:?}");
    }
}

/// NET-12: after a restart the policy is loaded once and the peers of a userspace tunnel are set; ports, routes and the peers
/// of the kernel's tunnel stand.
fn a_router_takes_up_what_is_there() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::started(&scenario);
    let site = lab.sites.get_mut(&1).unwrap();
    let state = |site: &crate::lab::Site| {
        let router = site.router();
        [crate::lab::ip(&router, "-br link"), crate::lab::ip(&router, "route")]
    };
    site.kill();
    let before = state(site);
    site.start();
    let begun = &site.process.as_ref().unwrap().begun;
    // The policy and the names; the peer where nobody else has it.
    let steps = if begun.contains("backend=Kernel") { "steps=2 " } else { "steps=3 " };
    site.tell_cluster(&scenario);
    let applied = site.ask("apply");
    assert!(applied.contains(steps), "{applied}");
    assert_eq!(before[1], state(site)[1].replace(" linkdown", ""), "routes changed");
    assert!(state(site)[0].contains("s7"));
}
