//! Lines of the access log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::{Method, StatusCode, Version};
use jaco_types::{InstanceId, RouteKey};
use serde::Serialize;

use super::connection::Connection;
use crate::body::End;
use crate::options::AccessLog;

/// A line that is written when its request is answered to the end.
pub(super) struct Line {
    log: Arc<AccessLog>,
    began: Instant,
    fields: Fields,
}

#[derive(Debug, Serialize)]
struct Fields {
    /// Milliseconds since the Unix epoch, at the head of the request.
    time_ms: u64,
    client: IpAddr,
    method: String,
    host: String,
    path: String,
    http: &'static str,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    bytes: u64,
    head_us: u64,
    total_us: u64,
    complete: bool,
}

impl Line {
    /// The line of a request, if it is one of those that have one.
    pub(super) fn begin(
        connection: &Arc<Connection>,
        request: (&Method, Version),
        target: (&str, &str),
    ) -> Option<Box<Self>> {
        let log = connection.shared.access_log.load();
        let log = log.as_ref()?;
        if fastrand::u32(..log.one_in.get()) != 0 {
            return None;
        }
        let (method, version) = request;
        let (host, path) = target;
        let fields = Fields {
            time_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            client: connection.client.ip().to_canonical(),
            method: method.to_string(),
            host: host.to_owned(),
            path: path.to_owned(),
            http: if version == Version::HTTP_2 { "2" } else { "1" },
            tls: connection.tls_host.is_some(),
            route: None,
            instance: None,
            status: 0,
            reason: None,
            bytes: 0,
            head_us: 0,
            total_us: 0,
            complete: false,
        };
        Some(Box::new(Self { log: Arc::clone(log), began: Instant::now(), fields }))
    }

    pub(super) fn client(&mut self, client: IpAddr) {
        self.fields.client = client;
    }

    pub(super) fn route(&mut self, route: &RouteKey) {
        self.fields.route = Some(route.to_string());
    }

    pub(super) fn instance(&mut self, instance: &InstanceId) {
        self.fields.instance = Some(instance.to_string());
    }

    pub(super) fn head(&mut self, status: StatusCode, reason: Option<&'static str>) {
        self.fields.status = status.as_u16();
        self.fields.reason = reason;
        self.fields.head_us = self.micros();
    }

    /// Writes the line.
    pub(super) fn end(mut self: Box<Self>, bytes: u64, end: End) {
        self.fields.bytes = bytes;
        self.fields.complete = end == End::Complete;
        self.fields.total_us = self.micros();
        match serde_json::to_string(&self.fields) {
            Ok(line) => (self.log.sink)(line),
            Err(error) => tracing::debug!(%error, "no line of the access log"),
        }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
