//! Questions of other nodes about the router of this one.

use std::time::Duration;

use async_trait::async_trait;
use jaco_net::{Connect, Connection, PeerReport, ProbeQuestion, ProbeReport, RouterClient};
use jaco_proto::v1;
use jaco_server::RouterProbe;
use tokio::time::timeout;

use super::{RouterHandle, RouterView};

/// How long the answer may take beyond what packets are sent for: a connection may take longer than those, and the
/// router may be at work on a plan.
const PATIENCE: Duration = Duration::from_millis(2500);

#[async_trait]
impl RouterProbe for RouterHandle {
    async fn probe(&self, request: v1::ProbeRouterRequest) -> v1::ProbeRouterResponse {
        let limit = PATIENCE + Duration::from_millis(u64::from(request.window_ms));
        let asked = timeout(limit, RouterClient::probe(&self.runtime_dir, question(&request)));
        let (report, lost) = match asked.await {
            Ok(Ok(report)) => (report, None),
            Ok(Err(error)) => (ProbeReport::default(), Some(error.to_string())),
            Err(_) => {
                let why = format!("no answer within {} ms", limit.as_millis());
                (ProbeReport::default(), Some(why))
            }
        };
        // As it is after the packets: what they met is what it held at their end.
        answer(&self.view.borrow().clone(), report, lost)
    }

    async fn rotate_key(&self) -> Result<[u8; 32], String> {
        self.take_another_key().await
    }
}

fn question(request: &v1::ProbeRouterRequest) -> ProbeQuestion {
    let asker = request.asker.parse().ok();
    let port = u16::try_from(request.port).ok().filter(|port| *port > 0);
    let targets = request.targets.iter().filter_map(|target| target.parse().ok()).collect();
    ProbeQuestion {
        window_ms: u64::from(request.window_ms),
        lookup: asker.map(|asker| (asker, request.name.clone())),
        connect: asker.zip(port).map(|(source, port)| Connect { source, port, targets }),
    }
}

fn answer(view: &RouterView, report: ProbeReport, lost: Option<String>) -> v1::ProbeRouterResponse {
    let status = view.status.as_ref();
    let away = view.away.clone().filter(|_| status.is_none());
    let failed = status.and_then(|status| status.error.clone());
    let error = away.or(lost).or(failed).or(report.error).unwrap_or_default();
    let index = |index: Option<jaco_types::StateIndex>| index.map_or(0, |index| index.0);
    let text = |address: &std::net::Ipv4Addr| address.to_string();
    v1::ProbeRouterResponse {
        error,
        // The server knows it.
        state_index: 0,
        planned: index(view.planned),
        applied: index(status.and_then(jaco_net::RouterStatus::applied)),
        failed_networks: status
            .into_iter()
            .flat_map(jaco_net::RouterStatus::failures)
            .map(|failure| (failure.network.0, failure.reason))
            .collect(),
        name_known: report.addresses.is_some(),
        addresses: report.addresses.iter().flatten().map(text).collect(),
        peers: report.peers.into_iter().map(peer).collect(),
        connections: report.connections.into_iter().map(connection).collect(),
        arrived_forbidden: report.arrived_forbidden.iter().map(text).collect(),
        key: status.map(|status| status.key().0.to_vec().into()).unwrap_or_default(),
    }
}

fn peer(peer: PeerReport) -> v1::ProbedPeer {
    v1::ProbedPeer {
        key: peer.key.to_vec().into(),
        endpoint: peer.endpoint.map(|endpoint| endpoint.to_string()).unwrap_or_default(),
        handshake_ms: peer.handshake_ms,
        received_bytes: peer.received,
        sent_bytes: peer.sent,
        hears: peer.hears,
        hears_full: peer.hears_full,
        answered_us: peer.answered_us,
        answered_full: peer.answered_full,
        sent_forbidden: peer.sent_forbidden,
        path_mtu: peer.path_mtu.unwrap_or_default(),
    }
}

fn connection((address, result): (std::net::Ipv4Addr, Connection)) -> v1::ProbedConnection {
    let (result, taken_us) = match result {
        Connection::Accepted { taken_us } => ("accepted", taken_us),
        Connection::Refused => ("refused", 0),
        Connection::Silent => ("silent", 0),
    };
    v1::ProbedConnection { address: address.to_string(), result: result.to_owned(), taken_us }
}
