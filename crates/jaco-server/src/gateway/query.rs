//! The parameters of a request, from the query of its URI. What is not known is refused: who misspells a filter would
//! else take an answer about everything for one about a part.

use std::collections::BTreeMap;

use jaco_json::time::Since;
use jaco_types::Rejection;

use crate::status::invalid;

/// The parameters of a request, each at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the query of a URI.
    ///
    /// # Errors
    /// `invalid_request` for a parameter that is not among `known`, or is there twice.
    pub(super) fn read(text: &str, known: &[&str]) -> Result<Self, Rejection> {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let takes = match known {
                    [] => "this path takes none".to_owned(),
                    known => format!("this path takes {}", known.join(", ")),
                };
                return Err(invalid(format!("there is no parameter {name:?}: {takes}")));
            }
            if parameters.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(invalid(format!("the parameter {name} is there twice: give it once")));
            }
        }
        Ok(Self(parameters))
    }

    /// A text; empty if it is not given.
    pub(super) fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// The parts of a text that commas separate; none if it is not given.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.0.get(name).into_iter().flat_map(|text| text.split(','));
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// A number from `from` to `to`, if it is given.
    ///
    /// # Errors
    /// `invalid_request` if it is none of these.
    pub(super) fn number(&self, name: &str, from: u64, to: u64) -> Result<Option<u64>, Rejection> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (from..=to).contains(number));
        let wrong = || invalid(format!("{name} is {text:?}: give a number from {from} to {to}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// A moment, in milliseconds since the Unix epoch: a time, or a duration before `now_ms`; 0 if it is not given.
    ///
    /// # Errors
    /// `invalid_request` if it is neither.
    pub(super) fn moment(&self, name: &str, now_ms: i64) -> Result<i64, Rejection> {
        let Some(text) = self.0.get(name) else { return Ok(0) };
        let since: Since = text.parse().map_err(|why| invalid(format!("{name}: {why}")))?;
        Ok(since.at_ms(now_ms))
    }

    /// An audit event by its index and number, `120/0`, if it is given.
    ///
    /// # Errors
    /// `invalid_request` if it is something else.
    pub(super) fn event(&self, name: &str) -> Result<Option<(u64, u32)>, Rejection> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let event = text.split_once('/').and_then(|(index, number)| {
            Some((index.parse().ok().filter(|index| *index > 0)?, number.parse().ok()?))
        });
        let wrong = || {
            invalid(format!(
                "{name} is {text:?}: give index and number of an event, for example 120/0"
            ))
        };
        event.map(Some).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["since", "limit", "type", "after"];

    fn read(text: &str) -> Result<Query, String> {
        Query::read(text, &KNOWN).map_err(|rejection| rejection.message)
    }

    /// R-IN-3: what a query has is read as forms are, and what is wrong with it is said.
    #[test]
    fn parameters_are_read_or_refused() {
        let query = read("since=2026-01-01T00%3A00%3A00Z&limit=20&type=a,b,&after=7/1").unwrap();
        assert_eq!(query.moment("since", 0), Ok(1_767_225_600_000));
        assert_eq!(query.number("limit", 1, 100), Ok(Some(20)));
        assert_eq!(query.list("type"), ["a", "b"]);
        assert_eq!(query.event("after"), Ok(Some((7, 1))));

        let none = read("").unwrap();
        assert_eq!((none.text("type"), none.list("type")), (String::new(), Vec::new()));
        assert_eq!(none.number("limit", 1, 100), Ok(None));
        assert_eq!((none.moment("since", 5), none.event("after")), (Ok(0), Ok(None)));
        assert_eq!(read("since=1h").unwrap().moment("since", 3_600_001), Ok(1));

        let unknown = "there is no parameter \"sinse\": this path takes since, limit, type, after";
        assert_eq!(read("sinse=1h").unwrap_err(), unknown);
        assert!(read("limit=1&limit=2").unwrap_err().contains("twice"));
        for wrong in ["limit=0", "limit=101", "limit=x", "limit=", "limit=-1"] {
            assert!(read(wrong).unwrap().number("limit", 1, 100).is_err(), "{wrong}");
        }
        for wrong in ["after=7", "after=0/0", "after=x/1", "after=7/x", "after="] {
            assert!(read(wrong).unwrap().event("after").is_err(), "{wrong}");
        }
        assert!(read("since=yesterday").unwrap().moment("since", 0).is_err());
    }
}
