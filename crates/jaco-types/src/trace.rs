//! The place of a piece of work in a trace, as W3C Trace Context writes it.

use std::fmt;

/// Which trace a piece of work belongs to, and which span of it is its parent. It is written and read as the header
/// `traceparent` of W3C Trace Context.
///
/// Neither id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    sampled: Sampled,
}

/// Whether the spans of a trace are recorded. Whoever begins a trace decides that for all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sampled {
    /// They are not.
    #[default]
    No,
    /// They are.
    Yes,
}

impl TraceContext {
    /// How many bytes [`Self::to_bytes`] gives.
    pub const BYTES: usize = 25;

    /// The place of what the span with this id causes; none if an id is zero.
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], sampled: Sampled) -> Option<Self> {
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, sampled })
    }

    /// The id of the trace.
    #[must_use]
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The id of the parent.
    #[must_use]
    pub const fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Whether its spans are recorded.
    #[must_use]
    pub const fn sampled(&self) -> Sampled {
        self.sampled
    }

    /// The same trace with another parent; none if its id is zero.
    #[must_use]
    pub fn with_parent(&self, span_id: [u8; 8]) -> Option<Self> {
        Self::new(self.trace_id, span_id, self.sampled)
    }

    /// The id of the trace, the id of the parent, and the flags.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.trace_id);
        bytes[16..24].copy_from_slice(&self.span_id);
        bytes[24] = self.flags();
        bytes
    }

    /// What [`Self::to_bytes`] gave; none for anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (trace_id, rest) = bytes.split_first_chunk()?;
        let (span_id, rest) = rest.split_first_chunk()?;
        let sampled = match rest {
            [0] => Sampled::No,
            [1] => Sampled::Yes,
            _ => return None,
        };
        Self::new(*trace_id, *span_id, sampled)
    }

    /// The value of a header `traceparent`; none if it is not valid. Of a later version, what this one has is taken.
    #[must_use]
    pub fn parse(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let [version] = hex(parts.next()?)?;
        let (trace_id, span_id) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex(parts.next()?)?;
        let is_whole = version > 0 || parts.next().is_none();
        if version == 0xff || !is_whole {
            return None;
        }
        let sampled = if flags & 1 == 1 { Sampled::Yes } else { Sampled::No };
        Self::new(trace_id, span_id, sampled)
    }

    const fn flags(&self) -> u8 {
        match self.sampled {
            Sampled::No => 0,
            Sampled::Yes => 1,
        }
    }
}

/// As the header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.span_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", self.flags())
    }
}

/// Exactly so many bytes in lower-case hex.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// R-OPS-1: a context is read as W3C Trace Context writes it, and written the same.
    #[test]
    fn a_context_is_the_header_of_the_standard() {
        let context = TraceContext::parse(TEXT).unwrap();
        assert_eq!(context.sampled(), Sampled::Yes);
        assert_eq!(context.trace_id()[..2], [0x4b, 0xf9]);
        assert_eq!(context.to_string(), TEXT);
        assert_eq!(TraceContext::from_bytes(&context.to_bytes()), Some(context));
        let quiet = TraceContext::parse(&TEXT.replace("-01", "-00")).unwrap();
        assert_eq!(quiet.sampled(), Sampled::No);
        // Flags of the future are not kept; nor is what a later version adds.
        let later =
            TraceContext::parse(&format!("cc{}-what-is-new", &TEXT[2..].replace("-01", "-03")));
        assert_eq!(later, Some(context));
    }

    /// R-OPS-1: what is not valid by the standard begins no trace.
    #[test]
    fn an_invalid_header_is_no_context() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let upper = TEXT.to_uppercase();
        let (short, long) = (&TEXT[..TEXT.len() - 1], format!("{TEXT}-more"));
        let forbidden = format!("ff{}", &TEXT[2..]);
        for text in
            ["", "00", "traceparent", &zero_trace, &zero_span, &upper, short, &long, &forbidden]
        {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
        let bytes = TraceContext::parse(TEXT).unwrap().to_bytes();
        assert_eq!(TraceContext::from_bytes(&bytes[..24]), None);
        assert_eq!(TraceContext::from_bytes(&[&bytes[..24], &[2]].concat()), None);
        assert_eq!(TraceContext::from_bytes(&[0; TraceContext::BYTES]), None);
    }
}
