//! Published ports: connections and datagrams as they are, to an instance of a service.

mod tcp;
mod udp;

pub(crate) use tcp::forward as forward_tcp;
pub(crate) use udp::forward as forward_udp;
