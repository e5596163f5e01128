//! W3C trace context: the `traceparent` header, read, continued and written.
//!
//! Pure: whoever calls brings the randomness. `tracestate` is not read; it travels on as it came.

use std::fmt;

/// A `traceparent` value (<https://www.w3.org/TR/trace-context/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

/// The flag that says the caller records this trace.
const SAMPLED: u8 = 1;

impl TraceParent {
    /// Starts a trace. Ids of nothing but zeros are invalid by the standard: such a one ends in 1 here.
    pub fn new(trace: [u8; 16], span: [u8; 8], sampled: bool) -> Self {
        Self { trace: not_zero(trace), span: not_zero(span), flags: if sampled { SAMPLED } else { 0 } }
    }

    /// Reads a header value; `None` where the standard says to ignore it and start anew: wrong shape,
    /// upper-case hex, all-zero ids, version `ff`. A version we do not know is read by its known front.
    pub fn parse(value: &str) -> Option<Self> {
        let bytes = value.trim_matches([' ', '\t']).as_bytes();
        let (known, beyond) = bytes.split_at_checked(55)?;
        let version = hex::<1>(known.get(0..2)?)?;
        match version {
            [0xff] => return None,
            [0] if !beyond.is_empty() => return None,
            _ if !beyond.is_empty() && !beyond.starts_with(b"-") => return None,
            _ => {}
        }
        if [2, 35, 52].iter().any(|&at| known.get(at) != Some(&b'-')) {
            return None;
        }
        let trace = hex::<16>(known.get(3..35)?)?;
        let span = hex::<8>(known.get(36..52)?)?;
        let [flags] = hex::<1>(known.get(53..55)?)?;
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags: flags & SAMPLED })
    }

    /// The same trace, one span deeper: what goes to the provider. `span` is eight random bytes.
    #[must_use]
    pub fn child(self, span: [u8; 8]) -> Self {
        Self { span: not_zero(span), ..self }
    }

    /// The trace id as 32 hex digits, as logs want it.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace))
    }

    /// The span id as 16 hex digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.span))
    }

    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

fn not_zero<const N: usize>(mut id: [u8; N]) -> [u8; N] {
    if id.iter().all(|&byte| byte == 0)
        && let Some(last) = id.last_mut()
    {
        *last = 1;
    }
    id
}

fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_good_header_is_read_and_written_back() {
        let parsed = TraceParent::parse(GOOD).unwrap();
        assert_eq!(parsed.to_string(), GOOD);
        assert_eq!(parsed.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parsed.span_id(), "00f067aa0ba902b7");
        assert!(parsed.sampled());
        assert_eq!(TraceParent::parse(&format!(" {GOOD}\t")), Some(parsed));
    }

    #[test]
    fn a_child_keeps_the_trace_and_the_flag() {
        let child = TraceParent::parse(GOOD).unwrap().child([0xab; 8]);
        assert_eq!(child.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-abababababababab-01");
    }

    #[test]
    fn what_the_standard_refuses_is_refused() {
        let long = format!("{GOOD}-x");
        let glued = format!("{}x", GOOD.replace("00-4", "01-4"));
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-001",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473ü-00f067aa0ba902b7-1",
            "zz-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            &long,
            &glued,
        ] {
            assert_eq!(TraceParent::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_future_version_is_read_by_its_known_front() {
        let future = format!("{}-what-comes", GOOD.replace("00-4", "cc-4"));
        assert_eq!(TraceParent::parse(&future).unwrap().to_string(), GOOD);
    }

    #[test]
    fn new_ids_are_never_all_zero() {
        let made = TraceParent::new([0; 16], [0; 8], false);
        assert_eq!(TraceParent::parse(&made.to_string()), Some(made));
        assert!(!made.sampled());
    }
}
