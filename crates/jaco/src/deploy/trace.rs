//! The trace of a command: begun or gone on with where the user asks for it, and its first span.

use std::collections::BTreeMap;

use jaco_trace::{
    Endpoint, Kind, Sampling, Span, SpanId, Status, Timer, export_once, fresh_span_id,
};
use jaco_types::{Sampled, TraceContext};

use crate::error::CliError;
use crate::session::{CommandResult, Session};

/// The trace that goes on with this command.
const TRACEPARENT: &str = "TRACEPARENT";

/// The collector that the span of this command is sent to.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What the command line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The environment decides.
    No,
    /// There is a trace in any case.
    Yes,
}

/// The trace of a command.
#[derive(Debug)]
pub(crate) struct Trace {
    place: TraceContext,
    /// The command's own span, if there is a collector that it is sent to.
    own: Option<(SpanId, Endpoint)>,
    timer: Timer,
}

impl Trace {
    /// The trace of a command that begins now; none if nobody asked for one.
    ///
    /// # Errors
    /// When the environment names a collector that cannot be one.
    pub(crate) fn begin(
        asked: Asked,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, CliError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let endpoint = set(ENDPOINT).map(|base| Endpoint::new(&base, BTreeMap::new())).transpose();
        let endpoint = endpoint.map_err(|error| {
            let help = format!("set {ENDPOINT} to the address of a collector, or unset it");
            CliError::usage(format!("{ENDPOINT}: {error}"), help)
        })?;
        let given = set(TRACEPARENT).and_then(|text| TraceContext::parse(&text));
        let is_wanted = asked == Asked::Yes || endpoint.is_some();
        let timer = Timer::start();
        Ok(match given {
            Some(place) => {
                let endpoint = endpoint.filter(|_| place.sampled() == Sampled::Yes);
                let own = endpoint.map(|endpoint| (fresh_span_id(), endpoint));
                Some(Self { place, own, timer })
            }
            None => Sampling::ALL.begin().filter(|_| is_wanted).map(|place| {
                let own = endpoint.map(|endpoint| (place.span_id(), endpoint));
                Self { place, own, timer }
            }),
        })
    }

    /// What the cluster is told.
    pub(crate) fn traceparent(&self) -> String {
        let own = self.own.as_ref().and_then(|(id, _)| self.place.with_parent(*id));
        own.unwrap_or(self.place).to_string()
    }

    /// The id under which the trace is found, in hex.
    pub(crate) fn id(&self) -> String {
        self.place.trace_id().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Sends the span of the command. That it could not be sent fails nothing.
    pub(crate) async fn end(
        self,
        session: &mut Session,
        deployment: String,
        result: &CommandResult,
    ) {
        let Self { place, own, timer } = self;
        let Some((id, endpoint)) = own else { return };
        let status = match result {
            Ok(_) => Status::Done,
            Err(_) => Status::Failed("error".to_owned()),
        };
        let span = Span {
            place,
            id,
            kind: Kind::Client,
            name: "jaco apply",
            began: timer.began(),
            took: timer.took(),
            attributes: vec![("jaco.deployment", deployment)],
            status,
        };
        let resource = vec![
            ("service.name", "jaco".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        if let Err(error) = export_once(&endpoint, resource, &[span]).await {
            session.ui.note(&format!("warning: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn begun(asked: Asked, variables: &[(&str, &str)]) -> Option<Trace> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Trace::begin(asked, variable).unwrap()
    }

    /// R-OPS-1: there is a trace if the option, a caller's trace or a collector asks for one, and none otherwise.
    #[test]
    fn a_trace_is_begun_on_request() {
        assert!(begun(Asked::No, &[]).is_none());
        assert!(begun(Asked::No, &[(ENDPOINT, ""), (TRACEPARENT, "nonsense")]).is_none());
        let asked = begun(Asked::Yes, &[]).unwrap();
        assert!(asked.own.is_none() && asked.traceparent().contains(&asked.id()));
        let collected = begun(Asked::No, &[(ENDPOINT, "http://127.0.0.1:4318")]).unwrap();
        assert_eq!(collected.own.as_ref().unwrap().0, collected.place.span_id());
        assert_eq!(collected.traceparent(), collected.place.to_string());
    }

    /// R-OPS-1: the cluster's spans are below the command's where that is sent, and else below the caller's.
    #[test]
    fn a_callers_trace_goes_on() {
        let passed = begun(Asked::No, &[(TRACEPARENT, GIVEN)]).unwrap();
        assert_eq!(passed.traceparent(), GIVEN);
        let collector = (ENDPOINT, "http://127.0.0.1:4318");
        let within = begun(Asked::No, &[(TRACEPARENT, GIVEN), collector]).unwrap();
        assert_eq!(within.id(), passed.id());
        assert_ne!(within.traceparent(), GIVEN);
        let unrecorded = GIVEN.replace("-01", "-00");
        let quiet = begun(Asked::Yes, &[(TRACEPARENT, &unrecorded), collector]).unwrap();
        assert!(quiet.own.is_none() && quiet.traceparent() == unrecorded);
    }

    /// R-OPS-1: a collector that cannot be one is said to be that, with the variable that names it.
    #[test]
    fn a_wrong_collector_is_refused() {
        let wrong = |name: &str| (name == ENDPOINT).then(|| "nowhere".to_owned());
        let refused = Trace::begin(Asked::No, wrong).unwrap_err().to_string();
        assert!(refused.contains(ENDPOINT), "{refused}");
    }
}
