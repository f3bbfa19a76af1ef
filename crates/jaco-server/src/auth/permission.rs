//! Which role each rpc needs (ADR 0119): one table with a row for each, and what rights include.
//!
//! The node that is asked checks the role before it reads the message. The leader checks again by its own state before
//! it executes, and so does whoever finds out which deployment a request is about. An rpc without a row is an admin's.

use jaco_state::ClusterState;
use jaco_state::token::Proof;
use jaco_types::{
    DeploymentName, ErrorCode, Identity, Rejection, Rights, Role, Timestamp, TokenId,
};

use crate::peers::no_leader;

/// What an rpc needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No role. Its access in the proto says whose it is: the socket's, a joining node's, a member's.
    NoRole,
    /// This role.
    Role(Role),
    /// A deployer of all deployments that this field leads to. What it leads to beside them is an operator's.
    Deployment {
        /// The field of the request.
        field: &'static str,
    },
    /// This role, and another one if the field is set.
    RoleWith {
        /// The role without the field.
        role: Role,
        /// The field of the request.
        field: &'static str,
        /// The role with the field.
        with: Role,
    },
}

use Needs::{Deployment, NoRole, RoleWith};

const VIEWER: Needs = Needs::Role(Role::Viewer);
const DEPLOYER: Needs = Needs::Role(Role::Deployer);
const OPERATOR: Needs = Needs::Role(Role::Operator);
const ADMIN: Needs = Needs::Role(Role::Admin);

/// Every rpc of `jaco.v1`, and what it needs.
pub const ROWS: &[(&str, Needs)] = &[
    ("/jaco.v1.Cluster/Init", NoRole),
    ("/jaco.v1.Cluster/JoinCluster", NoRole),
    ("/jaco.v1.Cluster/AdmitNode", NoRole),
    ("/jaco.v1.Cluster/Status", VIEWER),
    // Who may do what, and who is a member.
    ("/jaco.v1.Cluster/IssueJoinToken", ADMIN),
    ("/jaco.v1.Cluster/IssueOperatorToken", ADMIN),
    ("/jaco.v1.Cluster/RotateOperatorToken", ADMIN),
    ("/jaco.v1.Cluster/IssueOperatorCertificate", ADMIN),
    // Its own, of whatever role; another one's is an admin's.
    ("/jaco.v1.Cluster/RenewOperatorCertificate", VIEWER),
    ("/jaco.v1.Cluster/RevokeToken", ADMIN),
    ("/jaco.v1.Cluster/ListTokens", ADMIN),
    ("/jaco.v1.Cluster/RemoveNode", ADMIN),
    ("/jaco.v1.Cluster/SetAvailability", OPERATOR),
    ("/jaco.v1.Cluster/SetLabels", OPERATOR),
    ("/jaco.v1.Cluster/SetConstraints", ADMIN),
    ("/jaco.v1.Cluster/GetConstraints", VIEWER),
    ("/jaco.v1.Cluster/SetDisabled", Deployment { field: "allocations" }),
    ("/jaco.v1.Cluster/GetDisabled", VIEWER),
    (
        "/jaco.v1.Cluster/SetAuditRetention",
        RoleWith { role: Role::Viewer, field: "age_ms", with: Role::Admin },
    ),
    ("/jaco.v1.Cluster/CollectVolumes", OPERATOR),
    // Every deployment may name their images.
    ("/jaco.v1.Cluster/StoreRegistry", ADMIN),
    ("/jaco.v1.Cluster/RemoveRegistry", ADMIN),
    ("/jaco.v1.Cluster/ListRegistries", VIEWER),
    // Where events go to, out of the cluster: what is sent there, each node can reach.
    ("/jaco.v1.Cluster/StoreNotifyTarget", ADMIN),
    ("/jaco.v1.Cluster/RemoveNotifyTarget", ADMIN),
    ("/jaco.v1.Cluster/PauseNotifyTarget", OPERATOR),
    ("/jaco.v1.Cluster/ListNotifyTargets", VIEWER),
    ("/jaco.v1.Cluster/TestNotifyTarget", OPERATOR),
    ("/jaco.v1.Cluster/ListUndelivered", VIEWER),
    ("/jaco.v1.Cluster/SettleUndelivered", OPERATOR),
    // A backup holds all secrets, and a path is one of the nodes.
    ("/jaco.v1.Cluster/StoreBackupSchedule", ADMIN),
    ("/jaco.v1.Cluster/RemoveBackupSchedule", ADMIN),
    ("/jaco.v1.Cluster/ListBackupSchedules", VIEWER),
    ("/jaco.v1.Cluster/RunBackupSchedule", OPERATOR),
    ("/jaco.v1.Cluster/SetPolicy", ADMIN),
    ("/jaco.v1.Cluster/AllowReaches", ADMIN),
    ("/jaco.v1.Cluster/RevokeReaches", ADMIN),
    ("/jaco.v1.Cluster/GetPolicy", VIEWER),
    ("/jaco.v1.Cluster/EnableNetworks", ADMIN),
    ("/jaco.v1.Cluster/CreateNetwork", OPERATOR),
    ("/jaco.v1.Cluster/RemoveNetwork", OPERATOR),
    ("/jaco.v1.Cluster/ResizeNetwork", OPERATOR),
    ("/jaco.v1.Cluster/RotateNetworkKey", ADMIN),
    ("/jaco.v1.Cluster/RotateAuthority", ADMIN),
    ("/jaco.v1.Cluster/GetAuthority", VIEWER),
    ("/jaco.v1.Cluster/RotateKek", ADMIN),
    ("/jaco.v1.Cluster/GetKekRotation", VIEWER),
    ("/jaco.v1.Cluster/ListNetworks", VIEWER),
    ("/jaco.v1.Cluster/ListRoutes", VIEWER),
    ("/jaco.v1.Cluster/StoreCertificate", ADMIN),
    ("/jaco.v1.Cluster/RemoveCertificate", ADMIN),
    ("/jaco.v1.Cluster/ListCertificates", VIEWER),
    // Its session may do what its sender may, and is judged with each request.
    ("/jaco.v1.Cluster/IssueSignInLink", VIEWER),
    // The name may be in the compose file, in jaco.yaml or in the request: what counts is the one that is applied.
    ("/jaco.v1.Deploy/Apply", Deployment { field: "deployment" }),
    ("/jaco.v1.Deploy/Delete", Deployment { field: "deployment" }),
    ("/jaco.v1.Deploy/Rollback", Deployment { field: "deployment" }),
    ("/jaco.v1.Deploy/PinRevision", Deployment { field: "deployment" }),
    ("/jaco.v1.Deploy/RunJob", Deployment { field: "deployment" }),
    // Files on their way into an apply belong to no deployment yet.
    ("/jaco.v1.Deploy/MissingContents", DEPLOYER),
    ("/jaco.v1.Deploy/PutContents", DEPLOYER),
    // Every deployment may name them.
    ("/jaco.v1.Deploy/StoreContent", OPERATOR),
    // Who may set a secret may edit it. It is audited.
    ("/jaco.v1.Deploy/ReadContent", OPERATOR),
    ("/jaco.v1.Deploy/RemoveContent", OPERATOR),
    ("/jaco.v1.Deploy/ListContents", VIEWER),
    ("/jaco.v1.Exec/Run", Deployment { field: "start.replica" }),
    ("/jaco.v1.Exec/RunBeside", Deployment { field: "start.replica" }),
    ("/jaco.v1.Exec/Copy", Deployment { field: "start.replica" }),
    ("/jaco.v1.Exec/Forward", Deployment { field: "start.replica" }),
    // Every deployment may name them.
    ("/jaco.v1.Images/RecordImage", OPERATOR),
    ("/jaco.v1.Images/TagImage", OPERATOR),
    ("/jaco.v1.Images/RemoveImage", OPERATOR),
    ("/jaco.v1.Images/ListImages", VIEWER),
    ("/jaco.v1.Uploads/Upload", OPERATOR),
    ("/jaco.v1.Volumes/ListVolumes", VIEWER),
    ("/jaco.v1.Volumes/ReadVolume", Deployment { field: "deployment" }),
    ("/jaco.v1.Volumes/PlanVolumeMove", VIEWER),
    ("/jaco.v1.Volumes/SettleVolumeMove", Deployment { field: "deployment" }),
    ("/jaco.v1.VolumeWrites/WriteVolume", Deployment { field: "start.deployment" }),
    ("/jaco.v1.Peer/Raft", NoRole),
    ("/jaco.v1.Peer/Propose", NoRole),
    ("/jaco.v1.Peer/Forward", NoRole),
    ("/jaco.v1.Peer/Heartbeat", NoRole),
    ("/jaco.v1.Peer/Pulls", NoRole),
    ("/jaco.v1.Peer/AcknowledgeEndpoints", NoRole),
    ("/jaco.v1.Peer/ProbeRouter", NoRole),
    ("/jaco.v1.Peer/EdgeTraffic", NoRole),
    ("/jaco.v1.Peer/ProbeEdge", NoRole),
    ("/jaco.v1.Peer/FetchKek", NoRole),
    ("/jaco.v1.Peer/ReadBlob", NoRole),
    ("/jaco.v1.Peer/RenewCertificate", NoRole),
    ("/jaco.v1.Forwarded/AuditAction", NoRole),
    ("/jaco.v1.Planner/Explain", VIEWER),
    ("/jaco.v1.Planner/Whatif", VIEWER),
    ("/jaco.v1.Planner/Top", VIEWER),
    ("/jaco.v1.Planner/Rebalance", OPERATOR),
    ("/jaco.v1.Query/Overview", VIEWER),
    ("/jaco.v1.Query/Watch", VIEWER),
    ("/jaco.v1.Query/GetDeployment", VIEWER),
    ("/jaco.v1.Query/History", VIEWER),
    ("/jaco.v1.Query/Allocations", VIEWER),
    ("/jaco.v1.Query/Audit", VIEWER),
    ("/jaco.v1.Query/VerifyAudit", VIEWER),
    ("/jaco.v1.Query/NodeFacts", VIEWER),
    ("/jaco.v1.Query/Examine", VIEWER),
    ("/jaco.v1.Query/ExamineNetwork", VIEWER),
    ("/jaco.v1.Query/ExplainPath", VIEWER),
    ("/jaco.v1.Query/Jobs", VIEWER),
    // The log has what goes on in all deployments.
    ("/jaco.v1.Query/SupportFiles", OPERATOR),
    // Containers write what they like into their logs, secrets included.
    ("/jaco.v1.Query/Logs", Deployment { field: "deployment" }),
    ("/jaco.v1.Query/Backup", ADMIN),
    // A consumer with a name delays the end of instances, and replaces the one that has its name.
    (
        "/jaco.v1.Routing/Watch",
        RoleWith { role: Role::Viewer, field: "attach.consumer", with: Role::Operator },
    ),
];

/// Every document that is served beside the rpcs, by its path.
pub const PAGES: &[(&str, Needs)] = &[("/metrics", VIEWER)];

impl Needs {
    /// What this rpc, or the document at this path, needs.
    #[must_use]
    pub fn of(method: &str) -> Self {
        let row = ROWS.iter().chain(PAGES).find(|(known, _)| *known == method);
        row.map_or(ADMIN, |(_, needs)| *needs)
    }

    /// The role without which the message is not read; none if it needs no role.
    #[must_use]
    pub const fn least_role(self) -> Option<Role> {
        match self {
            Self::NoRole => None,
            Self::Role(role) | Self::RoleWith { role, .. } => Some(role),
            Self::Deployment { .. } => Some(Role::Deployer),
        }
    }
}

/// What a request is about to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concern<'a> {
    /// A deployment.
    Deployment(&'a DeploymentName),
    /// What needs this role, whatever deployments there are.
    Role(Role),
}

/// What a sender may do. Members and users of the socket may do everything.
///
/// # Errors
/// Why its token does not count any more.
pub(crate) fn rights(
    state: &ClusterState,
    by: &Identity,
    now: Timestamp,
) -> Result<Rights, Rejection> {
    match by {
        Identity::Local { .. } | Identity::Node { .. } | Identity::Scheduler => Ok(Rights::Admin),
        Identity::Operator { token } => of_token(state, token, now),
        Identity::Anonymous => {
            let message = "the request has no credential that this rpc accepts";
            Err(Rejection::new(ErrorCode::Unauthenticated, message))
        }
    }
}

/// The member that took the request has compared the secret. The leader may know better whether the token still counts.
fn of_token(state: &ClusterState, id: &TokenId, now: Timestamp) -> Result<Rights, Rejection> {
    // Tokens are never forgotten: a leader that does not know it has not applied what is committed.
    let token = state.operator_tokens.get(id).ok_or_else(no_leader)?;
    let what = match token.proof {
        Proof::Secret(_) | Proof::Rotated { .. } => "operator token",
        Proof::Certificate(_) => "client certificate",
    };
    if token.revoked_at.is_some() {
        let message = format!("{what} {id} was revoked");
        return Err(Rejection::new(ErrorCode::TokenRevoked, message));
    }
    if token.expires_at.is_some_and(|at| now > at) {
        let message = format!("{what} {id} has expired");
        return Err(Rejection::new(ErrorCode::TokenExpired, message));
    }
    Ok(token.rights().clone())
}

/// Refuses a sender whose rights do not include this.
///
/// # Errors
/// `permission_denied`, with what it takes and how that is granted.
pub(crate) fn check(by: &Identity, rights: &Rights, concern: Concern<'_>) -> Result<(), Rejection> {
    let is_included = match concern {
        Concern::Deployment(name) => rights.may_change(name),
        Concern::Role(role) => rights.role() >= role,
    };
    if is_included {
        return Ok(());
    }
    let (role, needed, grant) = match concern {
        Concern::Deployment(name) => (
            Role::Deployer,
            format!("role deployer of {name}"),
            format!("--role deployer --deployment {name}"),
        ),
        Concern::Role(role @ Role::Deployer) => {
            (role, "role deployer".to_owned(), "--role deployer --deployment DEPLOYMENT".to_owned())
        }
        Concern::Role(role) => (role, format!("role {role}"), format!("--role {role}")),
    };
    let message = format!(
        "this needs {needed}, and {by} is {rights}: an admin can issue a token that allows it, \
         `jaco token issue NAME {grant}`"
    );
    let mut rejection = Rejection::new(ErrorCode::PermissionDenied, message)
        .with("needs", role.as_str())
        .with("by", by.to_string())
        .with("by_role", rights.role().as_str());
    if let Concern::Deployment(name) = concern {
        rejection = rejection.with("deployment", name.as_str());
    }
    Err(rejection)
}
