//! The key tables as a page of the documentation; the measured rates come from the caller.

use std::fmt::Write as _;

use crate::support::file::TOP_LEVEL;
use crate::support::shape::{Class, Inside, Object, Shape};

/// What was measured with public compose files, for the head of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Files that the official tool accepts.
    pub accepted: usize,
    /// Of those, files whose model is the same here.
    pub equal: usize,
    /// Of the accepted ones, files that also run on a cluster as they are.
    pub runnable: usize,
    /// Of those that do not, files that must be built first.
    pub must_be_built: usize,
    /// Of those that do not, files that use privileges without saying so.
    pub unlabelled_privileges: usize,
    /// Files that the official tool refuses.
    pub refused: usize,
    /// Of those, files that are refused here.
    pub also_refused: usize,
}

/// The page: how JACO treats every key of the specification.
#[must_use]
pub fn markdown(rates: Option<Rates>) -> String {
    let mut page = String::from(
        "# Support of compose keys\n\n\
         Generated from the tables that the loader uses; do not edit.\n\n\
         - **honoured**: works as the specification says.\n\
         - **honoured differently**: works, but in another way than on a single host; using it gives a warning.\n\
         - **ignored**: accepted without effect; using it gives a warning.\n\
         - **rejected**: refused.\n\n\
         Keys that start with `x-` are kept without effect. Any other key is an error.\n\n",
    );
    if let Some(rates) = rates {
        page.push_str(&measured(rates));
    }
    let mut counts = [0_usize; 4];
    let mut rows = String::new();
    object_rows(&TOP_LEVEL, "", &mut rows, &mut counts);
    let [honoured, differently, warned, rejected] = counts;
    // Writing into a string cannot fail.
    let _infallible = writeln!(
        page,
        "{honoured} keys are honoured, {differently} honoured differently, {warned} ignored, \
         {rejected} rejected.\n\n| key | | |\n|---|---|---|\n{}",
        rows.trim_end()
    );
    page
}

fn measured(rates: Rates) -> String {
    let Rates {
        accepted,
        equal,
        runnable,
        must_be_built,
        unlabelled_privileges,
        refused,
        also_refused,
    } = rates;
    format!(
        "Measured with {} compose files of 20 public repositories against Docker Compose 2.40.3:\n\n\
         - {equal} of the {accepted} files it accepts load to the same model ({}).\n\
         - {also_refused} of the {refused} it refuses, some of which are not compose files, are \
         refused here too.\n\
         - {runnable} of the {accepted} run on a cluster unchanged ({}). Of the others, \
         {must_be_built} have a service that has to be built first, {unlabelled_privileges} use \
         privileges without the label that allows them.\n\n",
        accepted + refused,
        percent(equal, accepted),
        percent(runnable, accepted),
    )
}

fn percent(part: usize, whole: usize) -> String {
    let tenths = (part * 1_000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn object_rows(object: &'static Object, path: &str, rows: &mut String, counts: &mut [usize; 4]) {
    for key in object.keys {
        let path =
            if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        counts[match key.class {
            Class::Honoured => 0,
            Class::Differently => 1,
            Class::Ignored => 2,
            Class::Rejected => 3,
        }] += 1;
        let _infallible = writeln!(rows, "| `{path}` | {} | {} |", key.class.as_str(), key.note);
        shape_rows(&key.shape, &path, rows, counts);
    }
}

fn shape_rows(shape: &'static Shape, path: &str, rows: &mut String, counts: &mut [usize; 4]) {
    match shape.inside() {
        Inside::Nothing => {}
        Inside::Itself(inner) | Inside::Items(inner) => shape_rows(inner, path, rows, counts),
        Inside::Values(value) => shape_rows(value, &format!("{path}.*"), rows, counts),
        Inside::Keys(object) => object_rows(object, path, rows, counts),
    }
}
