//! The page of each error code, compiled in (R-CLI-8).

use jaco_types::ErrorCode;

macro_rules! pages {
    ($($code:literal,)*) => {
        /// The pages by code, sorted.
        const PAGES: &[(&str, &str)] = &[$((
            $code,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/", $code, ".md")),
        ),)*];
    };
}

pages! {
    "audit_chain_broken",
    "backup_invalid",
    "called_off",
    "cannot_place",
    "certificate_invalid",
    "cluster_already_initialized",
    "cluster_uninitialized",
    "content_in_use",
    "content_missing",
    "content_not_found",
    "csr_invalid",
    "deployment_not_found",
    "engine_error",
    "internal",
    "invalid_manifest",
    "invalid_request",
    "join_token_consumed",
    "join_token_expired",
    "join_token_invalid",
    "no_leader",
    "no_previous_revision",
    "node_already_member",
    "node_not_found",
    "node_not_removable",
    "overloaded",
    "permission_denied",
    "port_conflict",
    "quorum_lost",
    "replica_id_conflict",
    "replica_not_found",
    "replica_not_running",
    "replicas_exceed_pinned_hosts",
    "restart_exhausted",
    "restore_incomplete",
    "revision_not_found",
    "rolled_back",
    "rollout_paused",
    "service_not_found",
    "stale_plan",
    "still_disabled",
    "timed_out",
    "token_exists",
    "token_invalid",
    "token_not_found",
    "token_revoked",
    "too_large",
    "unauthenticated",
    "unavailable",
    "unknown_host",
    "would_not_survive",
}

/// The heading under which a page gives its advice.
const ADVICE: &str = "## What to do\n";

/// The page of a code, or nothing for what is no code.
#[must_use]
pub fn page(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == code).map(|(_, text)| *text)
}

/// The first paragraph of a page's advice, in one line.
#[must_use]
pub fn advice(code: ErrorCode) -> String {
    let text = page(code.as_str()).unwrap_or_default();
    let after = text.split_once(ADVICE).map(|(_, after)| after.trim_start()).unwrap_or_default();
    let paragraph = after.split("\n\n").next().unwrap_or_default();
    paragraph.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// R-CLI-8: every code has a page, every page has a code, and both are compiled in.
    #[test]
    fn codes_and_pages_match() {
        let codes: BTreeSet<String> =
            ErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
        let compiled: BTreeSet<String> = PAGES.iter().map(|(code, _)| (*code).to_owned()).collect();
        assert_eq!(codes, compiled);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
        let written: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().display().to_string())
            .filter(|name| name != "README")
            .collect();
        assert_eq!(codes, written);
    }

    /// R-CLI-8: a page names its code, says what happened, why, what to do and the exit code.
    #[test]
    fn pages_say_what_they_must() {
        for code in ErrorCode::ALL {
            let text = page(code.as_str()).unwrap();
            assert!(text.starts_with(&format!("# {code}\n\n")), "{code}");
            assert!(text.contains("\n## Why\n\n"), "{code}");
            assert!(text.contains("\n## What to do\n\n"), "{code}");
            let exit = format!("\nExit code: {}\n", code.exit_code() as u8);
            assert!(text.ends_with(&exit), "{code}");
            assert!((10..=30).contains(&text.lines().count()), "{code}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{code}");
            assert!(
                (10..=200).contains(&advice(*code).chars().count()),
                "{code}: {}",
                advice(*code)
            );
        }
    }
}
