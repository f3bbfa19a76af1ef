//! Forms of pages of a member, filled in and sent as a browser does.

use jaco_types::Role;
use tonic::codegen::http::{Method, StatusCode};

use crate::served::Served;
use crate::ui::{Answer, get, request, send, sign_in, token};

/// The fields of the form that a page has, and where it is sent.
pub(crate) struct Form {
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Form {
    /// The form of an action on a page.
    pub(crate) fn of(page: &Answer) -> Self {
        let (_, form) =
            page.text.split_once("<form class=\"act\" method=\"post\" action=\"").unwrap();
        let (path, rest) = form.split_once('"').unwrap();
        let (form, _) = rest.split_once("</form>").unwrap();
        let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
        let fields = inputs.map(|input| {
            let (name, rest) = input.split_once("\" value=\"").unwrap();
            (name.to_owned(), rest.split_once('"').unwrap().0.to_owned())
        });
        Self { path: path.to_owned(), fields: fields.collect() }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.fields.retain(|(known, _)| known != name);
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn text(&self) -> String {
        let pairs = self.fields.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Sends it as a browser does from a page of this node.
    pub(crate) async fn send(&self, served: &Served, cookie: &str) -> Answer {
        let own = [("cookie", cookie), ("sec-fetch-site", "same-origin")];
        self.send_with(served, &own).await
    }

    pub(crate) async fn send_with(&self, served: &Served, headers: &[(&str, &str)]) -> Answer {
        let form = request(Method::POST, &self.path, headers, &self.text());
        send(&served.stranger, form).await
    }
}

pub(crate) async fn signed_in(served: &Served, name: &str, role: Role) -> String {
    let token = token(served, name, role, 0).await;
    sign_in(served, &token).await.cookie()
}

pub(crate) async fn form(served: &Served, cookie: &str, action: &str) -> Form {
    let page = get(&served.stranger, &format!("/ui/do/{action}"), cookie).await;
    assert_eq!(page.status, StatusCode::OK, "{action}: {}", page.text);
    Form::of(&page)
}
