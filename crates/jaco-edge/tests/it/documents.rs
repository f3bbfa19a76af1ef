//! Documents say what the code does.

/// The table of refusals in the documentation is that of the code.
#[test]
fn every_refusal_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/edge.md");
    let document = std::fs::read_to_string(path).unwrap();
    let table = jaco_edge::refusal_table();
    assert!(document.contains(&table), "docs/edge.md should have this table:\n\n{table}");
}

/// No two refusals have one name, and each says what to do in a sentence.
#[test]
fn refusals_have_names_of_their_own() {
    let all = jaco_edge::Refusal::ALL;
    let reasons: std::collections::BTreeSet<_> =
        all.iter().map(|refusal| refusal.reason()).collect();
    assert_eq!(reasons.len(), all.len());
    for refusal in all {
        assert!(refusal.status().is_client_error() || refusal.status().is_server_error());
        assert!(
            refusal.meaning().ends_with('.') || refusal.meaning().ends_with('?'),
            "{refusal:?}"
        );
    }
}
