//! Registries on loopback: with images, one that accepts and never answers, and one that is slow.

use std::net::TcpListener;
use std::time::Duration;

use jaco_testkit::docker::docker;
use jaco_testkit::eventually;
pub(crate) use jaco_testkit::registry::{Access, Registry};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scenario::IMAGE;

/// A port of loopback that nobody listens on at the moment.
pub(crate) fn free_port() -> u16 {
    UnresponsiveRegistry::start().port()
}

/// A port on which connections are accepted and never answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct UnresponsiveRegistry {
    listener: TcpListener,
}

impl UnresponsiveRegistry {
    pub(crate) fn start() -> Self {
        // The kernel completes handshakes for a listener that nobody accepts on.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        Self { listener }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().expect("it is bound").port()
    }
}

/// A port of loopback behind which a registry answers slowly: each connection brings one block every 50 ms.
pub(crate) async fn slow_line(registry: u16) -> u16 {
    const BLOCK: usize = 4 * 1024;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a loopback port is free");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(("127.0.0.1", registry)).await else { continue };
            let (mut answers, mut requests) = server.into_split();
            let (mut from_client, mut to_client) = client.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut requests).await });
            tokio::spawn(async move {
                let mut block = vec![0; BLOCK];
                while let Ok(length @ 1..) = answers.read(&mut block).await {
                    if to_client.write_all(&block[..length]).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
    });
    port
}

/// A registry's folder that holds `hello:1`.
pub(crate) async fn images_with_hello() -> TempDir {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let port = free_port();
    let _registry = Registry::start(port, &folder);
    let image = format!("127.0.0.1:{port}/hello:1");
    docker(&["tag", IMAGE, &image]);
    eventually("the registry takes the image", || async {
        let pushed = std::process::Command::new("docker").args(["push", &image]).output();
        let pushed = pushed.expect("docker runs");
        if pushed.status.success() { Ok(()) } else { Err(pushed) }
    })
    .await;
    docker(&["rmi", &image]);
    folder
}
