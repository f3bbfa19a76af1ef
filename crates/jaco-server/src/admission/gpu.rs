//! The GPU demand of a service (R-PLACE-8).

use std::num::NonZeroU32;

use jaco_compose::facts::GpuRequest;
use jaco_types::{GpuChoice, GpuDemand, ServiceName};

use super::notes::Notes;

/// The driver of a request that names none, as in container engines.
const DEFAULT_DRIVER: &str = "nvidia";

/// The GPUs of each replica. Other devices are left to the engine.
pub(super) fn demand(
    service: &ServiceName,
    requests: &[GpuRequest],
    notes: &mut Notes,
) -> Option<GpuDemand> {
    let is_gpu = |request: &&GpuRequest| request.capabilities.iter().any(|known| known == "gpu");
    let (gpus, others): (Vec<_>, Vec<_>) = requests.iter().partition(is_gpu);
    for other in others {
        let capabilities = other.capabilities.join(", ");
        notes.warnings.push(format!(
            "service {service}: devices of capability {capabilities} are not considered in the choice of \
             nodes; the engine reports an error on a node without them"
        ));
    }
    if gpus.len() > 1 {
        notes.problems.push(format!(
            "service {service} requests GPUs {} times: combine them into one request, as \
             gpus: [{{count: 2}}]",
            gpus.len()
        ));
    }
    let GpuRequest { count, device_ids, driver, .. } = gpus.first()?;
    let named = driver.as_deref().filter(|driver| !driver.is_empty());
    let driver = named.unwrap_or(DEFAULT_DRIVER).to_owned();
    let choice = match count {
        _ if !device_ids.is_empty() => {
            GpuChoice::These(device_ids.iter().map(|id| id.as_str().into()).collect())
        }
        None => GpuChoice::All,
        Some(count) => GpuChoice::Count(NonZeroU32::new(*count)?),
    };
    Some(GpuDemand { driver, choice })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(count: Option<u32>, ids: &[&str], driver: Option<&str>, can: &str) -> GpuRequest {
        GpuRequest {
            count,
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            driver: driver.map(str::to_owned),
            capabilities: vec![can.to_owned()],
        }
    }

    fn show(requests: &[GpuRequest]) -> (String, Notes) {
        let mut notes = Notes::default();
        let service = ServiceName::new("web").unwrap();
        let demand = demand(&service, requests, &mut notes);
        (demand.map(|demand| demand.to_string()).unwrap_or_default(), notes)
    }

    /// R-PLACE-8: a count, given ids or all GPUs, of the given or the default driver.
    #[test]
    fn a_request_selects_by_count_ids_or_all() {
        assert_eq!(show(&[]).0, "");
        assert_eq!(show(&[asked(Some(2), &[], None, "gpu")]).0, "2 of nvidia");
        assert_eq!(show(&[asked(None, &[], Some(""), "gpu")]).0, "all GPUs of nvidia");
        assert_eq!(show(&[asked(None, &["0", "a"], Some("amdgpu"), "gpu")]).0, "0, a of amdgpu");
        assert_eq!(show(&[asked(Some(0), &[], None, "gpu")]).0, "");
    }

    /// R-PLACE-8: other devices are a warning, two requests are refused.
    #[test]
    fn other_devices_warn_and_two_requests_are_refused() {
        let (demand, notes) = show(&[asked(None, &[], None, "tpu")]);
        assert_eq!((demand.as_str(), notes.problems.len()), ("", 0));
        assert!(notes.warnings[0].contains("capability tpu"), "{notes:?}");
        let twice = [asked(Some(1), &[], None, "gpu"), asked(Some(1), &[], None, "gpu")];
        let problems = show(&twice).1.problems;
        assert!(problems[0].contains("requests GPUs 2 times"), "{problems:?}");
    }
}
