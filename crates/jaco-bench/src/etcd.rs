//! A trio of etcd on loopback addresses, its data on the same disk as ours; with its own defaults.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::ours::NODES;
use pb::kv_client::KvClient;
use pb::maintenance_client::MaintenanceClient;

/// How etcd is called in the table.
pub(crate) const WHO: &str = "etcd";

/// Generated; see `proto/`.
#[expect(
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    reason = "generated code is public and gives no reasons"
)]
mod pb {
    tonic::include_proto!("etcdserverpb");
}

/// A trio. Dropping it ends its processes and removes its folder.
#[derive(Debug)]
pub(crate) struct Etcd {
    members: Vec<Member>,
    folder: TempDir,
    network: String,
}

#[derive(Debug)]
struct Member {
    process: Option<Child>,
}

/// A client with a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct EtcdClient {
    kv: KvClient<Channel>,
    /// Keeps the keys of clients apart.
    number: u32,
}

impl Etcd {
    /// Three members that have a leader.
    pub(crate) async fn start() -> Result<Self> {
        let pid = std::process::id();
        // Beside the addresses that the test kit gives to our own daemons.
        let network = format!("127.{}.{}", 200 + pid % 50, (pid / 50) % 250 + 1);
        let folder = tempfile::Builder::new().prefix("etcd-").tempdir()?;
        let mut trio = Self { members: Vec::new(), folder, network };
        for number in 0..NODES {
            let process = Some(trio.spawn(number)?);
            trio.members.push(Member { process });
        }
        trio.leader().await?;
        Ok(trio)
    }

    fn spawn(&self, number: usize) -> Result<Child> {
        let folder = self.folder.path();
        let log = File::options().create(true).append(true).open(log_path(folder, number))?;
        let peer = |number| format!("http://{}:2380", self.address(number));
        let members: Vec<String> =
            (0..NODES).map(|number| format!("e{number}={}", peer(number))).collect();
        let client = self.url(number);
        let child = Command::new("etcd")
            .args(["--name", &format!("e{number}")])
            .arg("--data-dir")
            .arg(folder.join(format!("e{number}")))
            .args(["--listen-peer-urls", &peer(number)])
            .args(["--initial-advertise-peer-urls", &peer(number)])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--initial-cluster", &members.join(",")])
            .args(["--initial-cluster-state", "new"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        child.context("cannot start etcd: is the package etcd-server installed?")
    }

    fn address(&self, number: usize) -> String {
        format!("{}.{}", self.network, number + 1)
    }

    fn url(&self, number: usize) -> String {
        format!("http://{}:2379", self.address(number))
    }

    /// The processes of the members that run.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().filter_map(|member| member.process.as_ref()).map(Child::id).collect()
    }

    /// A client of one member.
    pub(crate) async fn client(&self, member: usize, number: u32) -> Result<EtcdClient> {
        Ok(EtcdClient { kv: KvClient::new(self.channel(member).await?), number })
    }

    async fn channel(&self, member: usize) -> Result<Channel> {
        let endpoint = Endpoint::from_shared(self.url(member))?.tcp_nodelay(true);
        endpoint.connect().await.context("no connection to etcd")
    }

    /// The member that leads, once there is one that itself says so.
    pub(crate) async fn leader(&self) -> Result<usize> {
        for _ in 0..200 {
            for member in 0..NODES {
                if self.leads(member).await.unwrap_or(false) {
                    return Ok(member);
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("etcd has no leader after 20 s; its log:\n{}", log_tail(self.folder.path()))
    }

    async fn leads(&self, member: usize) -> Result<bool> {
        let mut client = MaintenanceClient::new(self.channel(member).await?);
        let asked = client.status(pb::StatusRequest {});
        let status = tokio::time::timeout(Duration::from_secs(2), asked).await??.into_inner();
        let own = status.header.context("etcd answers with a header")?.member_id;
        Ok(status.leader == own)
    }

    /// Ends one member without a word.
    pub(crate) fn kill(&mut self, member: usize) -> Result<()> {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Starts a killed member again and waits until it serves.
    pub(crate) async fn restart(&mut self, member: usize) -> Result<()> {
        self.members[member].process = Some(self.spawn(member)?);
        let mut last = None;
        for _ in 0..200 {
            match self.client(member, 0).await {
                // A linearizable read is only answered by a member that has caught up.
                Ok(client) => match client.read().await {
                    Ok(()) => return Ok(()),
                    Err(error) => last = Some(error),
                },
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(last.context("never asked")?).context("a restarted etcd does not serve")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            if let Err(error) = self.kill(member) {
                crate::figure::say(&format!("etcd did not end: {error:#}"));
            }
        }
    }
}

impl EtcdClient {
    /// Puts 256 bytes under one of the client's own keys of 8 bytes.
    pub(crate) async fn write(&self, number: u64) -> Result<()> {
        let [.., a, b] = number.to_be_bytes();
        let [c, d, e, f] = self.number.to_be_bytes();
        let key = vec![b'k', b'/', c, d, e, f, a, b];
        let value = vec![b'v'; 256];
        self.kv.clone().put(pb::PutRequest { key, value }).await?;
        Ok(())
    }

    /// A linearizable read of one key.
    pub(crate) async fn read(&self) -> Result<()> {
        let request = pb::RangeRequest { key: b"none".to_vec(), serializable: false };
        self.kv.clone().range(request).await?;
        Ok(())
    }
}

fn log_path(folder: &Path, number: usize) -> std::path::PathBuf {
    folder.join(format!("e{number}.log"))
}

fn log_tail(folder: &Path) -> String {
    let text = std::fs::read_to_string(log_path(folder, 0)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
