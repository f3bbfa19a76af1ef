//! A cron expression: which minutes of which days it names. Must never know a date or a time zone.

use std::fmt;
use std::sync::Arc;

use crate::id::InvalidName;

const RULE: &str = "use five fields `MINUTE HOUR DAY MONTH WEEKDAY`, each `*`, a number, a range `1-5`, a list `1,3` or \
                    steps `*/15`, or @hourly, @daily, @weekly, @monthly or @yearly";

/// The longest expression: all numbers of all fields, one by one.
const TEXT_MAX: usize = 512;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A checked cron expression of five fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: Arc<str>,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The numbers that a field names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    /// A bit for each number.
    numbers: u64,
    form: Form,
}

/// How a field was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `*`, or steps through all of it.
    Any,
    /// Numbers or ranges.
    Chosen,
}

impl Cron {
    /// Reads five fields, or one of the names that begin with `@`.
    ///
    /// # Errors
    /// If it is neither, or names no minute of any day.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let invalid = || InvalidName { kind: "cron expression", text: text.to_owned(), rule: RULE };
        if text.len() > TEXT_MAX {
            return Err(InvalidName { text: text.chars().take(40).collect(), ..invalid() });
        }
        let fields = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return Err(invalid()) };
        let field = |text, least, most, names| Field::parse(text, least, most, names);
        let read = || {
            let weekdays = field(weekdays, 0, 7, &WEEKDAYS)?;
            Some(Self {
                text: text.into(),
                minutes: field(minutes, 0, 59, &[])?,
                hours: field(hours, 0, 23, &[])?,
                days: field(days, 1, 31, &[])?,
                months: field(months, 1, 12, &MONTHS)?,
                // 7 is Sunday as well as 0.
                weekdays: Field {
                    numbers: weekdays.numbers | (weekdays.numbers >> 7 & 1),
                    ..weekdays
                },
            })
        };
        read().filter(Self::names_a_day).ok_or_else(invalid)
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The minutes of an hour.
    pub fn minutes(&self) -> impl DoubleEndedIterator<Item = i8> + '_ {
        (0..60).filter(|minute| self.minutes.has(*minute))
    }

    /// The hours of a day.
    pub fn hours(&self) -> impl DoubleEndedIterator<Item = i8> + '_ {
        (0..24).filter(|hour| self.hours.has(*hour))
    }

    /// Whether it goes through all hours instead of naming some: then an hour that the clocks repeat counts twice.
    #[must_use]
    pub fn is_every_hour(&self) -> bool {
        self.hours().count() == 24
    }

    /// Whether it names a day, by its month, its number and its weekday from 0 for Sunday. Where both day and weekday
    /// were chosen, either will do, as in every cron.
    #[must_use]
    pub fn has_day(&self, month: i8, day: i8, weekday: i8) -> bool {
        let (by_number, by_weekday) = (self.days.has(day), self.weekdays.has(weekday));
        let is_named = match (self.days.form, self.weekdays.form) {
            (Form::Chosen, Form::Chosen) => by_number || by_weekday,
            (Form::Any, _) | (_, Form::Any) => by_number && by_weekday,
        };
        self.months.has(month) && is_named
    }

    /// Not the 30th of February alone.
    fn names_a_day(&self) -> bool {
        let longest = |month| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let by_number = |month: i8| (1..=longest(month)).any(|day| self.days.has(day));
        let by_weekday = self.weekdays.form == Form::Chosen && self.days.form == Form::Chosen;
        (1..=12).any(|month| self.months.has(month) && (by_weekday || by_number(month)))
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Field {
    fn parse(text: &str, least: u8, most: u8, names: &[&str]) -> Option<Self> {
        let mut field = Self { numbers: 0, form: Form::Any };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => {
                    (range, Some(number(step, &[], 1)?).filter(|step| *step > 0)?)
                }
                None => (part, 1),
            };
            let (from, to) = match range.split_once('-') {
                _ if range == "*" => (least, if most == 7 { 6 } else { most }),
                Some((from, to)) => (number(from, names, least)?, number(to, names, least)?),
                None if part.contains('/') => (number(range, names, least)?, most),
                None => (number(range, names, least)?, number(range, names, least)?),
            };
            if from < least || to > most || from > to {
                return None;
            }
            if range != "*" {
                field.form = Form::Chosen;
            }
            for number in (from..=to).step_by(step.into()) {
                field.numbers |= 1 << number;
            }
        }
        Some(field)
    }

    const fn has(self, number: i8) -> bool {
        number >= 0 && number < 64 && self.numbers >> number & 1 == 1
    }
}

/// A number, or a name of one; names count from `first`.
fn number(text: &str, names: &[&str], first: u8) -> Option<u8> {
    if let Some(at) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return u8::try_from(at).ok()?.checked_add(first);
    }
    let is_number =
        !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
