//! Limits, devices and other quantities.

use std::sync::Arc;

use bollard::models::{
    DeviceMapping, DeviceRequest as DockerDeviceRequest, HostConfig, ResourcesBlkioWeightDevice,
    ResourcesUlimits, ThrottleDevice,
};
use jaco_compose::model::{BlkioLimit, Device, DeviceRequest, Resources, Service, Ulimit};

use super::{int64, some, to_map, yes};

/// Nano-CPUs per milli-CPU.
const NANOS_PER_MILLI: i64 = 1_000_000;

/// Adds limits and devices. Limits under `deploy` take precedence. `gpus` are reserved for the
/// container by the planner.
pub(super) fn limit(base: HostConfig, service: &Service, gpus: &[Arc<str>]) -> HostConfig {
    let nothing = Resources::default();
    let resources = service.deploy.as_ref().map_or(&nothing, |deploy| &deploy.resources);
    let (limits, reservations) = (&resources.limits, &resources.reservations);
    let cpu_millis = limits.cpu_millis.or(service.cpu_limit_millis);
    let base = HostConfig {
        nano_cpus: cpu_millis.map(|millis| int64(millis).saturating_mul(NANOS_PER_MILLI)),
        memory: limits.memory_bytes.or(service.memory_limit_bytes),
        memory_reservation: reservations.memory_bytes.or(service.memory_reservation_bytes),
        memory_swap: service.memory_swap_bytes,
        memory_swappiness: service.mem_swappiness,
        oom_kill_disable: yes(service.oom_kill_disable),
        pids_limit: limits.pids.or(service.pids_limit),
        cpu_period: service.cpu_period,
        cpu_quota: service.cpu_quota,
        cpu_realtime_period: service.cpu_rt_period,
        cpu_realtime_runtime: service.cpu_rt_runtime,
        cpu_shares: service.cpu_shares,
        cpuset_cpus: service.cpuset.clone(),
        shm_size: service.shm_size_bytes,
        ulimits: some(service.ulimits.iter().map(ulimit).collect()),
        devices: some(service.devices.iter().map(device).collect()),
        device_cgroup_rules: some(service.device_cgroup_rules.clone()),
        device_requests: some(device_requests(service, &reservations.devices, gpus)),
        ..base
    };
    blkio(base, service)
}

fn blkio(base: HostConfig, service: &Service) -> HostConfig {
    let Some(blkio) = &service.blkio_config else { return base };
    let weights = blkio.weight_device.iter().map(|device| ResourcesBlkioWeightDevice {
        path: Some(device.path.clone()),
        weight: Some(device.weight.into()),
    });
    HostConfig {
        blkio_weight: blkio.weight,
        blkio_weight_device: some(weights.collect()),
        blkio_device_read_bps: some(rates(&blkio.device_read_bps)),
        blkio_device_write_bps: some(rates(&blkio.device_write_bps)),
        blkio_device_read_iops: some(rates(&blkio.device_read_iops)),
        blkio_device_write_iops: some(rates(&blkio.device_write_iops)),
        ..base
    }
}

fn rates(limits: &[BlkioLimit]) -> Vec<ThrottleDevice> {
    let rate =
        |limit: &BlkioLimit| ThrottleDevice { path: Some(limit.path.clone()), rate: limit.rate };
    limits.iter().map(rate).collect()
}

fn ulimit((name, limit): (&String, &Ulimit)) -> ResourcesUlimits {
    let Ulimit { soft, hard } = *limit;
    ResourcesUlimits { name: Some(name.clone()), soft: Some(soft), hard: Some(hard) }
}

fn device(device: &Device) -> DeviceMapping {
    let target = device.target.clone().unwrap_or_else(|| device.source.clone());
    DeviceMapping {
        path_on_host: Some(device.source.clone()),
        path_in_container: Some(target),
        cgroup_permissions: Some(device.permissions.clone().unwrap_or_else(|| "rwm".to_owned())),
    }
}

fn device_requests(
    service: &Service,
    reserved: &[DeviceRequest],
    assigned: &[Arc<str>],
) -> Vec<DockerDeviceRequest> {
    let reserved = reserved.iter().map(|device| device_request(device, &[]));
    // `gpus` is short for `capabilities: [gpu]`.
    let gpus = service.gpus.iter().map(|device| device_request(device, &["gpu"]));
    let give = |request: DockerDeviceRequest| match assigned.is_empty() || !is_for_gpus(&request) {
        true => request,
        false => DockerDeviceRequest {
            // Docker would give every container with a count the same first GPUs.
            count: None,
            device_ids: Some(assigned.iter().map(ToString::to_string).collect()),
            ..request
        },
    };
    reserved.chain(gpus).map(give).collect()
}

fn is_for_gpus(request: &DockerDeviceRequest) -> bool {
    let all = request.capabilities.iter().flatten().flatten();
    all.into_iter().any(|capability| capability == "gpu")
}

fn device_request(device: &DeviceRequest, besides: &[&str]) -> DockerDeviceRequest {
    let mut capabilities = device.capabilities.clone();
    for capability in besides {
        if !capabilities.iter().any(|present| present == capability) {
            capabilities.push((*capability).to_owned());
        }
    }
    // Without a count and ids all devices are meant.
    let all = device.device_ids.is_empty().then_some(-1);
    DockerDeviceRequest {
        driver: device.driver.clone(),
        count: device.count.or(all),
        device_ids: some(device.device_ids.clone()),
        capabilities: some(vec![capabilities]),
        options: some(to_map(&device.options)),
    }
}
