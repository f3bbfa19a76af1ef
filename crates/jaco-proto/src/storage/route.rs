//! Routes of deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use bytes::Bytes;
use jaco_types::route::{
    AllowedSources, AllowedUsers, BodyLimit, ForwardedPath, HeaderName, HeaderRules, HeaderValue,
    HstsAge, IpRange, PasswordHash, Redirect, RedirectRest, RedirectStatus, RedirectTarget,
    RevisionWeights, RouteAction, RouteDomain, RouteHeaders, RoutePath, RouteProtocol,
    RouteTimeout, RouteTls, SessionAffinity, Upstream, UserName,
};
use jaco_types::unit::Bytes as Size;
use jaco_types::{Millis, Revision, Route, RouteKey};
use prost::Message;

use super::convert::{Wire, ascending, ip_from_wire, ip_to_wire, required, whole, wire_enum};
use super::error::{CodecError, Problem};
use super::observed::port_number;
use super::wire::deployment_route::Action;
use super::wire::route_tls::Kind;
use super::{FORMAT, wire};

wire_enum!(RouteProtocol, "protocol of a route", [Http, H2c, Https]);

impl Wire for RouteKey {
    type Message = wire::RouteKey;

    fn to_wire(&self) -> wire::RouteKey {
        let (domain, path) = (self.domain.as_str().to_owned(), self.path.prefix().to_owned());
        wire::RouteKey { domain, path }
    }

    fn from_wire(message: wire::RouteKey) -> Result<Self, Problem> {
        let domain = RouteDomain::new(&message.domain)?;
        Ok(Self { domain, path: RoutePath::new(&message.path)? })
    }
}

impl Wire for RouteTls {
    type Message = wire::RouteTls;

    fn to_wire(&self) -> wire::RouteTls {
        let kind = match self {
            Self::Auto => Kind::Auto(wire::Nothing {}),
            Self::Off => Kind::Off(wire::Nothing {}),
            Self::Certificate(name) => Kind::Certificate(name.to_wire()),
        };
        wire::RouteTls { kind: Some(kind) }
    }

    fn from_wire(message: wire::RouteTls) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of TLS"))? {
            Kind::Auto(wire::Nothing {}) => Self::Auto,
            Kind::Off(wire::Nothing {}) => Self::Off,
            Kind::Certificate(name) => Self::Certificate(Wire::from_wire(name)?),
        })
    }
}

/// The bytes of a route, for two processes of one program: without the number of a format they are not to be kept.
#[must_use]
pub fn encode_route(key: &RouteKey, route: &Route) -> Bytes {
    to_deployment_route((key, route)).encode_to_vec().into()
}

/// The route that [`encode_route`] wrote.
///
/// # Errors
/// If any part of it is not understood.
pub fn decode_route(bytes: &[u8]) -> Result<(RouteKey, Route), CodecError> {
    whole(bytes).and_then(from_deployment_route).map_err(|problem| CodecError::NotUnderstood {
        what: "route",
        format: FORMAT,
        problem,
    })
}

pub(super) fn to_deployment_route((key, route): (&RouteKey, &Route)) -> wire::DeploymentRoute {
    let Route { action, tls, hsts, body_max, headers, users, sources } = route;
    let action = match action {
        RouteAction::Forward(upstream) => Action::Forward(upstream.to_wire()),
        RouteAction::Redirect(redirect) => Action::Redirect(redirect.to_wire()),
    };
    wire::DeploymentRoute {
        key: Some(key.to_wire()),
        action: Some(action),
        tls: Some(tls.to_wire()),
        hsts_secs: hsts.map(HstsAge::secs),
        body_max: body_max.map(|limit| limit.size().0),
        request_headers: rules_to_wire(&headers.request),
        response_headers: rules_to_wire(&headers.response),
        users: users.as_map().iter().map(user_to_wire).collect(),
        sources: sources.as_set().iter().map(Wire::to_wire).collect(),
    }
}

pub(super) fn from_deployment_route(
    message: wire::DeploymentRoute,
) -> Result<(RouteKey, Route), Problem> {
    let action = match message.action.ok_or(Problem::Missing("action of a route"))? {
        Action::Forward(upstream) => RouteAction::Forward(Wire::from_wire(upstream)?),
        Action::Redirect(redirect) => RouteAction::Redirect(Wire::from_wire(redirect)?),
    };
    let body_max = message.body_max.map(|bytes| BodyLimit::new(Size(bytes))).transpose()?;
    let users = ascending("users of a route", message.users.into_iter().map(user_from_wire))?;
    let source = |range| Ok((IpRange::from_wire(range)?, ()));
    let sources = ascending("sources of a route", message.sources.into_iter().map(source))?;
    let route = Route {
        action,
        tls: required("TLS of a route", message.tls)?,
        hsts: message.hsts_secs.map(HstsAge::new).transpose()?,
        body_max,
        headers: RouteHeaders {
            request: rules_from_wire(message.request_headers)?,
            response: rules_from_wire(message.response_headers)?,
        },
        users: AllowedUsers::new(users)?,
        sources: AllowedSources::new(sources.into_keys().collect())?,
    };
    Ok((required("key of a route", message.key)?, route))
}

impl Wire for Upstream {
    type Message = wire::RouteUpstream;

    fn to_wire(&self) -> wire::RouteUpstream {
        let weights = self.weights.as_map().iter().map(|(revision, weight)| wire::RevisionWeight {
            revision: revision.0,
            weight: (*weight).into(),
        });
        wire::RouteUpstream {
            service: self.service.to_wire(),
            port: self.port.get().into(),
            protocol: self.protocol.to_wire(),
            strip_path: self.forwarded_path == ForwardedPath::Rest,
            sticky: self.affinity == SessionAffinity::Cookie,
            timeout_ms: self.timeout.map(|timeout| timeout.length().0),
            weights: weights.collect(),
        }
    }

    fn from_wire(message: wire::RouteUpstream) -> Result<Self, Problem> {
        let out_of_range = |value: u32| Problem::OutOfRange { what: "port", value: value.into() };
        let port = NonZeroU16::new(port_number("port", message.port)?);
        let weight = |row: wire::RevisionWeight| {
            let what = "weight of a revision";
            let out_of_range = |_| Problem::OutOfRange { what, value: row.weight.into() };
            Ok((Revision(row.revision), u8::try_from(row.weight).map_err(out_of_range)?))
        };
        let weights = ascending("weights", message.weights.into_iter().map(weight))?;
        Ok(Self {
            service: Wire::from_wire(message.service)?,
            port: port.ok_or_else(|| out_of_range(message.port))?,
            protocol: Wire::from_wire(message.protocol)?,
            forwarded_path: match message.strip_path {
                true => ForwardedPath::Rest,
                false => ForwardedPath::Whole,
            },
            affinity: match message.sticky {
                true => SessionAffinity::Cookie,
                false => SessionAffinity::None,
            },
            timeout: message.timeout_ms.map(|ms| RouteTimeout::new(Millis(ms))).transpose()?,
            weights: RevisionWeights::new(weights)?,
        })
    }
}

impl Wire for Redirect {
    type Message = wire::RouteRedirect;

    fn to_wire(&self) -> wire::RouteRedirect {
        wire::RouteRedirect {
            to: self.to.as_str().to_owned(),
            status: self.status.number().into(),
            drop_rest: self.rest == RedirectRest::Drop,
        }
    }

    fn from_wire(message: wire::RouteRedirect) -> Result<Self, Problem> {
        let (what, number) = ("status of a redirect", message.status.into());
        let status = u16::try_from(message.status).ok().and_then(RedirectStatus::from_number);
        Ok(Self {
            to: RedirectTarget::new(&message.to)?,
            rest: if message.drop_rest { RedirectRest::Drop } else { RedirectRest::Append },
            status: status.ok_or(Problem::UnknownValue { what, number })?,
        })
    }
}

fn rules_to_wire(rules: &HeaderRules) -> Option<wire::HeaderRules> {
    let set = rules.set().iter().map(|(name, value)| wire::Pair {
        name: name.as_str().to_owned(),
        value: value.as_str().to_owned(),
    });
    let remove = rules.remove().iter().map(|name| name.as_str().to_owned()).collect();
    (!rules.is_empty()).then(|| wire::HeaderRules { set: set.collect(), remove })
}

fn rules_from_wire(message: Option<wire::HeaderRules>) -> Result<HeaderRules, Problem> {
    let Some(message) = message else { return Ok(HeaderRules::default()) };
    if message.set.is_empty() && message.remove.is_empty() {
        return Err(Problem::Missing("header of rules that have some"));
    }
    let pair =
        |pair: wire::Pair| Ok((HeaderName::new(&pair.name)?, HeaderValue::new(&pair.value)?));
    let set: BTreeMap<_, _> = ascending("headers", message.set.into_iter().map(pair))?;
    let name = |name: String| Ok((HeaderName::new(&name)?, ()));
    let remove = ascending("removed headers", message.remove.into_iter().map(name))?;
    let remove: BTreeSet<HeaderName> = remove.into_keys().collect();
    Ok(HeaderRules::new(set, remove)?)
}

fn user_to_wire((name, password): (&UserName, &PasswordHash)) -> wire::RouteUser {
    wire::RouteUser {
        name: name.as_str().to_owned(),
        rounds: password.rounds(),
        salt: Bytes::copy_from_slice(password.salt()),
        hash: password.hash().to_wire(),
    }
}

fn user_from_wire(message: wire::RouteUser) -> Result<(UserName, PasswordHash), Problem> {
    let hash = Wire::from_wire(message.hash)?;
    let password = PasswordHash::new(message.rounds, &message.salt, hash)?;
    Ok((UserName::new(&message.name)?, password))
}

impl Wire for IpRange {
    type Message = wire::IpRange;

    fn to_wire(&self) -> wire::IpRange {
        wire::IpRange { address: ip_to_wire(self.first()), length: self.length().into() }
    }

    fn from_wire(message: wire::IpRange) -> Result<Self, Problem> {
        let address = ip_from_wire(&message.address)?;
        let what = "prefix length";
        let out_of_range = |_| Problem::OutOfRange { what, value: message.length.into() };
        Ok(Self::new(address, u8::try_from(message.length).map_err(out_of_range)?)?)
    }
}
