//! The headers that every answer of the page has.

/// What a browser may do with the page: load its own script and style, ask this node, and nothing else.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// All of them but the kind of the content and how long it may be kept.
///
/// The referrer is kept for this origin: with `no-referrer` browsers send no origin with a form, which the login needs.
pub const ALWAYS: [(&str, &str); 7] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("x-frame-options", "DENY"),
];

/// How long what is about the cluster may be kept: not at all.
pub const NOT_KEPT: &str = "no-store";

/// How long an asset may be kept: its link changes with its content.
pub const KEPT: &str = "public, max-age=31536000, immutable";
