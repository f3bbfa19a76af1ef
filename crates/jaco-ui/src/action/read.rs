//! Actions of links and forms. Names are checked here, so that a command that is shown can be copied, whoever made the link.

use jaco_types::{DeploymentName, Hostname, ServiceName};

use super::{Action, Allocation, BoundData};

/// What a link or a form has, by name; none where it is not there or empty.
type Fields<'f> = &'f dyn Fn(&str) -> Option<String>;

impl Action {
    /// The action of this name, about what the parameters of a link or the fields of a form say.
    ///
    /// # Errors
    /// Which is missing, or what is wrong with it.
    pub fn read(name: &str, fields: Fields<'_>) -> Result<Self, String> {
        let action = match name {
            "scale" => Self::Scale {
                deployment: deployment(fields)?,
                service: service(fields)?,
                replicas: number(fields, "replicas")?,
            },
            "restart" => Self::Restart {
                deployment: deployment(fields)?,
                service: fields("service").map(|_| service(fields)).transpose()?,
            },
            "run" => Self::Run { deployment: deployment(fields)?, service: service(fields)? },
            "disable" => Self::Disable(allocation(fields)?),
            "enable" => Self::Enable(allocation(fields)?),
            "rollback" => Self::Rollback {
                deployment: deployment(fields)?,
                to: number(fields, "to")?.ok_or("the field to is missing: a revision")?,
            },
            "delete" => Self::Delete { deployment: deployment(fields)? },
            "cordon" => Self::Cordon { node: node(fields)? },
            "uncordon" => Self::Uncordon { node: node(fields)? },
            "drain" => Self::Drain { node: node(fields)?, data: data(fields)? },
            "remove" => Self::Remove { node: node(fields)? },
            "remove-lost" => Self::RemoveLost { node: node(fields)? },
            other => return Err(format!("there is no action {other:?} on this page")),
        };
        Ok(action)
    }
}

fn allocation(fields: Fields<'_>) -> Result<Allocation, String> {
    match fields("node") {
        Some(_) => Ok(Allocation::Node(node(fields)?)),
        None => {
            Ok(Allocation::Service { deployment: deployment(fields)?, service: service(fields)? })
        }
    }
}

fn deployment(fields: Fields<'_>) -> Result<String, String> {
    let text = fields("deployment").ok_or("the field deployment is missing")?;
    DeploymentName::new(&text).map(|name| name.to_string()).map_err(|error| error.to_string())
}

fn service(fields: Fields<'_>) -> Result<String, String> {
    let text = fields("service").ok_or("the field service is missing")?;
    ServiceName::new(&text).map(|name| name.to_string()).map_err(|error| error.to_string())
}

fn node(fields: Fields<'_>) -> Result<String, String> {
    let text = fields("node").ok_or("the field node is missing")?;
    Hostname::new(&text).map(|name| name.to_string()).map_err(|error| error.to_string())
}

fn data(fields: Fields<'_>) -> Result<BoundData, String> {
    match fields("data").as_deref() {
        None => Ok(BoundData::Refuses),
        Some("stays") => Ok(BoundData::Stays),
        Some(other) => Err(format!("data is {other:?}: it is stays, or not there")),
    }
}

fn number<N: std::str::FromStr>(fields: Fields<'_>, name: &str) -> Result<Option<N>, String> {
    let Some(text) = fields(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{name} is {text:?}: it is a number"))
}
