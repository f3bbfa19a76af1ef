//! The page before an action, which says what it would do and has the form that does it; and the page of one that was
//! refused.

use jaco_proto::v1::{ClusterStatusResponse, Preview, StatusResponse};
use jaco_sentences::plan;

use crate::action::{Action, Allocation, BoundData};
use crate::cells::sentence;
use crate::html::{Element, el};
use crate::link::Link;
use crate::plan::Planned;
use crate::problem::{Part, Refused};
use crate::shell::{Frame, Page, Place};
use crate::whatif::command;

/// The field of a form that has [`Once::request_id`].
pub const REQUEST_ID: &str = "request_id";

/// The field of a form that has [`Once::based_on`].
pub const BASED_ON: &str = "based_on";

/// The field of a form in which a name is typed.
pub const TYPED: &str = "typed";

/// What makes the form of an action one request, however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The id of the request: the cluster does it once.
    pub request_id: String,
    /// What the page was made from: the revision of the deployment that is changed, or the id of the node that is removed.
    /// The action is refused if it is another one by then. 0 where the rpc asks for none.
    pub based_on: u64,
}

/// What is known of an action that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was done.
    Nothing,
    /// It may have been done: the answer did not arrive.
    Unknown,
}

/// A page about an action.
#[derive(Debug)]
pub struct ActionPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// The action.
    pub action: &'a Action,
    /// What the planner would do, and where replicas are now; none for actions that are not planned.
    pub plan: Option<(Part<Preview>, Part<StatusResponse>)>,
    /// Why it was refused, if it was, and what is known of it.
    pub refused: Option<(Refused, Outcome)>,
    /// The form, unless it cannot be sent.
    pub once: Option<Once>,
}

impl ActionPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let mut content: Vec<Element> = Vec::new();
        if let Some((refused, outcome)) = &self.refused {
            content.push(refused.alert());
            content.push(self.next(*outcome));
        }
        content.push(sentence(self.action.sentence()));
        content.push(command(self.action.command()));
        if let Action::Scale { replicas, .. } = self.action {
            content.push(self.question(*replicas));
        }
        content.extend(self.confirmation(frame));
        if let Some((preview, status)) = &self.plan {
            match preview {
                Err(refused) => content.push(refused.note("what the planner would do")),
                Ok(preview) => {
                    let lost: &[String] = match self.lost() {
                        Some(node) => std::slice::from_ref(node),
                        None => &[],
                    };
                    content.extend(Planned { preview, status, lost }.sections());
                }
            }
        }
        let heading = self.action.title();
        let page = Page { heading, place: Place::Elsewhere, content, live: None };
        page.html(frame, Some(self.cluster))
    }

    /// The node that the plan is without.
    fn lost(&self) -> Option<&String> {
        let Action::RemoveLost { node } = self.action else { return None };
        Some(node)
    }

    /// What to do after a refusal.
    fn next(&self, outcome: Outcome) -> Element {
        let known = match outcome {
            Outcome::Nothing => "Nothing was done. ",
            Outcome::Unknown => {
                "It may have been done. The form below asks for the same once more: it is done once at most. "
            }
        };
        el("p")
            .with(known)
            .with(el("a").href(&self.action.link()).with("Look at it again"))
            .with(".")
    }

    /// Asks for the number of replicas.
    fn question(&self, replicas: Option<u32>) -> Element {
        let given = self.action.fields().into_iter().filter(|(name, _)| *name != "replicas");
        let mut input = el("input")
            .id("scale-replicas")
            .attr("type", "number")
            .attr("name", "replicas")
            .attr("min", "0")
            .attr("required", "");
        if let Some(replicas) = replicas {
            input = input.attr("value", replicas.to_string());
        }
        el("form")
            .class("find")
            .attr("method", "get")
            .attr("action", Link::action(self.action.name()).to_string())
            .all(given.map(|(name, value)| hidden(name, value)))
            .with(el("label").attr("for", "scale-replicas").with("Replicas"))
            .with(input)
            .with(el("button").attr("type", "submit").with("Show what happens"))
    }

    /// The form that does it, or why there is none.
    fn confirmation(&self, frame: &Frame) -> Vec<Element> {
        let Some(once) = &self.once else { return Vec::new() };
        if !self.action.is_offered_to(&frame.rights) {
            let needed = self.action.role();
            return vec![sentence(format!(
                "This needs role {needed}, for what it is about; you are {}. An admin can issue a token that allows it.",
                frame.by
            ))];
        }
        if let Some(bound) = self.bound() {
            return bound;
        }
        let typed = self.action.typed().map(|name| {
            let label = format!("Type {name} to confirm");
            let input = el("input")
                .id("typed")
                .attr("name", TYPED)
                .attr("required", "")
                .attr("autocomplete", "off")
                .attr("spellcheck", "false");
            el("span").class("field").with(el("label").attr("for", "typed").with(label)).with(input)
        });
        let fields = self.action.fields().into_iter().map(|(name, value)| hidden(name, value));
        let form = el("form")
            .class("act")
            .attr("method", "post")
            .attr("action", Link::action(self.action.name()).to_string())
            .all(fields)
            .with(hidden(REQUEST_ID, once.request_id.clone()))
            .with(hidden(BASED_ON, once.based_on.to_string()))
            .all(typed)
            .with(el("button").attr("type", "submit").with(self.action.title()));
        vec![form]
    }

    /// Instead of a form: why a node cannot be emptied, and what can be done instead.
    fn bound(&self) -> Option<Vec<Element>> {
        let Action::Drain { node, data: BoundData::Refuses } = self.action else { return None };
        let (Ok(preview), _) = self.plan.as_ref()? else { return None };
        let mut bound = plan::bound_by_data(preview).peekable();
        bound.peek()?;
        let others = Action::Drain { node: node.clone(), data: BoundData::Stays };
        let disable = Action::Disable(Allocation::Node(node.clone()));
        Some(vec![
            el("p")
                .class("banner warning")
                .with(el("b").with("▲ It cannot be emptied: "))
                .with(bound.collect::<Vec<_>>().join("; ")),
            el("ul")
                .with(
                    el("li").with(
                        el("a")
                            .href(&others.link())
                            .with("Move the others, and leave what has data here"),
                    ),
                )
                .with(el("li").with(el("a").href(&disable.link()).with(
                    "Disable everything on it for maintenance: replicas stop, and keep their data",
                ))),
        ])
    }
}

fn hidden(name: &'static str, value: String) -> Element {
    el("input").attr("type", "hidden").attr("name", name).attr("value", value)
}
