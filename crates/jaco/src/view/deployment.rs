//! Deployments and their services.

use std::collections::BTreeSet;

pub(crate) use jaco_json::deployment::json;
use jaco_proto::v1::{DeploymentInfo, ServiceInfo, StatusResponse};
use jaco_sentences::service;

use super::json::image_with_digest;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame};
use crate::view::progress;

/// Deployments as a table.
pub(crate) fn table(deployments: &[DeploymentInfo], frame: &Frame) -> String {
    let mut head = vec!["DEPLOYMENT", "REVISION", "STATUS", "REPLICAS", "UPDATED"];
    if frame.detail == Detail::Wide {
        head.extend(["BY", "SERVICES"]);
    }
    let mut table = Table::new(&head);
    for deployment in deployments {
        let sum = |of: fn(&ServiceInfo) -> u32| deployment.services.iter().map(of).sum::<u32>();
        let mut row = vec![
            deployment.name.clone(),
            deployment.revision.to_string(),
            deployment.status.clone(),
            format!("{}/{}", sum(progress::fulfilled), sum(|service| service.desired)),
            time::ago(deployment.updated_at_ms, frame.now_ms),
        ];
        if frame.detail == Detail::Wide {
            let names = deployment.services.iter().map(|service| service.name.as_str());
            row.extend([deployment.updated_by.clone(), names.collect::<Vec<_>>().join(",")]);
        }
        table.row(row);
    }
    table.render()
}

/// The services of all deployments as a table.
pub(crate) fn services_table(status: &StatusResponse, frame: &Frame) -> String {
    let mut head = vec!["SERVICE", "IMAGE", "PLACEMENT", "RUNNING", "NOTES"];
    if frame.detail == Detail::Wide {
        head.insert(4, "SPEC");
    }
    let mut services = status.deployments.iter().flat_map(|deployment| &deployment.services);
    let is_published = services.any(|service| !service.published.is_empty());
    if is_published {
        head.insert(4, "PUBLISHED");
    }
    let mut table = Table::new(&head);
    for deployment in &status.deployments {
        for service in &deployment.services {
            let mut row = vec![
                format!("{}/{}", deployment.name, service.name),
                image(status, deployment, service, frame.detail),
                service.placement.clone(),
                format!("{}/{}", progress::fulfilled(service), service.desired),
                service::notes(status, deployment, service, frame.now_ms),
            ];
            if frame.detail == Detail::Wide {
                row.insert(4, service.spec_hash.clone());
            }
            if is_published {
                row.insert(4, service.published.join(" "));
            }
            table.row(row);
        }
    }
    table.render()
}

/// The image of a service: the one that its file names, or what serves where that was given up.
fn image(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
    detail: Detail,
) -> String {
    let has_failed = service
        .rollout
        .as_ref()
        .is_some_and(|rollout| !matches!(rollout.state.as_str(), "in_progress" | "completed"));
    let serving = progress::serving(status, deployment, service);
    match detail {
        _ if has_failed && !serving.is_empty() => {
            let images: BTreeSet<_> = serving.into_keys().map(|(_, image)| image).collect();
            images.into_iter().collect::<Vec<_>>().join(", ")
        }
        Detail::Wide => image_with_digest(&service.image, &service.image_digest),
        Detail::Short => service.image.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-EDGE-2: ports that every node answers are shown where there are any, and take no room elsewhere.
    #[test]
    fn published_ports_are_shown() {
        let service = |name: &str, published: &[&str]| ServiceInfo {
            name: name.to_owned(),
            published: published.iter().map(|port| (*port).to_owned()).collect(),
            ..ServiceInfo::default()
        };
        let head = |services: Vec<ServiceInfo>| {
            let deployment =
                DeploymentInfo { name: "shop".to_owned(), services, ..Default::default() };
            let status = StatusResponse { deployments: vec![deployment], ..Default::default() };
            let frame = Frame { detail: Detail::Short, now_ms: 0 };
            let table = services_table(&status, &frame);
            let lines =
                table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(head(vec![service("web", &[])])[0], "SERVICE IMAGE PLACEMENT RUNNING NOTES");
        let shown =
            head(vec![service("db", &[]), service("web", &["*:8080→80/tcp", "*:53→53/udp"])]);
        assert_eq!(shown[0], "SERVICE IMAGE PLACEMENT RUNNING PUBLISHED NOTES");
        assert!(shown[2].contains("*:8080→80/tcp *:53→53/udp"), "{shown:?}");
    }
}
