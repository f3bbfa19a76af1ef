//! Names of projects and deployments.

/// Makes a name usable the way the official tool does: small letters, digits, `-`, `_`.
#[must_use]
pub fn normalise_name(text: &str) -> String {
    let kept: String = text
        .chars()
        .flat_map(char::to_lowercase)
        .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
        .collect();
    kept.trim_start_matches(['-', '_']).to_owned()
}
