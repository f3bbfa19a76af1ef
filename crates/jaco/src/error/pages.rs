//! The documentation page of each error code, compiled in (R-CLI-8).

use jaco_compose::Code;
use jaco_types::ErrorCode;

macro_rules! pages {
    ($($code:literal,)*) => {
        /// The pages, sorted by code.
        const PAGES: &[(&str, &str)] = &[$((
            $code,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/", $code, ".md")),
        ),)*];
    };
}

pages! {
    "audit_chain_broken",
    "backup_invalid",
    "build_unsupported",
    "called_off",
    "cannot_place",
    "certificate_in_use",
    "certificate_invalid",
    "certificate_not_found",
    "certificate_unusable",
    "cluster_already_initialized",
    "cluster_uninitialized",
    "conflict",
    "content_in_use",
    "content_missing",
    "content_not_found",
    "csr_invalid",
    "deployment_not_found",
    "disk_full",
    "duplicate_key",
    "duplicate_value",
    "empty_document",
    "engine_error",
    "extends_cycle",
    "file_forbidden",
    "file_not_found",
    "honoured_differently",
    "image_in_use",
    "image_not_found",
    "image_not_held",
    "image_store_full",
    "include_cycle",
    "index_not_kept",
    "internal",
    "invalid_alias",
    "invalid_depends_on",
    "invalid_env_file",
    "invalid_interpolation",
    "invalid_key",
    "invalid_manifest",
    "invalid_name",
    "invalid_request",
    "invalid_value",
    "join_token_consumed",
    "join_token_expired",
    "join_token_invalid",
    "kek_mismatch",
    "legacy_compose_field",
    "members_outdated",
    "missing_image",
    "missing_key",
    "missing_variable",
    "network_exists",
    "network_in_use",
    "network_not_found",
    "network_pool_exhausted",
    "networks_not_enabled",
    "no_effect",
    "no_leader",
    "no_previous_revision",
    "node_already_member",
    "node_not_found",
    "node_not_removable",
    "not_caught_up",
    "not_text",
    "overloaded",
    "path_not_found",
    "permission_denied",
    "policy_refused",
    "port_conflict",
    "port_unreachable",
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
    "rotation_held",
    "route_conflict",
    "route_multiple_catchall",
    "route_tls_mixed",
    "service_not_found",
    "stale_plan",
    "still_disabled",
    "timed_out",
    "token_exists",
    "token_expired",
    "token_invalid",
    "token_not_found",
    "token_revoked",
    "too_deep",
    "too_large",
    "unauthenticated",
    "unavailable",
    "unknown_config",
    "unknown_depends_on_service",
    "unknown_host",
    "unknown_key",
    "unknown_model",
    "unknown_network",
    "unknown_secret",
    "unknown_service",
    "unknown_volume",
    "unset_variable",
    "unsupported",
    "unsupported_resource_configuration",
    "validation_failed",
    "volume_exists",
    "volume_in_use",
    "volume_not_found",
    "would_not_survive",
    "wrong_type",
    "yaml_syntax",
}

/// The heading of the advice on a page.
const ADVICE: &str = "## What to do\n";

/// The page of a code; `None` if there is no such code.
#[must_use]
pub(crate) fn page(code: &str) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == code).map(|(_, text)| *text)
}

/// Every code that a user can see: those of requests, then those of manifests only.
pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    let requests = ErrorCode::ALL.iter().map(|code| code.as_str());
    let manifests = Code::ALL.iter().map(|code| code.as_str());
    let only = manifests.filter(|code| !ErrorCode::ALL.iter().any(|known| known.as_str() == *code));
    requests.chain(only)
}

/// The exit code that a page names; a problem that is only a warning has 0.
pub(crate) fn exit_code(code: &str) -> u8 {
    let line = page(code).and_then(|text| text.trim_end().rsplit_once("Exit code: "));
    line.and_then(|(_, number)| number.parse().ok()).expect("every page ends with its exit code")
}

/// The first paragraph of a page's advice as one line.
#[must_use]
pub(crate) fn advice(code: &str) -> String {
    let text = page(code).unwrap_or_default();
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
    fn every_code_has_a_page_and_every_page_a_code() {
        let codes: BTreeSet<String> = codes().map(str::to_owned).collect();
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
    fn pages_have_all_sections_and_the_exit_code() {
        for code in codes() {
            let text = page(code).unwrap();
            assert!(text.starts_with(&format!("# {code}\n\n")), "{code}");
            assert!(text.contains("\n## Why\n\n"), "{code}");
            assert!(text.contains("\n## What to do\n\n"), "{code}");
            let known = ErrorCode::ALL.iter().find(|known| known.as_str() == code);
            match known {
                Some(known) => assert_eq!(exit_code(code), known.exit_code() as u8, "{code}"),
                None => assert!([0, 3].contains(&exit_code(code)), "{code}"),
            }
            assert!((10..=30).contains(&text.lines().count()), "{code}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{code}");
            assert!((10..=200).contains(&advice(code).chars().count()), "{code}: {}", advice(code));
        }
    }
}
