//! The engine contract on the fake.

use std::sync::Arc;

use jaco_agent::fake::{FakeEngine, FakeHost, ImageScript};
use jaco_agent::suite::{self, Fixture};

use jaco_types::Millis;

use crate::names::owner;

fn fixture() -> Fixture {
    let engine = |node| {
        let mut host = FakeHost::new(owner(node));
        host.set_image("hello:v1", ImageScript::Present);
        let reason = "manifest unknown".to_owned();
        host.set_image("absent:v0", ImageScript::Failing { takes: Millis(0), reason });
        Arc::new(FakeEngine::new(host))
    };
    Fixture::new(engine(1), engine(2), "hello:v1", "absent:v0")
}

macro_rules! contract {
    ($($check:ident)*) => {
        $(#[tokio::test]
        async fn $check() {
            suite::$check(&fixture()).await;
        })*
    };
}

contract! {
    start_is_idempotent
    stop_and_remove_are_idempotent
    exit_is_reported_and_final
    stop_honours_the_grace_period
    pre_stop_shares_the_grace_period
    an_exited_container_has_no_pre_stop
    health_is_reported
    removal_is_reported
    absent_image_is_named
    pushed_images_are_loaded
    refusal_does_not_contain_the_password
    missing_gpu_driver_is_the_reason
    logs_can_be_read
    command_input_and_output_arrive
    command_has_a_terminal
    command_requires_a_running_container
    files_are_copied_as_archives
    closed_ports_are_refused
    owners_are_isolated
    networks_of_the_cluster_have_their_addresses
    running_containers_join_networks_of_the_cluster
    concurrent_starts_do_not_interfere
}
