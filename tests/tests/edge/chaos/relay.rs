//! A slow wire: what goes over it arrives late, at times in another order, and some of it twice.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jaco_testkit::namespace;
use jaco_testkit::random::Random;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;
use tun_rs::{AsyncDevice, DeviceBuilder, Layer};

use crate::outside::Outside;

/// How late a frame arrives at least, and the most that is added to that.
const LATE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(60));

/// One of so many frames arrives twice.
const TWICE: usize = 50;

/// Frames that are on their way; further ones are lost, as on any line that is full.
const ON_THE_WAY: usize = 4096;

/// Frames that a machine with clients sends and is sent in a second, at the very least.
const LEAST: usize = 10;

/// The largest frame, in bytes.
const LARGEST: usize = 2048;

/// What carries the frames of one machine.
pub(crate) struct Relay {
    stop: oneshot::Sender<()>,
    /// Says how many frames it carried.
    thread: JoinHandle<usize>,
}

impl Relay {
    /// Begins to carry the frames of a machine.
    pub(crate) fn start(outside: &Outside, at: usize) -> Self {
        let (near, far) = (format!("near{at}"), format!("far{at}"));
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let place = outside.namespace();
        let names = (near.clone(), far.clone());
        let thread = thread::spawn(move || carry(&place, &names, &ready, stopped));
        is_ready.recv().expect("interfaces can be made");
        outside.machines.lead_through(at, &near, &far);
        Self { stop, thread }
    }

    /// The wire is as it was.
    ///
    /// # Panics
    /// When nothing was late.
    pub(crate) fn end(self, outside: &Outside, at: usize) {
        outside.machines.lead_straight(at);
        drop(self.stop);
        let carried = self.thread.join().expect("it does not panic");
        assert!(carried >= LEAST, "{carried} frames were late");
    }
}

/// Makes both interfaces, and carries frames between them until it is told to stop.
fn carry(
    place: &Path,
    names: &(String, String),
    ready: &mpsc::Sender<()>,
    stopped: oneshot::Receiver<()>,
) -> usize {
    namespace::enter(place);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("there is a runtime").block_on(async {
        let (near, far) = (interface(&names.0), interface(&names.1));
        ready.send(()).expect("the test waits");
        let (mut sent, mut received) = (0, 0);
        tokio::select! {
            () = one_way(&near, &far, Random::new(0), &mut sent) => {}
            () = one_way(&far, &near, Random::new(1), &mut received) => {}
            _ = stopped => {}
        }
        sent + received
    })
}

fn interface(name: &str) -> Arc<AsyncDevice> {
    let built = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).build_async();
    Arc::new(built.expect("we are root"))
}

/// Carries frames until the interface is gone.
async fn one_way(
    from: &AsyncDevice,
    to: &Arc<AsyncDevice>,
    mut random: Random,
    carried: &mut usize,
) {
    let room = Arc::new(Semaphore::new(ON_THE_WAY));
    let mut buffer = vec![0; LARGEST];
    loop {
        let Ok(length) = from.recv(&mut buffer).await else {
            // It is not yet up.
            sleep(Duration::from_millis(1)).await;
            continue;
        };
        let copies = if random.below(TWICE) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
            let (frame, to) = (buffer[..length].to_vec(), Arc::clone(to));
            let late = LATE.0 + random.up_to(LATE.1);
            tokio::spawn(async move {
                sleep(late).await;
                // A frame that the interface does not take is lost.
                let _lost = to.send(&frame).await.is_err();
                drop(place);
            });
            *carried += 1;
        }
    }
}
