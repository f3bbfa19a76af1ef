//! Honoured keys that no container of this machine can show: what the planner does, what the client
//! has done before anything is sent, and what needs another kernel or a newer engine.

/// A file, the test in it, and the keys that it proves.
pub(super) const ELSEWHERE: &[(&str, &str, &[&str])] = &[
    // Needs a newer engine, which the create body shows all the same.
    ("crates/jaco-docker/tests/it/table.rs", "fn process()", &["services.*.annotations"]),
    (
        "crates/jaco-docker/tests/it/table.rs",
        "fn health()",
        &["services.*.healthcheck.start_interval"],
    ),
    (
        "crates/jaco-docker/tests/it/table.rs",
        "fn networks()",
        &["services.*.networks.*.gw_priority"],
    ),
    (
        "crates/jaco-docker/tests/it/table.rs",
        "fn mounts()",
        &[
            "services.*.volumes[].bind.recursive",
            "services.*.volumes[].image",
            "services.*.volumes[].image.subpath",
            "services.*.volumes[].volume.subpath",
        ],
    ),
    // The planner's.
    (
        "crates/jaco-scheduler/tests/it/accompanying.rs",
        "fn no_more_than_max_on_a_node()",
        &["services.*.deploy.placement.max_replicas_per_node"],
    ),
    // Needs another kernel, file system, hardware, or a machine that gives all rights away.
    (
        "crates/jaco-docker/tests/it/table.rs",
        "fn limits()",
        &[
            "services.*.cpu_rt_period",
            "services.*.cpu_rt_runtime",
            "services.*.mem_swappiness",
            "services.*.oom_kill_disable",
            "services.*.blkio_config",
            "services.*.blkio_config.weight",
            "services.*.blkio_config.weight_device",
            "services.*.blkio_config.weight_device[].path",
            "services.*.blkio_config.weight_device[].weight",
            "services.*.blkio_config.device_read_bps",
            "services.*.blkio_config.device_read_bps[].path",
            "services.*.blkio_config.device_read_bps[].rate",
            "services.*.blkio_config.device_read_iops",
            "services.*.blkio_config.device_read_iops[].path",
            "services.*.blkio_config.device_read_iops[].rate",
            "services.*.blkio_config.device_write_bps",
            "services.*.blkio_config.device_write_bps[].path",
            "services.*.blkio_config.device_write_bps[].rate",
            "services.*.blkio_config.device_write_iops",
            "services.*.blkio_config.device_write_iops[].path",
            "services.*.blkio_config.device_write_iops[].rate",
        ],
    ),
    (
        "crates/jaco-docker/tests/it/table.rs",
        "fn devices()",
        &[
            "services.*.gpus",
            "services.*.gpus[].capabilities",
            "services.*.gpus[].count",
            "services.*.gpus[].device_ids",
            "services.*.gpus[].driver",
            "services.*.gpus[].options",
            "services.*.deploy.resources.reservations.devices",
            "services.*.deploy.resources.reservations.devices[].capabilities",
            "services.*.deploy.resources.reservations.devices[].count",
            "services.*.deploy.resources.reservations.devices[].device_ids",
            "services.*.deploy.resources.reservations.devices[].driver",
            "services.*.deploy.resources.reservations.devices[].options",
        ],
    ),
    (
        "crates/jaco-docker/tests/it/table.rs",
        "fn rights()",
        &["services.*.privileged", "services.*.storage_opt"],
    ),
    // What the planner does.
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn dependencies_are_waited_for()",
        &[
            "services.*.depends_on",
            "services.*.depends_on.*.condition",
            "services.*.depends_on.*.required",
        ],
    ),
    (
        "crates/jaco-scheduler/tests/it/laws.rs",
        "PL-9",
        &["services.*.deploy.resources.reservations.cpus"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn rollouts_complete(",
        &["services.*.deploy.update_config.parallelism"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn steps_wait_as_the_policy_says()",
        &["services.*.deploy.update_config.delay", "services.*.deploy.update_config.monitor"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn a_failed_step_pauses_the_rollout()",
        &["services.*.deploy.update_config.failure_action"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn the_share_of_steps_that_may_fail_is_kept()",
        &["services.*.deploy.update_config.max_failure_ratio"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn going_back_has_its_own_pace()",
        &["services.*.deploy.rollback_config.parallelism"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rolling.rs",
        "fn going_back_waits_between_steps()",
        &["services.*.deploy.rollback_config.delay"],
    ),
    (
        "crates/jaco-scheduler/tests/it/changing.rs",
        "fn what_fails_on_the_way_back_is_answered_as_people_ask()",
        &[
            "services.*.deploy.rollback_config.failure_action",
            "services.*.deploy.rollback_config.max_failure_ratio",
        ],
    ),
    (
        "crates/jaco-scheduler/tests/it/changing.rs",
        "fn what_comes_back_is_watched()",
        &["services.*.deploy.rollback_config.monitor"],
    ),
    (
        "tests/tests/docker/files.rs",
        "fn files_and_secrets_are_where_they_belong()",
        &[
            "configs.*.content",
            "configs.*.environment",
            "configs.*.file",
            "secrets.*.environment",
            "secrets.*.file",
            "services.*.configs[].gid",
            "services.*.configs[].mode",
            "services.*.configs[].source",
            "services.*.configs[].target",
            "services.*.configs[].uid",
            "services.*.secrets[].gid",
            "services.*.secrets[].mode",
            "services.*.secrets[].source",
            "services.*.secrets[].target",
            "services.*.secrets[].uid",
        ],
    ),
    (
        "tests/tests/docker/files.rs",
        "fn external_ones_are_kept_by_the_cluster()",
        &["configs.*.external", "configs.*.name", "secrets.*.external", "secrets.*.name"],
    ),
];
