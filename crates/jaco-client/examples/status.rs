//! Prints which deployments do not run as they should:
//! `cargo run -p jaco-client --example status -- n1:7000 ca.crt token`.
#![allow(clippy::print_stdout, reason = "an example's output is its purpose")]

use std::error::Error;
use std::path::Path;

use jaco_client::{Client, ErrorCode, Target, v1};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, ca, token] = &arguments[..] else {
        return Err("give a server as host:port, the CA file and the token file".into());
    };
    let target = Target::from_files(std::slice::from_ref(server), Path::new(ca), Path::new(token))?;
    let client = Client::new(target);
    let status = match client.read_status(v1::StatusRequest::default()).await {
        Ok(status) => status,
        Err(error) if error.code() == ErrorCode::PermissionDenied => {
            return Err(format!("the token allows no reading: {error}").into());
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(age) = &status.staleness {
        println!("this is {} ms old: {}", age.age_ms, age.reason);
    }
    for deployment in status.deployments.iter().filter(|it| it.status != "active") {
        println!("{}: {}", deployment.name, deployment.status);
    }
    Ok(())
}
