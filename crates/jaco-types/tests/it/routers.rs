//! What nodes report of their routers, and what is decided by it.

use jaco_types::router::{NodeRouter, RouterLink, TunnelBackend};

const LINK: RouterLink =
    RouterLink { key: [7; 32], port: 51820, backend: TunnelBackend::Userspace };

/// Replicas with networks of the cluster run beside a router that is reached and has no problem, and beside
/// no other.
#[test]
fn a_router_works_if_it_has_a_link_and_no_problem() {
    let router =
        |link, problem: Option<&str>| NodeRouter { link, problem: problem.map(Into::into) };
    for (link, problem, works) in [
        (Some(LINK), None, true),
        (Some(LINK), Some("nft is not there"), false),
        (None, Some("nft is not there"), false),
        (None, None, false),
    ] {
        assert_eq!(router(link, problem).works(), works, "{link:?} {problem:?}");
    }
    assert!(!NodeRouter::default().works(), "one of which nothing was reported");
}

#[test]
fn backends_have_the_names_that_users_see() {
    assert_eq!(TunnelBackend::Kernel.as_str(), "kernel");
    assert_eq!(TunnelBackend::Userspace.as_str(), "userspace");
}
