//! Published ports: connections and datagrams as they are, to an instance of a service.

mod addressed;
mod tcp;
mod udp;

pub(crate) use addressed::tell_destinations;
pub(crate) use tcp::forward as forward_tcp;
pub(crate) use udp::forward as forward_udp;
