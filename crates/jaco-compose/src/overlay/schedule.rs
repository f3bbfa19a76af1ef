//! `schedule`: when a job is run again and again (R-JOB-2).

use jaco_types::spec::{Concurrency, Cron, HistoryLimit, Schedule, ZoneName};
use jiff::tz::TimeZoneDatabase;

use super::value::millis;
use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::yaml::node::{Map, Node};

/// What a schedule that does not name a time zone goes by.
const DEFAULT_ZONE: &str = "UTC";

/// A schedule, or the problems of one. What is of a wrong type was reported when the tree was checked.
pub(super) fn read(node: Option<&Node>, report: &mut Report) -> Option<Schedule> {
    let map = node?.as_map()?;
    let cron = cron(map, report);
    let time_zone = time_zone(map, report);
    let concurrency = concurrency(map, report);
    let deadline = map.get("deadline").and_then(|node| {
        let deadline = millis(node);
        if deadline.is_some_and(|deadline| deadline.0 < 1000) {
            report
                .error(
                    node.pos,
                    Code::InvalidValue,
                    "`deadline` is shorter than a run takes to begin",
                )
                .expected("at least 1s");
        }
        deadline
    });
    let history = history(map, report);
    Some(Schedule {
        cron: cron?,
        time_zone: time_zone?,
        concurrency: concurrency?,
        deadline,
        history: history?,
    })
}

fn cron(map: &Map, report: &mut Report) -> Option<Cron> {
    let node = map.get("cron")?;
    match Cron::parse(node.as_str()?) {
        Ok(cron) => Some(cron),
        Err(invalid) => {
            let message = format!("`{}` is not a cron expression that is ever due", invalid.text);
            report.error(node.pos, Code::InvalidValue, message).expected(invalid.rule);
            None
        }
    }
}

fn time_zone(map: &Map, report: &mut Report) -> Option<ZoneName> {
    let node = map.get("time_zone");
    let text = match node {
        Some(node) => node.as_str()?,
        None => DEFAULT_ZONE,
    };
    let known = TimeZoneDatabase::bundled();
    // The database takes any case; what is kept and shown is one.
    let zone = known.get(text).ok();
    let zone = zone.and_then(|zone| ZoneName::new(zone.iana_name().unwrap_or(text)).ok());
    if zone.is_none() {
        let pos = node.map(|node| node.pos).unwrap_or_default();
        let names: Vec<String> = known.available().map(|name| name.as_str().to_owned()).collect();
        report
            .error(pos, Code::InvalidValue, format!("`{text}` is not a time zone"))
            .nearest(text, names.iter().map(String::as_str))
            .expected("a name such as `UTC` or `Europe/Berlin`");
    }
    zone
}

fn concurrency(map: &Map, report: &mut Report) -> Option<Concurrency> {
    let Some(node) = map.get("concurrency") else { return Some(Concurrency::default()) };
    match node.as_str()? {
        "forbid" => Some(Concurrency::Forbid),
        "replace" => Some(Concurrency::Replace),
        "allow" => {
            let message =
                "`concurrency` cannot be `allow`: a replica of a job is one container at a time";
            report
                .error(node.pos, Code::InvalidValue, message)
                .expected("`forbid` or `replace`")
                .suggest("use `forbid`, or a second service with a schedule of its own");
            None
        }
        other => {
            report
                .error(node.pos, Code::InvalidValue, format!("`concurrency` cannot be `{other}`"))
                .nearest(other, ["forbid", "replace"].into_iter())
                .expected("`forbid` or `replace`");
            None
        }
    }
}

fn history(map: &Map, report: &mut Report) -> Option<HistoryLimit> {
    let Some(node) = map.get("history") else { return Some(HistoryLimit::DEFAULT) };
    let number = node.as_int()?;
    let history = u32::try_from(number).ok().and_then(|count| HistoryLimit::new(count).ok());
    if history.is_none() {
        report
            .error(node.pos, Code::InvalidValue, format!("`history` cannot be {number}"))
            .expected("a whole number from 1 to 100");
    }
    history
}
