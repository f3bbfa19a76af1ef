//! Which argument takes which names. Pure.

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    /// `shop/web`.
    Service,
    DeploymentOrService,
    Replica,
    ServiceOrReplica,
    /// A deployment, a service or a replica.
    Workload,
    Node,
    /// An operator token or a client certificate.
    Token,
    /// One of these, or the id of a join token.
    AnyToken,
    Config,
    Secret,
    Network,
    /// A network that belongs to no deployment.
    SharedNetwork,
    Registry,
    Certificate,
    /// A target of notifications.
    NotifyTarget,
    /// A schedule of backups.
    BackupSchedule,
    /// The name of a pushed image.
    Image,
    /// `shop/data`.
    Volume,
    /// Of the user's own contexts; no cluster is asked.
    Context,
    /// A side of `jaco cp`: `shop/web:` or a path of this machine.
    CopySide,
}

/// What an argument of a command, as in `node drain`, takes; `None` if that is no name of the cluster.
pub(super) fn of(command: &str, arg: &clap::Arg) -> Option<Kind> {
    let named = arg.get_value_names().and_then(|names| names.first());
    let value = named.map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string);
    let by_value = match value.as_str() {
        "DEPLOYMENT" => Some(Kind::Deployment),
        "DEPLOYMENT[/SERVICE]" => Some(Kind::DeploymentOrService),
        "DEPLOYMENT/SERVICE"
        | "SERVICE"
        | "[DEPLOYMENT/]SERVICE[=N]"
        | "[DEPLOYMENT/]SERVICE=N" => Some(Kind::Service),
        "DEPLOYMENT/SERVICE[/N]|REPLICA"
        | "DEPLOYMENT/SERVICE|REPLICA"
        | "DEPLOYMENT/SERVICE|REPLICA[:PORT]|URL" => Some(Kind::ServiceOrReplica),
        "DEPLOYMENT[/SERVICE]|REPLICA" => Some(Kind::Workload),
        "REPLICA" => Some(Kind::Replica),
        "NODE" | "HOST" | "HOSTNAME" => Some(Kind::Node),
        "NETWORK" => Some(Kind::Network),
        "REGISTRY" => Some(Kind::Registry),
        "TARGET" => Some(Kind::NotifyTarget),
        "SCHEDULE" => Some(Kind::BackupSchedule),
        "SRC" | "DST" => Some(Kind::CopySide),
        _ => None,
    };
    match (command, arg.get_id().as_str()) {
        // Processes of a development cluster, which may all have ended; services of a compose file.
        ("dev start", _) | ("config" | "compose config", "hash") => None,
        ("", "context")
        | ("context get" | "context use" | "context rm" | "context set", "name") => {
            Some(Kind::Context)
        }
        ("get deployment", "name") | ("get replicas" | "audit", "deployment") => {
            Some(Kind::Deployment)
        }
        ("get replica", "id") => Some(Kind::Replica),
        ("audit", "node") => Some(Kind::Node),
        ("notify add", "name") => None,
        ("token rotate" | "token renew", "name") => Some(Kind::Token),
        ("token revoke", "name") => Some(Kind::AnyToken),
        ("config get" | "config set" | "config rm", "name") => Some(Kind::Config),
        (
            "secret get" | "secret set" | "secret edit" | "secret roll" | "secret rm"
            | "secret allow",
            "name",
        ) => Some(Kind::Secret),
        ("network rm", "name") => Some(Kind::SharedNetwork),
        ("certificate set" | "certificate rm", "name") => Some(Kind::Certificate),
        ("image rm", "name") => Some(Kind::Image),
        ("volume backup" | "volume restore", "volume") => Some(Kind::Volume),
        _ => by_value,
    }
}
