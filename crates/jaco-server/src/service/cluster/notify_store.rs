//! Adds targets of notifications, and pauses them (R-OPS-1). An address is sealed on the leader.

use async_trait::async_trait;
use jaco_notify::{Address, Endpoint, MailEndpoint, PlainHttp, WebEndpoint};
use jaco_pki::sealed::Purpose;
use jaco_proto::v1;
use jaco_state::audit::{AuditKind, EventGroup, Severity};
use jaco_state::command::{Beginning, Existing, NotifyPause, NotifyStore, PauseChange};
use jaco_state::notify::{NotifyFilter, NotifyForm, NotifyTarget};
use jaco_state::view::notifications_behind;
use jaco_store::Store;
use jaco_types::{Author, DeploymentName, NotifyTargetName, Rejection};

use super::notify::{info, known};
use crate::forward::Write;
use crate::member::Member;
use crate::notify::seal_endpoint;
use crate::service::upgraded::{mail_and_pauses_may_begin, notifications_may_begin};
use crate::status::invalid;

#[async_trait]
impl Write for v1::StoreNotifyTargetRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreNotifyTargetResponse, Rejection> {
        let name = NotifyTargetName::new(&self.name).map_err(invalid)?;
        let form = NotifyForm::parse(&self.form).ok_or_else(|| {
            invalid("a notification target is of the form webhook, slack or email")
        })?;
        let filter = parsed_filter(self.filter.as_ref().unwrap_or(&v1::NotifyFilter::default()))?;
        let endpoint = endpoint(&self, form)?;
        member.store.read(notifications_may_begin)?;
        if form == NotifyForm::Email || self.paused {
            member.store.read(mail_and_pauses_may_begin)?;
        }
        let before = member.store.read(|state| state.notify.targets.get(&name).cloned());
        let sealer = member.sealer().await?;
        let purpose = Purpose::NotifyTarget { name: name.as_str() };
        let is_same = |target: &NotifyTarget| {
            (target.form, &target.filter) == (form, &filter)
                && sealer.holds(purpose, &target.endpoint.0, &endpoint.to_bytes())
        };
        let change = match &before {
            None => "created",
            Some(target) if self.dry_run && is_same(target) => "unchanged",
            Some(_) => "updated",
        };
        if !self.dry_run {
            let sealed = seal_endpoint(&sealer, &name, &endpoint);
            let existing = if self.replace { Existing::Replace } else { Existing::Refuse };
            let beginning = if self.paused { Beginning::Paused } else { Beginning::Now };
            let command = NotifyStore::new(name.clone(), form, endpoint.shown().into(), sealed);
            let command = command.filter(filter).existing(existing).beginning(beginning);
            member.commit(by, &self.request_id, command.into()).await?;
        }
        drop(sealer);
        let target = member
            .store
            .read(|state| state.notify.targets.get(&name).map(|target| info(state, &name, target)));
        Ok(v1::StoreNotifyTargetResponse { target, change: change.to_owned() })
    }
}

#[async_trait]
impl Write for v1::PauseNotifyTargetRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::PauseNotifyTargetResponse, Rejection> {
        let change = match self.change.as_str() {
            "pause" => PauseChange::Pause,
            "resume" => PauseChange::Resume,
            "catch_up" => PauseChange::CatchUp,
            _ => return Err(invalid("a notification target is to pause, resume or catch_up")),
        };
        let state = member.store.snapshot();
        let (name, target) = known(&state, &self.name)?;
        let is_paused = target.paused_at.is_some();
        let answer = |change: &str, skipped| {
            let target = member.store.read(|state| {
                state.notify.targets.get(&name).map(|target| info(state, &name, target))
            });
            v1::PauseNotifyTargetResponse { target, change: change.to_owned(), skipped }
        };
        let done = match (is_paused, change) {
            (false, PauseChange::Pause) => "paused",
            (true, PauseChange::Resume | PauseChange::CatchUp) => "resumed",
            (true, PauseChange::Pause) | (false, PauseChange::Resume | PauseChange::CatchUp) => {
                return Ok(answer("unchanged", 0));
            }
        };
        mail_and_pauses_may_begin(&state)?;
        let skipped = match change {
            // What decisions are made by has no audit log.
            PauseChange::Resume => member.store.read(|state| notifications_behind(state, target)),
            PauseChange::Pause | PauseChange::CatchUp => 0,
        };
        let command = NotifyPause::new(name.clone(), change).into();
        member.commit(by, &self.request_id, command).await?;
        Ok(answer(done, u64::try_from(skipped).unwrap_or(u64::MAX)))
    }
}

/// Where a target is, with what is secret of it.
fn endpoint(
    request: &v1::StoreNotifyTargetRequest,
    form: NotifyForm,
) -> Result<Endpoint, Rejection> {
    let v1::StoreNotifyTargetRequest { url, secret, mail_from, mail_to, .. } = request;
    let address = || {
        let plain = match request.insecure_http {
            true => PlainHttp::Anywhere,
            false => PlainHttp::LoopbackOnly,
        };
        Address::parse(url, plain).map_err(invalid)
    };
    Ok(match form {
        NotifyForm::Webhook => {
            Endpoint::Web(WebEndpoint::signed(address()?, secret).map_err(invalid)?)
        }
        NotifyForm::Slack => Endpoint::Web(WebEndpoint::unsigned(address()?)),
        NotifyForm::Email => {
            Endpoint::Mail(MailEndpoint::new(url, secret, mail_from, mail_to).map_err(invalid)?)
        }
    })
}

fn parsed_filter(filter: &v1::NotifyFilter) -> Result<NotifyFilter, Rejection> {
    let v1::NotifyFilter { groups, types, deployments, severity } = filter;
    let group = |text: &String| {
        EventGroup::parse(text).ok_or_else(|| {
            let all = EventGroup::ALL.map(EventGroup::as_str).join(", ");
            invalid(format!("there is no group of events {text:?}; the groups are {all}"))
        })
    };
    let kind = |text: &String| {
        let known = AuditKind::ALL.iter().copied().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| {
            invalid(format!("there is no event type {text:?}; `jaco audit --help` lists them"))
        })
    };
    let least = match severity.as_str() {
        "" => Severity::Info,
        text => Severity::parse(text).ok_or_else(|| {
            let all = Severity::ALL.map(Severity::as_str).join(", ");
            invalid(format!("there is no severity {text:?}; the severities are {all}"))
        })?,
    };
    Ok(NotifyFilter {
        groups: groups.iter().map(group).collect::<Result<_, _>>()?,
        kinds: types.iter().map(kind).collect::<Result<_, _>>()?,
        deployments: deployments
            .iter()
            .map(|name| DeploymentName::new(name).map_err(invalid))
            .collect::<Result<_, _>>()?,
        least,
    })
}

#[cfg(test)]
mod tests {
    use super::super::notify::filter_info;
    use super::*;

    /// R-OPS-1: what there is no such thing of is named, with what there is.
    #[test]
    fn filters_are_checked() {
        let filter = |groups: &[&str], types: &[&str], severity: &str| {
            let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
            parsed_filter(&v1::NotifyFilter {
                groups: texts(groups),
                types: texts(types),
                deployments: vec!["shop".to_owned()],
                severity: severity.to_owned(),
            })
        };
        let read = filter(&["wake", "jobs"], &["apply"], "warning").unwrap();
        assert_eq!(
            read.to_string(),
            "group=wake group=jobs type=apply deployment=shop severity=warning"
        );
        assert_eq!(parsed_filter(&filter_info(&read)), Ok(read));
        let refused = |filter: Result<NotifyFilter, Rejection>| filter.unwrap_err().message;
        assert!(refused(filter(&["night"], &[], "")).contains("the groups are wake, deployments"));
        assert!(refused(filter(&[], &["aply"], "")).contains("no event type \"aply\""));
        assert!(refused(filter(&[], &[], "loud")).contains("info, warning, critical"));
    }
}
