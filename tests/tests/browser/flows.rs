//! What a user does on the page: signs in and out, looks, and is told of changes.

use jaco_testkit::browser::{Browser, Scripts};
use jaco_testkit::eventually;
use serde_json::{Value, json};

use crate::site::{
    PAGES, STILL, apply, cluster, jaco, sign_in, signed_in, signed_in_as, site, token,
};

/// R-OPS-1: a browser that trusts the cluster's authority, as docs/ui.md says, signs in with a token, comes back to the page
/// that it wanted, and is a stranger again once it signs out. It complains of nothing: neither of scripts nor of a policy.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_signs_in_and_out() {
    let cluster = cluster().await;
    let token = token(&cluster, "ann", "viewer").await;
    let browser = Browser::start(&site(&cluster, &cluster.nodes[0]), Scripts::Run).await;
    browser.open("/ui/nodes/n1").await;
    assert_eq!(browser.path().await, "/ui/login?next=%2Fui%2Fnodes%2Fn1");
    sign_in(&browser, &token.replace(".ann.", ".eve.")).await;
    assert!(browser.text().await.contains("Not signed in"), "{}", browser.text().await);
    // A wrong token is what browsers call an error of the network.
    let refused = browser.complaints().await;
    assert!(refused.iter().all(|it| it.contains("401")), "{refused:?}");

    sign_in(&browser, &token).await;
    assert_eq!(browser.path().await, "/ui/nodes/n1");
    for path in PAGES {
        browser.open(path).await;
        let text = browser.text().await;
        assert!(text.contains("operator:ann, viewer"), "{path}: {text}");
        assert!(!text.contains("Not known"), "{path}: {text}");
    }
    let cookie = browser.run("return document.cookie").await;
    assert_eq!(cookie, json!(""), "scripts do not see the session");
    browser.follow("header form button").await;
    assert!(browser.text().await.contains("The session has ended"), "{}", browser.text().await);
    browser.open("/ui").await;
    assert_eq!(browser.path().await, "/ui/login?next=%2Fui");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// R-OPS-1, R-IN-3: the link of `jaco ui` says who it signs in, is good although something has looked at it before, and for
/// one sign-in only.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_once() {
    let cluster = cluster().await;
    let made: Value = serde_json::from_str(&jaco(&cluster, &["ui", "-o", "json"])).expect("JSON");
    let url = made["url"].as_str().expect("an address");
    let browser = Browser::start(&site(&cluster, &cluster.nodes[0]), Scripts::Run).await;
    let path = url.strip_prefix(browser.origin()).expect("an address of this node");
    for _ in 0..2 {
        browser.open(path).await;
        let text = browser.text().await;
        assert!(text.contains("This link signs you in at node n1 as local:0."), "{text}");
    }
    browser.follow("form.login button").await;
    assert_eq!(browser.path().await, "/ui");
    assert!(browser.text().await.contains("local:0, admin"), "{}", browser.text().await);
    browser.follow("header form button").await;
    browser.open(path).await;
    let text = browser.text().await;
    assert!(text.contains("the link was used already"), "{text}");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// R-OPS-1: an open page follows the cluster without being loaded again; what has the focus keeps it, and only what is
/// different is changed.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_changes_by_itself() {
    let cluster = cluster().await;
    let browser = signed_in(&cluster, Scripts::Run, "/ui").await;
    browser
        .run(
            "window.loaded = 'once';
             document.querySelector('#deployments a').focus();
             window.kept = document.querySelector('#nodes table');",
        )
        .await;
    apply(&cluster, "blog", 2);
    eventually("the page shows the new deployment", || async {
        let found =
            browser.run("return !!document.querySelector('a[href=\"/ui/deployments/blog\"]')");
        if found.await == json!(true) { Ok(()) } else { Err(browser.text().await) }
    })
    .await;
    let state = browser
        .run(
            "return [window.loaded, document.activeElement.getAttribute('href'),
                     window.kept === document.querySelector('#nodes table'),
                     document.getElementById('live').textContent]",
        )
        .await;
    let live = "Live: this page changes by itself.";
    assert_eq!(state, json!(["once", "/ui/deployments/shop", true, live]));
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// R-OPS-1: a page of log lines that is open gets those that come later, of replicas that are started later too, each once and in
/// the form of the first ones; it stays at the end, or where its reader has scrolled to.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_follows_log_lines() {
    let cluster = cluster().await;
    let path = "/ui/logs?deployment=shop&service=web";
    let browser = signed_in_as(&cluster, Scripts::Run, path, ("dan", "operator")).await;
    let lines = async || {
        let text = browser.run("return document.querySelector('pre.log').textContent").await;
        let text = text.as_str().expect("a text").trim_end();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let started = |lines: &[String], replica: u32| {
        let of = format!(" shop-web-{replica} ");
        lines.iter().filter(|it| it.contains(&of) && it.ends_with("web:1 started")).count()
    };
    let before = lines().await;
    assert!((0..5).all(|replica| started(&before, replica) == 1), "{before:#?}");
    let script = "return document.getElementById('live').textContent";
    eventually("it is live", || async {
        let said = browser.run(script).await;
        if said == json!("Live: this page changes by itself.") { Ok(()) } else { Err(said) }
    })
    .await;
    jaco(&cluster, &["scale", "shop/web", "9"]);
    eventually("it has the lines of the new replicas", || async {
        let now = lines().await;
        if (0..9).all(|replica| started(&now, replica) >= 1) { Ok(()) } else { Err(now) }
    })
    .await;
    let after = lines().await;
    assert!((0..9).all(|replica| started(&after, replica) == 1), "each once: {after:#?}");
    assert_eq!(after[..before.len()], before[..], "what was there is there");

    // A list that is too small for its lines.
    browser.run("document.querySelector('pre.log').style.maxHeight = '4rem'").await;
    let place = "const log = document.querySelector('pre.log');
                 return [log.scrollTop, log.scrollHeight - log.clientHeight - log.scrollTop]";
    let grown = async |replicas: u32| {
        jaco(&cluster, &["scale", "shop/web", &replicas.to_string()]);
        eventually("it has the lines of the last replica", || async {
            let now = lines().await;
            if started(&now, replicas - 1) == 1 { Ok(()) } else { Err(now) }
        })
        .await;
        browser.run(place).await
    };
    browser
        .run("const log = document.querySelector('pre.log'); log.scrollTop = log.scrollHeight")
        .await;
    let end = grown(10).await;
    assert!(end[0].as_f64() > Some(0.0) && end[1].as_f64() <= Some(1.0), "at the end: {end}");
    browser.run("document.querySelector('pre.log').scrollTop = 20").await;
    let further_up = grown(11).await;
    assert_eq!(further_up[0], json!(20), "where it was scrolled to: {further_up}");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// R-OPS-1: an open page says so when its node is gone, keeps what it showed, and goes on by itself when the node is back.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_says_when_its_node_is_gone() {
    let mut cluster = cluster().await;
    let browser = signed_in(&cluster, Scripts::Run, "/ui/deployments/shop").await;
    let live = async || {
        let text = browser.run("return document.getElementById('live').textContent").await;
        text.as_str().unwrap_or_default().to_owned()
    };
    eventually("it is live", || async {
        let said = live().await;
        if said.starts_with("Live") { Ok(()) } else { Err(said) }
    })
    .await;
    cluster.nodes[0].kill();
    eventually("it says that it is not", || async {
        let said = live().await;
        if said.starts_with("▲ Not live") || said.starts_with("✕ No connection") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    let held = browser.run("return document.getElementById('replicas').textContent").await;
    let held = held.as_str().expect("a text");
    assert!(held.contains("shop-web-4"), "what was known is shown: {held}");
    cluster.nodes[0].start();
    // A session ends with its node's daemon: the page leads to where one signs in.
    eventually("it asks to sign in again", || async {
        let path = browser.path().await;
        if path.starts_with("/ui/login?next=%2Fui%2Fdeployments%2Fshop") {
            Ok(())
        } else {
            Err(path)
        }
    })
    .await;
}

/// What two browsers show of a page, both of the same state of the cluster: they open it again if that moved on between.
async fn of_one_state(one: &Browser, other: &Browser, path: &str) -> (Value, Value) {
    let state = "document.querySelector('.answered').textContent.match(/state \\d+/)[0]";
    let script = format!("const state = {state}; return [state, (() => {{ {STILL} }})()];");
    eventually("both show one state", || async {
        one.open(path).await;
        other.open(path).await;
        let (one, other) = (one.run(&script).await, other.run(&script).await);
        let states = (one[0].clone(), other[0].clone());
        if states.0 == states.1 { Ok((one[1].clone(), other[1].clone())) } else { Err(states) }
    })
    .await
}

/// R-OPS-1: with scripts blocked every page has the same content.
#[tokio::test(flavor = "multi_thread")]
async fn pages_are_whole_without_scripts() {
    let cluster = cluster().await;
    let with = signed_in(&cluster, Scripts::Run, "/ui").await;
    let without = signed_in(&cluster, Scripts::Blocked, "/ui").await;
    for path in PAGES {
        let (expected, shown) = of_one_state(&with, &without, path).await;
        assert!(expected.as_str().is_some_and(|page| !page.is_empty()), "{path}");
        assert_eq!(shown, expected, "{path}");
        let state = without.text().await;
        assert!(!state.contains("Live: this page"), "{path}: {state}");
    }
    // Forms, too.
    without.open("/ui/why").await;
    without.fill("#why-deployment", "shop").await;
    without.fill("#why-service", "db").await;
    without.follow("form.find button").await;
    assert_eq!(without.path().await, "/ui/why?deployment=shop&service=db&replica=");
    assert!(without.text().await.contains("Node by node"), "{}", without.text().await);
}

/// R-OPS-1: an operator scales a service on the page, sees first what would happen, and then what does; the history of the
/// browser does nothing a second time. A viewer is shown no way to it.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_scales_on_the_page() {
    for scripts in [Scripts::Run, Scripts::Blocked] {
        let cluster = cluster().await;
        let viewer = signed_in(&cluster, scripts, "/ui/deployments/shop").await;
        let ways = "return document.querySelectorAll('a[href^=\"/ui/do/\"]').length";
        assert_eq!(viewer.run(ways).await, json!(0));

        let path = "/ui/deployments/shop";
        let browser = signed_in_as(&cluster, scripts, path, ("oscar", "operator")).await;
        browser.follow("#actions a[aria-label='Scale shop/web']").await;
        browser.fill("#scale-replicas", "8").await;
        browser.follow("form.find button").await;
        let planned = browser.text().await;
        assert!(planned.contains("jaco scale shop/web 8"), "{planned}");
        assert!(planned.contains("shop-web-7"), "{planned}");
        browser.follow("form.act button").await;
        assert!(browser.path().await.starts_with(path), "{}", browser.path().await);
        eventually("eight replicas run", || async {
            browser.open(path).await;
            let text = browser.text().await;
            if text.contains("8 of 8") { Ok(()) } else { Err(text) }
        })
        .await;
        let revisions = "return document.querySelectorAll('#revisions tbody tr').length";
        assert_eq!(browser.run(revisions).await, json!(2));
        // Back to the form, and sent once more.
        browser.run("history.go(-2)").await;
        eventually("the form is there again", || async {
            let path = browser.path().await;
            if path.starts_with("/ui/do/scale") { Ok(()) } else { Err(path) }
        })
        .await;
        let form = browser.run("return !!document.querySelector('form.act button')").await;
        assert_eq!(form, json!(true));
        browser.follow("form.act button").await;
        browser.open(path).await;
        assert_eq!(browser.run(revisions).await, json!(2), "it is that already");
        assert!(browser.text().await.contains("8 of 8"));
        assert_eq!(browser.complaints().await, Vec::<String>::new());
    }
}

/// R-OPS-1: an audit event leads to the cluster as it was then, from where the next one is a click away, and so is the present.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_leads_to_its_moment() {
    let cluster = cluster().await;
    let browser = signed_in(&cluster, Scripts::Run, "/ui/audit?deployment=shop").await;
    // The oldest event of the deployment: its apply.
    browser.follow("main tbody tr:last-child a[href*='at=']").await;
    let then = browser.text().await;
    assert!(then.contains("This is the cluster as it was at index"), "{then}");
    assert!(then.contains("shop") && !then.contains("5 of 5"), "nothing runs yet: {then}");
    let ways = "return [...document.querySelectorAll('.pages a')].map((it) => it.textContent)";
    assert_eq!(browser.run(ways).await, json!(["Event after", "Back to now"]));
    assert!(then.contains("No event before is known here."), "{then}");
    browser.follow(".pages a:last-child").await;
    let now = browser.text().await;
    assert!(now.contains("5 of 5") && !now.contains("as it was at index"), "{now}");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// R-OPS-1: what cannot be undone is done only once its name was typed.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_has_to_be_typed() {
    let cluster = cluster().await;
    let path = "/ui/deployments/shop";
    let browser = signed_in_as(&cluster, Scripts::Run, path, ("oscar", "operator")).await;
    browser.follow("#actions a[aria-label='Delete shop']").await;
    browser.fill("#typed", "shap").await;
    browser.follow("form.act button").await;
    let text = browser.text().await;
    assert!(text.contains("what was typed is not the name"), "{text}");
    assert!(jaco(&cluster, &["status"]).contains("shop"));
    browser.fill("#typed", "shop").await;
    browser.follow("form.act button").await;
    assert!(browser.path().await.starts_with("/ui?did=delete"), "{}", browser.path().await);
    eventually("it is gone from the overview", || async {
        browser.open("/ui").await;
        let text = browser.text().await;
        if text.contains("There are none") { Ok(()) } else { Err(text) }
    })
    .await;
}
