//! What would be if nodes were lost, drained or added, or services scaled.

use jaco_proto::v1::{ClusterStatusResponse, Preview, StatusResponse, WhatifRequest};
use jaco_sentences::whatif;

use crate::cells::{section, sentence};
use crate::html::{Element, el};
use crate::link::Link;
use crate::plan::Planned;
use crate::problem::Part;
use crate::shell::{Frame, Page, Place};

/// What is supposed, as it was filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Supposed {
    /// Nodes that are lost, between spaces.
    pub lose: String,
    /// Nodes that are drained, between spaces.
    pub drain: String,
    /// Services with other numbers of replicas, as `shop/web=3`, between spaces.
    pub scale: String,
    /// Nodes that are added, as `n9 zone=c cpu=8 ram=32G`, between semicolons.
    pub add: String,
}

impl Supposed {
    /// The question to the planner; none if nothing is supposed.
    ///
    /// # Errors
    /// What cannot be read, and how it is written.
    pub fn request(&self) -> Result<Option<WhatifRequest>, String> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let added = self.add.split(';').map(str::trim).filter(|added| !added.is_empty());
        let request = WhatifRequest {
            lose: words(&self.lose),
            drain: words(&self.drain),
            scale: self.scale.split_whitespace().map(whatif::scale).collect::<Result<_, _>>()?,
            add: added.map(whatif::node).collect::<Result<_, _>>()?,
        };
        Ok((request != WhatifRequest::default()).then_some(request))
    }

    /// The page that supposes it.
    #[must_use]
    pub fn link(&self) -> Link {
        let Self { lose, drain, scale, add } = self;
        Link::whatif().with("lose", lose).with("drain", drain).with("scale", scale).with("add", add)
    }
}

/// The page.
#[derive(Debug)]
pub struct WhatifPage<'a> {
    /// The cluster, as the node that answers knows it.
    pub cluster: &'a ClusterStatusResponse,
    /// What was filled in.
    pub supposed: Supposed,
    /// Where replicas are now.
    pub status: Part<StatusResponse>,
    /// The question, if it could be read, with the answer of the leader; none before anything is supposed.
    pub answer: Option<(Option<WhatifRequest>, Part<Preview>)>,
}

impl WhatifPage<'_> {
    /// The document.
    #[must_use]
    pub fn html(&self, frame: &Frame) -> String {
        let mut content = vec![self.form()];
        match &self.answer {
            None => content.push(sentence(
                "The leader runs the planner on a copy of the state: which replicas would go where, which would have no \
                 place, and whether any one node or zone could then be lost. All fields apply together. Nothing is changed.",
            )),
            Some((request, answer)) => {
                content.extend(request.as_ref().map(|asked| command(whatif::command(asked))));
                match answer {
                    Err(refused) => content.push(section(
                        "effect",
                        "What happens",
                        vec![refused.note("the answer of the leader")],
                    )),
                    Ok(preview) => {
                        let lost = request.as_ref().map(|asked| asked.lose.as_slice());
                        let (status, lost) = (&self.status, lost.unwrap_or_default());
                        content.extend(Planned { preview, status, lost }.sections());
                    }
                }
            }
        }
        let page =
            Page { heading: "What if?".to_owned(), place: Place::Whatif, content, live: None };
        page.html(frame, Some(self.cluster))
    }

    fn form(&self) -> Element {
        let field = |id: &'static str, label: &'static str, name: &'static str, value: &str| {
            let input = el("input").id(id).attr("name", name).attr("value", value.to_owned());
            let input = input.attr("aria-describedby", "whatif-help").attr("autocomplete", "off");
            el("span").class("field").with(el("label").attr("for", id).with(label)).with(input)
        };
        let Supposed { lose, drain, scale, add } = &self.supposed;
        let help = el("p").id("whatif-help").class("help").with(
            "Names of nodes between spaces; services as shop/web=3; added nodes as n9 zone=c cpu=8 ram=32G, between \
             semicolons.",
        );
        el("form")
            .class("find")
            .attr("method", "get")
            .attr("action", Link::whatif().to_string())
            .with(field("whatif-lose", "Nodes are lost", "lose", lose))
            .with(field("whatif-drain", "Nodes are drained", "drain", drain))
            .with(field("whatif-scale", "Services are scaled", "scale", scale))
            .with(field("whatif-add", "Nodes are added", "add", add))
            .with(el("button").attr("type", "submit").with("Ask"))
            .with(help)
    }
}

/// The command that does or asks the same.
pub(crate) fn command(command: String) -> Element {
    el("p").class("command").with("The same in a terminal: ").with(el("code").with(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_questions() {
        let supposed = Supposed {
            lose: " n1  n2 ".to_owned(),
            drain: "n3".to_owned(),
            scale: "shop/web=3 db=1".to_owned(),
            add: "n9 cpu=8; n10;".to_owned(),
        };
        let request = supposed.request().unwrap().unwrap();
        assert_eq!(
            whatif::command(&request),
            "jaco whatif --lose n1 --lose n2 --drain n3 --scale shop/web=3 --scale db=1 --add 'n9 cpu=8' --add n10"
        );
        assert_eq!(Supposed::default().request(), Ok(None));
        let wrong = Supposed { scale: "web".to_owned(), ..Supposed::default() };
        assert_eq!(wrong.request().unwrap_err(), "give SERVICE=NUMBER, as in web=12");
    }
}
