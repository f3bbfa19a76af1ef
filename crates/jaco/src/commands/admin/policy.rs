//! `jaco policy`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    AllowReachesRequest, GetPolicyRequest, PolicyInfo, RevokeReachesRequest, SetPolicyRequest,
};
use jaco_types::spec::Reach;

use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{Summary, policy};

/// Show and set what deployments may reach of the nodes
///
/// Some keys of a compose file let a container reach the node it runs on, for example a bind mount or
/// `privileged`. The policy says what happens to a service with such a key: `warn` admits it with a warning,
/// `refuse` admits only what its deployment was granted. Without a command the policy is shown.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco policy
  jaco policy allow shop host-path=/srv/media
  jaco policy set refuse")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Set what happens to services that reach for what is not granted
    ///
    /// With `refuse`, an apply or rollback is refused if a service reaches its node without a grant, unless the
    /// service has the same image and container as before: so it can be scaled and restarted. Deployments that are
    /// refused at their next change are listed.
    #[command(after_long_help = "Examples:
  jaco policy set refuse
  jaco policy set warn")]
    Set {
        /// What happens
        #[arg(value_name = "MODE", value_parser = ["warn", "refuse"])]
        mode: String,
    },
    /// Set what else a deployment may reach
    ///
    /// The deployment need not exist. A grant of a path includes what is below it. The kinds are those of
    /// warnings and refusals.
    #[command(after_long_help = "Examples:
  jaco policy allow shop host-path=/srv/media
  jaco policy allow monitor privileged host-namespace=pid")]
    Allow {
        /// The deployment
        #[arg(value_name = "DEPLOYMENT")]
        deployment: String,
        /// What it may reach
        #[arg(value_name = "KIND[=VALUE]", required = true)]
        reaches: Vec<String>,
    },
    /// Revoke grants of a deployment
    ///
    /// Running containers are not affected; the next change of a service is checked again.
    #[command(after_long_help = "Examples:
  jaco policy revoke shop host-path=/srv/media")]
    Revoke {
        /// The deployment
        #[arg(value_name = "DEPLOYMENT")]
        deployment: String,
        /// What it may not reach any more, as it was granted
        #[arg(value_name = "KIND[=VALUE]", required = true)]
        reaches: Vec<String>,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let request_id = fresh_request_id();
    let (policy, text) = match args.action {
        None => {
            let policy = session.client()?.get_policy(GetPolicyRequest {}).await?.policy;
            let policy = policy.unwrap_or_default();
            let text = policy::text(&policy);
            (policy, text)
        }
        Some(Action::Set { mode }) => {
            let request = SetPolicyRequest { mode, request_id };
            let policy = session.client()?.set_policy(request).await?.policy.unwrap_or_default();
            let text = format!("policy set to {}\n{}", policy.mode, policy::ungranted(&policy));
            (policy, text)
        }
        Some(Action::Allow { deployment, reaches }) => {
            check(&reaches)?;
            let request =
                AllowReachesRequest { deployment: deployment.clone(), reaches, request_id };
            let policy = session.client()?.allow_reaches(request).await?.policy;
            granted(policy, &deployment)
        }
        Some(Action::Revoke { deployment, reaches }) => {
            check(&reaches)?;
            let request =
                RevokeReachesRequest { deployment: deployment.clone(), reaches, request_id };
            let policy = session.client()?.revoke_reaches(request).await?.policy;
            granted(policy, &deployment)
        }
    };
    session.done(&Summary { json: policy::json(&policy), text })
}

/// Says what is wrong before anything is sent.
fn check(reaches: &[String]) -> Result<(), CliError> {
    for text in reaches {
        Reach::parse(text).map_err(|invalid| {
            let advice = "give KIND or KIND=VALUE, for example host-path=/srv/media";
            CliError::usage(invalid.to_string(), advice)
        })?;
    }
    Ok(())
}

fn granted(policy: Option<PolicyInfo>, deployment: &str) -> (PolicyInfo, String) {
    let policy = policy.unwrap_or_default();
    let grants = policy.grants.iter().find(|grant| grant.deployment == deployment);
    let text = match grants {
        None => format!("nothing is granted to {deployment}\n"),
        Some(grants) => format!("{deployment} may reach {}\n", grants.reaches.join(", ")),
    };
    (policy, text)
}
