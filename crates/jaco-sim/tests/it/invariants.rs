//! Every law of the simulation can fail: a defect that is put in on purpose is found, by the law that it
//! breaks. SIM-10 has its test beside the law.

use jaco_sim::{Sabotage, Session};

/// Runs the script in a cluster with this defect and demands that this law is broken.
fn finds(law: &str, sabotage: Sabotage, script: &str) {
    let mut session = Session::new(0, Some(sabotage));
    let result = script.lines().try_for_each(|line| session.line(line.trim()));
    // One defect can break several laws.
    let violations = session.world().expect("the script makes a cluster").violations();
    let found: Vec<_> = violations.iter().map(|it| it.broken.id()).collect();
    assert!(found.contains(&law), "{sabotage:?}: {found:?}, {result:?}");
}

const ROLLOUT: &str = "nodes n1 n2 n3
    apply shop web image=web:1 replicas=3
    settle
    change shop web image=web:2
    settle
    change shop web image=web:3
    settle
    expect rest";

/// A node that leaves out entries.
#[test]
fn sim_1_finds_a_node_that_skips_entries() {
    finds("SIM-1", Sabotage::SkipReports, ROLLOUT);
}

/// An engine that runs every container three times.
#[test]
fn sim_2_finds_a_third_live_container() {
    finds("SIM-2", Sabotage::TripleContainers, ROLLOUT);
}

/// R-RUN-1: an engine that makes a second container for an instance.
#[test]
fn sim_3_finds_a_second_start() {
    finds("SIM-3", Sabotage::StartTwice, ROLLOUT);
}

/// An agent that takes others' containers for its own.
#[test]
fn sim_4_finds_an_agent_that_ends_foreign_containers() {
    finds("SIM-4", Sabotage::IgnoreOwner, ROLLOUT);
}

/// R-ROLL-2: a planner that stops the old instance before the new one serves.
#[test]
fn sim_5_finds_a_planner_that_drops_instead_of_retiring() {
    finds("SIM-5", Sabotage::DropInsteadOfRetire, ROLLOUT);
}

/// R-ROLL-2: a planner that replaces all replicas of a service at once, stop-first.
#[test]
fn sim_6_finds_replicas_that_stop_together() {
    let script = "nodes n1 n2 n3
        apply shop web image=web:1 replicas=3 port=80
        settle
        change shop web image=web:2
        settle";
    finds("SIM-6", Sabotage::ReplaceAllAtOnce, script);
}

/// R-PLACE-4: a planner that removes a replica that is wanted.
#[test]
fn sim_7_finds_the_removal_of_a_wanted_replica() {
    finds("SIM-7", Sabotage::RemoveWanted, ROLLOUT);
}

/// R-LOOP-1: a leader that writes what another machine planned.
#[test]
fn sim_8_finds_the_plan_of_a_follower() {
    finds("SIM-8", Sabotage::DeposedPlans, ROLLOUT);
}

/// R-CLI-9: a leader that acknowledges what it does not write.
#[test]
fn sim_9_finds_an_acknowledged_write_that_is_lost() {
    let script = "nodes n1
        apply shop web image=web:1
        settle
        expect rest";
    finds("SIM-9", Sabotage::LoseWrites, script);
}

/// An engine that removes nothing leaves containers behind.
#[test]
fn sim_11_finds_what_is_left_behind() {
    let script = "nodes n1
        apply shop web image=web:1 replicas=2
        settle
        change shop web replicas=1
        settle
        expect rest";
    finds("SIM-11", Sabotage::NeverStop, script);
}

/// R-NODE-2: a node that was removed by force, and hears of it, stops what it runs.
#[test]
fn sim_11_finds_a_removed_node_that_goes_on() {
    let script = "
        nodes n1 n2 n3 n4
        apply shop web image=web:1 placement=global
        settle
        partition n4 | n1 n2 n3
        remove n4 force
        heal
        settle
        expect rest
    ";
    finds("SIM-11", Sabotage::StayWhenRemoved, script);
}

/// R-CLI-6: an agent pulls with the login that its cluster has.
#[test]
fn sim_11_finds_an_agent_that_forgets_logins() {
    let script = "
        nodes n1 n2
        registry docker.io wants 7
        login docker.io 7
        apply shop web image=web:1
        settle
        again shop
        settle
        expect rest
    ";
    finds("SIM-11", Sabotage::ForgetLogins, script);
}

/// R-LOOP-4: a planner that writes though nothing changed.
#[test]
fn sim_12_finds_a_cluster_that_writes_while_idle() {
    let script = "nodes n1
        apply shop web image=web:1
        advance 10s
        expect idle 1m";
    finds("SIM-12", Sabotage::NeverQuiet, script);
}

/// R-RUN-1: an agent that recreates what it should adopt.
#[test]
fn sim_13_finds_an_agent_that_ends_what_is_wanted() {
    let script = "nodes n1
        apply shop web image=web:1
        settle
        kill n1
        start n1
        settle";
    finds("SIM-13", Sabotage::RecreateOnStart, script);
}

/// An agent that wakes in circles.
#[test]
fn sim_14_finds_a_loop_within_one_moment() {
    finds("SIM-14", Sabotage::WakeInCircles, "nodes n1");
}

/// R-NODE-1: an agent that goes on as if its node were not cut off.
#[test]
fn sim_15_finds_an_isolated_instance_that_runs_on() {
    let script = "nodes n1 n2 n3
        apply shop web image=web:1 replicas=3 loss=stop_self:20s
        settle
        partition n1 | n2 n3
        advance 90s";
    finds("SIM-15", Sabotage::NeverIsolated, script);
}

/// R-SEL-3: a planner that disables a replica that no user disabled.
#[test]
fn sim_16_finds_a_replica_disabled_by_no_user() {
    finds("SIM-16", Sabotage::DisableUnasked, ROLLOUT);
}

/// R-HEAL-1: an agent that ends what traffic is still sent to.
#[test]
fn sim_17_finds_an_agent_that_ends_what_serves() {
    finds("SIM-17", Sabotage::EndPredecessors, ROLLOUT);
}

/// R-ROLL-5: an agent that runs what an image's name leads to, though its digest is pinned.
#[test]
fn sim_18_finds_another_image_than_the_pinned_one() {
    let script = "nodes n1 n2
        apply shop web image=web:1 replicas=2
        settle
        pull web:2 is a
        change shop web image=web:2
        settle";
    finds("SIM-18", Sabotage::FollowNames, script);
}

/// R-JOB-1: a planner that runs a job once more that has completed.
#[test]
fn sim_19_finds_a_job_that_is_run_again() {
    let script = "nodes n1 n2
        image job:1 exits 0 after 2s
        apply shop job image=job:1 mode=job
        settle";
    finds("SIM-19", Sabotage::RunFinished, script);
}

/// A job that runs for ninety seconds, and is due each minute.
const EACH_MINUTE: &str = "nodes n1 n2
        image job:1 exits 0 after 90s
        apply shop job image=job:1 mode=job grace=20s concurrency=replace schedule=*
        advance 150s
        expect punctual";

/// R-JOB-2: nodes that forget which due times were dealt with begin a run for one twice.
#[test]
fn sim_20_finds_a_run_that_is_doubled() {
    finds("SIM-20", Sabotage::ForgetDueTimes, &EACH_MINUTE.replace("90s", "2s"));
}

/// R-JOB-2: an engine that starts the next instance of a job while one is up.
#[test]
fn sim_20_finds_runs_that_overlap() {
    finds("SIM-20", Sabotage::StartBeside, EACH_MINUTE);
}

/// R-JOB-2: a leader that begins no run.
#[test]
fn sim_20_finds_a_run_that_does_not_begin() {
    finds("SIM-20", Sabotage::MissDueTimes, EACH_MINUTE);
}

/// R-NODE-1: a planner that places replicas on a node whose disk is full.
#[test]
fn sim_21_finds_a_replica_on_a_full_disk() {
    let script = "nodes n1 n2
        disk n2 nearly-full
        advance 5s
        apply shop web image=web:1 replicas=2
        settle";
    finds("SIM-21", Sabotage::FillDisks, script);
}

/// NET-3: nodes that give freed addresses again at once.
#[test]
fn net_3_finds_a_skipped_quarantine() {
    let script = "nodes n1 n2 n3
        network begin
        apply shop web image=web:1 replicas=3 net=default
        settle
        change shop web image=web:2
        settle
        change shop web image=web:3
        settle";
    finds("NET-3", Sabotage::ForgetQuarantine, script);
}

/// Two deployments with a network each, on both nodes.
const NETWORKS: &str = "nodes n1 n2
    network begin
    apply shop web image=web:1 replicas=2 net=default
    apply blog web image=web:1 replicas=2 net=default
    settle
    change shop web image=web:2
    settle
    expect rest";

/// Routers that let packets through from one network into another.
#[test]
fn net_7_finds_a_policy_that_is_too_wide() {
    finds("NET-7", Sabotage::OpenPolicy, NETWORKS);
}

/// Routers that answer names before the way to their addresses stands.
#[test]
fn net_8_finds_names_before_routes() {
    finds("NET-8", Sabotage::NamesBeforeRoutes, NETWORKS);
}

/// An engine that does not attach what its agent then reports as attached.
#[test]
fn net_8_finds_names_of_what_is_not_attached() {
    let script = "nodes n1 n2 n3
        apply shop web image=web:1 replicas=3 net=default
        settle
        network begin
        again shop
        settle";
    finds("NET-8", Sabotage::FeignJoins, script);
}

/// Routers that take the address of one instance for that of another.
#[test]
fn net_9_finds_exchanged_owners() {
    finds("NET-9", Sabotage::ExchangeOwners, NETWORKS);
}

/// Routers that leave routes and peers behind.
#[test]
fn net_12_finds_routes_that_stay() {
    finds("NET-12", Sabotage::KeepRoutes, NETWORKS);
}

/// Routers that acknowledge that an instance left before they lead nobody to it.
#[test]
fn net_14_finds_an_early_acknowledgement() {
    finds("NET-14", Sabotage::ReleaseAtOnce, NETWORKS);
}

/// Routers that acknowledge it while a client may remember the address that they were told.
#[test]
fn net_14_finds_names_that_are_remembered() {
    finds("NET-14", Sabotage::ForgetNames, NETWORKS);
}
