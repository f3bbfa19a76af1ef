//! Pages of plans and of actions, as the samples of the other pages.

use jaco_proto::v1::{
    Loss, PlannedChange, PlannedStay, PlannedWait, Preview, Survival, WhatifRequest,
};
use jaco_ui::action::{Action, BoundData};
use jaco_ui::{ActionPage, Once, Outcome, Refused, Supposed, WhatifPage};

use crate::samples::{Had, cluster, frame, had, status};

pub(crate) fn scale() -> Action {
    let (deployment, service) = ("shop".to_owned(), "web".to_owned());
    Action::Scale { deployment, service, replicas: Some(3) }
}

pub(crate) fn drain(data: BoundData) -> Action {
    Action::Drain { node: "n1".to_owned(), data }
}

/// A plan with a move, a stop, one more, one without a place, and whatever else there is.
pub(crate) fn preview(text: &str) -> Preview {
    let t = || text.to_owned();
    let change = |action: &str, replica: String, node: &str| PlannedChange {
        action: action.to_owned(),
        replica,
        node: node.to_owned(),
        reason: t(),
        deployment: t(),
        service: t(),
        from_node: t(),
        order: "stop_first".to_owned(),
        fields: vec![t()],
    };
    let wait = PlannedWait {
        deployment: t(),
        service: t(),
        count: 1,
        reason: "data_stays_on_node".to_owned(),
        details: [(t(), t())].into(),
    };
    let stay =
        PlannedStay { deployment: t(), service: t(), replica: t(), node: t(), failed: vec![t()] };
    let loss = Loss { lost: t(), waiting: [(t(), 2)].into(), ..Loss::default() };
    let survival = Survival { of: t(), known: 2, tried: true, losses: vec![loss] };
    Preview {
        changes: vec![
            change("move", format!("{text}-running"), "other"),
            change("stop", format!("{text}-failed"), text),
            change("create", format!("{text}-new"), text),
            change("create", format!("{text}-late"), ""),
        ],
        waits: vec![wait],
        survival: vec![survival],
        stays: vec![stay],
        ..Preview::default()
    }
}

pub(crate) fn whatif_page(text: &str, much: Had) -> String {
    let cluster = cluster(text, much);
    let t = || text.to_owned();
    let supposed = Supposed { lose: t(), drain: t(), scale: t(), add: t() };
    let request = WhatifRequest { lose: vec![t()], drain: vec![t()], ..WhatifRequest::default() };
    let page = WhatifPage {
        cluster: &cluster,
        supposed,
        status: had(much, text, status(text)),
        answer: Some((Some(request), had(much, text, preview(text)))),
    };
    page.html(&frame(text))
}

/// The page of an action, with its form and the plan; after a refusal where little is known.
pub(crate) fn action_page(text: &str, much: Had, action: &Action) -> String {
    let cluster = cluster(text, much);
    let refused = Refused { code: text.to_owned(), message: text.to_owned() };
    let page = ActionPage {
        cluster: &cluster,
        action,
        plan: Some((had(much, text, preview(text)), had(much, text, status(text)))),
        refused: (much == Had::Little).then_some((refused, Outcome::Unknown)),
        once: Some(Once { request_id: "0a".to_owned(), based_on: 7 }),
    };
    page.html(&frame(text))
}
