//! The text form of certificates and requests (RFC 7468).

/// One block of PEM with this label.
pub(crate) fn block(label: &str, der: &[u8]) -> String {
    let body = data_encoding::BASE64.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        out.extend(line.iter().map(|&byte| char::from(byte)));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
