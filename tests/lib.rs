//! What the tests of the whole product share: manifests, and ways to look at a cluster.

use std::fmt::Write;

/// The canonical model of one service, as the command line would send it.
#[must_use]
pub fn compose(name: &str, service: &str, image: &str, replicas: u32) -> String {
    compose_with(name, service, image, replicas, "")
}

/// As [`compose`], with further members of the service (JSON, beginning with a comma).
#[must_use]
pub fn compose_with(
    name: &str,
    service: &str,
    image: &str,
    replicas: u32,
    members: &str,
) -> String {
    let mut out = String::new();
    let deploy = format!(r#""deploy":{{"replicas":{replicas}}}"#);
    write!(
        out,
        r#"{{"name":"{name}","services":{{"{service}":{{"image":"{image}",{deploy}{members}}}}}}}"#
    )
    .expect("writing to a string");
    out
}
