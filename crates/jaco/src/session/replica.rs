//! The replica that a command is for: named itself, or as one of a service.

use jaco_client::Client;
use jaco_proto::v1::{ReplicaInfo, StatusRequest, StatusResponse};
use jaco_types::ErrorCode;

use crate::error::CliError;

/// A replica, or the service that one is chosen of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// The id of a replica.
    Replica(String),
    /// A running replica of it is chosen.
    Service { deployment: String, service: String },
}

impl Named {
    /// `DEPLOYMENT/SERVICE`, `DEPLOYMENT/SERVICE/N` or the id of a replica.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        let Some((deployment, service)) = text.split_once('/') else {
            return Self::Replica(text.to_owned());
        };
        match service.split_once('/') {
            Some((service, number)) if number.parse::<u32>().is_ok() => {
                Self::Replica(format!("{deployment}-{service}-{number}"))
            }
            Some(_) | None => {
                Self::Service { deployment: deployment.to_owned(), service: service.to_owned() }
            }
        }
    }

    /// The id of the replica. Of a service, one that runs if there is one.
    ///
    /// # Errors
    /// If there is no such service, or it has no replicas. Whether a named replica is there is not asked.
    pub(crate) async fn replica(&self, client: &Client) -> Result<String, CliError> {
        match self {
            Self::Replica(id) => Ok(id.clone()),
            Self::Service { deployment, service } => {
                let request =
                    StatusRequest { deployment: deployment.clone(), ..StatusRequest::default() };
                of_service(client.read_status(request).await?, deployment, service)
            }
        }
    }
}

/// Chooses a replica of a service.
fn of_service(status: StatusResponse, deployment: &str, service: &str) -> Result<String, CliError> {
    let refused =
        |code, message: String, help| CliError::Refused { code, message, help: Some(help) };
    let Some(known) = status.deployments.iter().find(|known| known.name == deployment) else {
        let help = "jaco get deployments lists the deployments".to_owned();
        let message = format!("there is no deployment {deployment}");
        return Err(refused(ErrorCode::DeploymentNotFound, message, help));
    };
    let services: Vec<&str> = known.services.iter().map(|service| service.name.as_str()).collect();
    if !services.contains(&service) {
        let message = format!("deployment {deployment} has no service {service}");
        let help = format!("its services are {}", services.join(", "));
        return Err(refused(ErrorCode::ServiceNotFound, message, help));
    }
    let own = status.replicas.into_iter().filter(|replica| replica.service == service);
    choose(own.collect()).ok_or_else(|| {
        let message = format!("{deployment}/{service} has no replicas");
        let help = format!("jaco status {deployment}/{service} shows why");
        refused(ErrorCode::ReplicaNotFound, message, help)
    })
}

/// A running replica if there is one, else the one closest to running.
fn choose(mut replicas: Vec<ReplicaInfo>) -> Option<String> {
    let rank = |replica: &ReplicaInfo| match replica.state.as_str() {
        "running" => 0,
        "degraded" => 1,
        "starting" => 2,
        _ => 3,
    };
    replicas.sort_by(|a, b| (rank(a), &a.id).cmp(&(rank(b), &b.id)));
    replicas.into_iter().next().map(|replica| replica.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_named_in_three_ways() {
        let replica = |name: &str| Named::Replica(name.to_owned());
        assert_eq!(Named::parse("shop-web-0"), replica("shop-web-0"));
        assert_eq!(Named::parse("shop/web/12"), replica("shop-web-12"));
        let service = Named::Service { deployment: "shop".into(), service: "web".into() };
        assert_eq!(Named::parse("shop/web"), service);
        // Not a number: the cluster says that there is no such service.
        let other = Named::Service { deployment: "shop".into(), service: "web/x".into() };
        assert_eq!(Named::parse("shop/web/x"), other);
    }

    /// R-CLI-6: of a service, the replica closest to running is chosen.
    #[test]
    fn running_replica_is_preferred() {
        let replica = |(id, state): &(&str, &str)| ReplicaInfo {
            id: (*id).to_owned(),
            state: (*state).to_owned(),
            ..ReplicaInfo::default()
        };
        let chosen = |of: &[(&str, &str)]| choose(of.iter().map(replica).collect());
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[("a", "failed"), ("b", "pulling")]).as_deref(), Some("a"));
        let of = [
            ("a", "failed"),
            ("b", "starting"),
            ("c", "degraded"),
            ("e", "running"),
            ("d", "running"),
        ];
        assert_eq!(chosen(&of).as_deref(), Some("d"));
        assert_eq!(chosen(&of[..3]).as_deref(), Some("c"));
    }
}
