//! Limits, devices and other quantities.

use bollard::models::{
    DeviceMapping, DeviceRequest, HostConfig, ResourcesBlkioWeightDevice, ResourcesUlimits,
    ThrottleDevice,
};

use super::{SpecError, quantity, some, texts};
use crate::model::{BlkioRate, Device, DeviceReservation, Service, Text, Ulimit};

/// Adds them. Where a limit can be written in two places, the one under `deploy` counts.
pub(super) fn limit(base: HostConfig, service: &Service) -> Result<HostConfig, SpecError> {
    let limits = &service.deploy.resources.limits;
    let reservations = &service.deploy.resources.reservations;
    let memory = limits.memory.as_ref().or(service.mem_limit.as_ref());
    let reserved = reservations.memory.as_ref().or(service.mem_reservation.as_ref());
    let cpus = limits.cpus.as_ref().or(service.cpus.as_ref());
    let base = HostConfig {
        nano_cpus: with(cpus, |text| quantity::nano_cpus("cpus", text))?,
        memory: with(memory, |text| quantity::bytes("mem_limit", text))?,
        memory_reservation: with(reserved, |text| quantity::bytes("mem_reservation", text))?,
        memory_swap: with(service.memswap_limit.as_ref(), |text| {
            quantity::bytes("memswap_limit", text)
        })?,
        memory_swappiness: with(service.mem_swappiness.as_ref(), |text| {
            quantity::whole("mem_swappiness", text)
        })?,
        pids_limit: limits.pids.or(service.pids_limit),
        cpu_shares: service.cpu_shares,
        cpuset_cpus: service.cpuset.clone(),
        shm_size: with(service.shm_size.as_ref(), |text| quantity::bytes("shm_size", text))?,
        ulimits: some(service.ulimits.iter().map(ulimit).collect()),
        devices: some(service.devices.iter().map(device).collect()),
        device_cgroup_rules: some(service.device_cgroup_rules.clone()),
        device_requests: some(device_requests(service)?),
        ..base
    };
    blkio(cpu_time(base, service)?, service)
}

fn cpu_time(base: HostConfig, service: &Service) -> Result<HostConfig, SpecError> {
    let micros = |key, text: &Option<Text>| with(text.as_ref(), |text| quantity::micros(key, text));
    Ok(HostConfig {
        cpu_period: micros("cpu_period", &service.cpu_period)?,
        cpu_quota: micros("cpu_quota", &service.cpu_quota)?,
        cpu_realtime_period: micros("cpu_rt_period", &service.cpu_rt_period)?,
        cpu_realtime_runtime: micros("cpu_rt_runtime", &service.cpu_rt_runtime)?,
        ..base
    })
}

fn blkio(base: HostConfig, service: &Service) -> Result<HostConfig, SpecError> {
    let Some(blkio) = &service.blkio_config else { return Ok(base) };
    let weights = blkio.weight_device.iter().map(|device| ResourcesBlkioWeightDevice {
        path: Some(device.path.clone()),
        weight: Some(device.weight),
    });
    Ok(HostConfig {
        blkio_weight: blkio.weight,
        blkio_weight_device: some(weights.collect()),
        blkio_device_read_bps: some(rates(&blkio.device_read_bps)?),
        blkio_device_write_bps: some(rates(&blkio.device_write_bps)?),
        blkio_device_read_iops: some(rates(&blkio.device_read_iops)?),
        blkio_device_write_iops: some(rates(&blkio.device_write_iops)?),
        ..base
    })
}

fn rates(rates: &[BlkioRate]) -> Result<Vec<ThrottleDevice>, SpecError> {
    let rate = |rate: &BlkioRate| {
        let limit = quantity::bytes("blkio_config", &rate.rate.0)?;
        Ok(ThrottleDevice { path: Some(rate.path.clone()), rate: Some(limit) })
    };
    rates.iter().map(rate).collect()
}

fn ulimit((name, limit): (&String, &Ulimit)) -> ResourcesUlimits {
    let (soft, hard) = match limit {
        Ulimit::Both(limit) => (*limit, *limit),
        Ulimit::Each { soft, hard } => (*soft, *hard),
    };
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

fn device_requests(service: &Service) -> Result<Vec<DeviceRequest>, SpecError> {
    let reserved = service.deploy.resources.reservations.devices.iter();
    let reserved = reserved.map(|device| device_request(device, &[]));
    // `gpus` is the short way to say `capabilities: [gpu]`.
    let gpus = service.gpus.iter().map(|device| device_request(device, &["gpu"]));
    reserved.chain(gpus).collect()
}

fn device_request(
    device: &DeviceReservation,
    besides: &[&str],
) -> Result<DeviceRequest, SpecError> {
    let mut capabilities = device.capabilities.clone();
    for capability in besides {
        if !capabilities.iter().any(|present| present == capability) {
            capabilities.push((*capability).to_owned());
        }
    }
    // Without a number and without names, all of them are meant; so is `all`.
    let count = match &device.count {
        Some(Text(text)) if text != "all" => Some(quantity::whole("count", text)?),
        Some(_) => Some(-1),
        None => device.device_ids.is_empty().then_some(-1),
    };
    Ok(DeviceRequest {
        driver: device.driver.clone(),
        count,
        device_ids: some(device.device_ids.clone()),
        capabilities: some(vec![capabilities]),
        options: some(texts(&device.options)),
    })
}

fn with(
    text: Option<&Text>,
    read: impl Fn(&str) -> Result<i64, SpecError>,
) -> Result<Option<i64>, SpecError> {
    text.map(|text| read(&text.0)).transpose()
}
