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
    starting_is_idempotent
    stopping_and_removing_are_idempotent
    an_exit_is_told_and_final
    a_stop_honours_the_grace_period
    health_is_told
    a_removal_is_told
    an_absent_image_is_named
    a_refusal_does_not_tell_the_password
    a_driver_error_is_the_reason
    logs_can_be_read
    a_command_is_carried
    a_command_has_a_terminal
    a_command_needs_a_container_that_runs
    owners_are_kept_apart
    starts_may_happen_together
}
