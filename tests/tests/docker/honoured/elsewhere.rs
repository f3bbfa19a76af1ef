//! Honoured keys that no container of this machine can show: those of the planner, those that the
//! client processes, and those that need another kernel or a newer engine.

/// File, name of the test in it, and the keys that it proves.
pub(super) const ELSEWHERE: &[(&str, &str, &[&str])] = &[
    // Needs a newer engine, which the create body shows all the same.
    ("crates/jaco-docker/tests/it/table.rs", "process", &["services.*.annotations"]),
    ("crates/jaco-docker/tests/it/table.rs", "health", &["services.*.healthcheck.start_interval"]),
    ("crates/jaco-docker/tests/it/table.rs", "networks", &["services.*.networks.*.gw_priority"]),
    (
        "crates/jaco-docker/tests/it/table.rs",
        "mounts",
        &[
            "services.*.volumes[].bind.recursive",
            "services.*.volumes[].image",
            "services.*.volumes[].image.subpath",
            "services.*.volumes[].volume.subpath",
        ],
    ),
    // The edge's.
    (
        "crates/jaco-compose/tests/it/ingress.rs",
        "a_port_may_ask_for_the_proxy_protocol",
        &["services.*.ports[].x-jaco.proxy_protocol"],
    ),
    // The planner's.
    (
        "crates/jaco-scheduler/tests/it/colocation.rs",
        "max_bounds_the_replicas_on_a_node",
        &["services.*.deploy.placement.max_replicas_per_node"],
    ),
    // Needs another kernel, file system, hardware, or a machine that gives all rights away.
    (
        "crates/jaco-docker/tests/it/table.rs",
        "limits",
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
        "devices",
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
        "rights",
        &["services.*.privileged", "services.*.storage_opt"],
    ),
    // What the planner does.
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "dependencies_are_waited_for",
        &[
            "services.*.depends_on",
            "services.*.depends_on.*.condition",
            "services.*.depends_on.*.required",
        ],
    ),
    (
        "crates/jaco-scheduler/tests/it/laws.rs",
        "every_pass_keeps_the_laws_and_the_cluster_converges",
        &["services.*.deploy.resources.reservations.cpus"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "rollouts_complete",
        &["services.*.deploy.update_config.parallelism"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "steps_are_delayed_by_the_policy",
        &["services.*.deploy.update_config.delay", "services.*.deploy.update_config.monitor"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "failed_step_pauses_the_rollout",
        &["services.*.deploy.update_config.failure_action"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "max_failure_ratio_is_kept",
        &["services.*.deploy.update_config.max_failure_ratio"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "rollback_has_its_own_pace",
        &["services.*.deploy.rollback_config.parallelism"],
    ),
    (
        "crates/jaco-scheduler/tests/it/rollouts.rs",
        "rollback_steps_are_delayed",
        &["services.*.deploy.rollback_config.delay"],
    ),
    (
        "crates/jaco-scheduler/tests/it/changes.rs",
        "rollback_failures_follow_the_rollback_policy",
        &[
            "services.*.deploy.rollback_config.failure_action",
            "services.*.deploy.rollback_config.max_failure_ratio",
        ],
    ),
    (
        "crates/jaco-scheduler/tests/it/changes.rs",
        "rolled_back_replicas_are_monitored",
        &["services.*.deploy.rollback_config.monitor"],
    ),
    (
        "tests/tests/docker/files.rs",
        "files_and_secrets_are_mounted_and_not_leaked",
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
        "named_configs_and_secrets_are_stored_by_the_cluster",
        &["configs.*.external", "configs.*.name", "secrets.*.external", "secrets.*.name"],
    ),
];
