//! Ways in which processes of the product end.

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::{eventually_within, router};
use rustix::process::{Pid, Signal, kill_process};

use crate::outside::Outside;

pub(crate) fn kill_router(outside: &Outside, at: usize) {
    router::kill(&outside.machines.router(at));
}

pub(crate) async fn router_is_back(outside: &Outside, at: usize) {
    eventually_within(PATIENCE, "another process keeps the router", || async {
        router::pid(&outside.machines.router(at)).map(drop).ok_or("there is none")
    })
    .await;
}

/// Has another process take the place of an edge, as a reload does.
pub(crate) fn hang_up(edge: u32) {
    signal(edge, Signal::HUP);
}

pub(crate) fn stop(edge: u32) {
    signal(edge, Signal::TERM);
}

pub(crate) fn signal(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process has a number"), signal).expect("it is ours");
}
