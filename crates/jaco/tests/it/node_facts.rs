//! `jaco node facts`.

use expect_test::{expect, expect_file};
use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};

use crate::fixture::Session;

/// A node with GPUs, and one with unknown hardware.
struct Machines;

fn machine() -> v1::NodeFactsInfo {
    let gpu = |id: &str, model: &str, memory_bytes| v1::GpuInfo {
        id: id.to_owned(),
        driver: "nvidia".to_owned(),
        model: model.to_owned(),
        memory_bytes,
    };
    let attributes = [("node.gpus", "2"), ("node.hostname", "n1"), ("node.zone", "a")];
    v1::NodeFactsInfo {
        hostname: "n1".to_owned(),
        version: "0.1.0".to_owned(),
        os: "linux".to_owned(),
        arch: "amd64".to_owned(),
        engine: "docker 28.0.1".to_owned(),
        kernel: "6.1.0-18-amd64".to_owned(),
        cores: 4,
        mhz: 3400,
        memory_bytes: 8 << 30,
        disk_bytes: 100 << 30,
        disk_free_bytes: 60 << 30,
        gpus: vec![gpu("GPU-6f9c", "Tesla \"T4\": 16 GB", 16 << 30), gpu("1", "", 0)],
        capacity_cpu_millis: 3500,
        capacity_memory_bytes: 7 << 30,
        capacity_disk_bytes: 80 << 30,
        capacity_instances: 110,
        attributes: attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    }
}

impl Script for Machines {
    fn node_facts(
        &self,
        request: v1::NodeFactsRequest,
        _: Option<&str>,
    ) -> Answer<v1::NodeFactsResponse> {
        let unknown = v1::NodeFactsInfo {
            hostname: "n2".to_owned(),
            os: "linux".to_owned(),
            arch: "arm64".to_owned(),
            ..v1::NodeFactsInfo::default()
        };
        let nodes = match request.hostname.as_str() {
            "" => vec![machine(), unknown],
            "n1" => vec![machine()],
            "n2" => vec![unknown],
            other => {
                let message = format!("no node is called {other:?}; the members are n1, n2");
                return Err(Rejection::new(ErrorCode::NodeNotFound, message));
            }
        };
        Ok(v1::NodeFactsResponse { nodes })
    }
}

/// R-RES-6: hardware is shown; unknown values are empty.
#[test]
fn hardware_of_nodes_is_shown() {
    let session = Session::with(Machines);
    let run = session.run("node facts");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    expect![[r#"
        NODE  CORES  MEMORY  DISK     FREE    GPUS                         PLATFORM     ENGINE
        n1    4      8 GiB   100 GiB  60 GiB  2 Tesla "T4": 16 GB, nvidia  linux/amd64  docker 28.0.1
        n2    -      -       -        -       0                            linux/arm64  -
    "#]].assert_eq(&run.out);
    let run = session.run("node facts n1 -o wide");
    expect![[r#"
        NODE  CORES  MEMORY  DISK     FREE    GPUS                         PLATFORM     ENGINE         MHZ   KERNEL          VERSION  CAPACITY            ATTRIBUTES
        n1    4      8 GiB   100 GiB  60 GiB  2 Tesla "T4": 16 GB, nvidia  linux/amd64  docker 28.0.1  3400  6.1.0-18-amd64  0.1.0    3500m 7 GiB 80 GiB  node.gpus=2,node.hostname=n1,node.zone=a
    "#]].assert_eq(&run.out);
    let run = session.run("node facts -o json");
    expect![[r#"
        [
          {
            "arch": "amd64",
            "attributes": {
              "node.gpus": "2",
              "node.hostname": "n1",
              "node.zone": "a"
            },
            "capacity": {
              "cpu_millis": 3500,
              "disk_bytes": 85899345920,
              "instances": 110,
              "memory_bytes": 7516192768
            },
            "cores": 4,
            "cpu_mhz": 3400,
            "disk_bytes": 107374182400,
            "disk_free_bytes": 64424509440,
            "engine": "docker 28.0.1",
            "gpus": [
              {
                "driver": "nvidia",
                "id": "GPU-6f9c",
                "memory_bytes": 17179869184,
                "model": "Tesla \"T4\": 16 GB"
              },
              {
                "driver": "nvidia",
                "id": "1"
              }
            ],
            "kernel": "6.1.0-18-amd64",
            "memory_bytes": 8589934592,
            "node": "n1",
            "os": "linux",
            "version": "0.1.0"
          },
          {
            "arch": "arm64",
            "attributes": {},
            "capacity": {},
            "gpus": [],
            "node": "n2",
            "os": "linux"
          }
        ]
    "#]]
    .assert_eq(&run.out);
}

/// R-RES-6: the generated block is the one that the tests of `jacod` parse.
#[test]
fn capacity_block_is_generated() {
    let session = Session::with(Machines);
    let run = session.run("node facts n1 --generate");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    expect_file!["../golden/capacity.yaml"].assert_eq(&run.out);
    let run = session.run("node facts n1 --generate -o json");
    expect![[r#"
        [
          {
            "capacity": {
              "cpu_millis": 4000,
              "disk_bytes": 107374182400,
              "gpus": [
                {
                  "driver": "nvidia",
                  "id": "GPU-6f9c",
                  "memory_bytes": 17179869184,
                  "model": "Tesla \"T4\": 16 GB"
                },
                {
                  "driver": "nvidia",
                  "id": "1"
                }
              ],
              "memory_bytes": 8589934592
            },
            "node": "n1"
          }
        ]
    "#]]
    .assert_eq(&run.out);
}

/// No block is generated from unknown hardware. R-CLI-7: an unknown node is exit code 3.
#[test]
fn unknown_hardware_and_unknown_nodes_are_refused() {
    let session = Session::with(Machines);
    let run = session.run("node facts --generate");
    assert_eq!(run.out, "");
    expect![[r#"
        error[unavailable]: n2 has not reported its hardware
          help: it does so when its daemon runs this version and its engine answers: see jaco node get n2
          help: Check that jacod runs there, and that --server, --socket or the context names the right place.
          help: more: jaco help error unavailable
    "#]].assert_eq(&run.err);
    let run = session.run("node facts n9");
    expect![[r#"
        error[node_not_found]: no node is called "n9"; the members are n1, n2
          help: See the names with `jaco node ls`.
          help: more: jaco help error node_not_found
    "#]]
    .assert_eq(&run.err);
}
