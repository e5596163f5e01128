//! W3C trace context: a client's `traceparent`, and the one that a provider gets while traces are sent.
//!
//! Not who decides about a trace (`state::span_queue`). `tracestate` is forwarded unchanged.

use http::HeaderName;

pub static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A `traceparent` value (<https://www.w3.org/TR/trace-context/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

impl TraceParent {
    /// Reads a header value; `None` where the standard requires it to be ignored: wrong shape, upper-case hex, all-zero
    /// ids, version `ff`. Of an unknown version only the part that version 00 defines is read.
    pub fn parse(value: &str) -> Option<Self> {
        let bytes = value.trim_matches([' ', '\t']).as_bytes();
        let (base, rest) = bytes.split_at_checked(55)?;
        let version = hex::<1>(base.get(0..2)?)?;
        match version {
            [0xff] => return None,
            [0] if !rest.is_empty() => return None,
            _ if !rest.is_empty() && !rest.starts_with(b"-") => return None,
            _ => {}
        }
        if [2, 35, 52].iter().any(|&at| base.get(at) != Some(&b'-')) {
            return None;
        }
        let trace = hex::<16>(base.get(3..35)?)?;
        let span = hex::<8>(base.get(36..52)?)?;
        let [flags] = hex::<1>(base.get(53..55)?)?;
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags })
    }

    /// A span of a trace that is recorded. Neither is 0.
    pub fn recorded(trace: u128, span: u64) -> Self {
        Self { trace: trace.to_be_bytes(), span: span.to_be_bytes(), flags: 1 }
    }

    /// The value of the header.
    pub fn header(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace(), self.span(), self.flags)
    }

    pub fn trace(&self) -> u128 {
        u128::from_be_bytes(self.trace)
    }

    /// The client's span.
    pub fn span(&self) -> u64 {
        u64::from_be_bytes(self.span)
    }

    /// Whether the client records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// The trace id as 32 hex digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace())
    }
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

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn the_span_and_the_decision_of_the_client_are_read() {
        let parent = TraceParent::parse(GOOD).unwrap();
        assert_eq!((parent.span(), parent.is_sampled()), (0x00f0_67aa_0ba9_02b7, true));
        let unsampled = TraceParent::parse(&GOOD.replace("-01", "-00")).unwrap();
        assert!(!unsampled.is_sampled() && unsampled.trace() == parent.trace());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let own = TraceParent::recorded(0x4b, 0xf0);
        assert_eq!(own.header(), "00-0000000000000000000000000000004b-00000000000000f0-01");
        assert_eq!(TraceParent::parse(&own.header()), Some(own));
    }

    #[test]
    fn a_good_header_is_read() {
        for text in [GOOD.to_owned(), format!(" {GOOD}\t")] {
            assert_eq!(TraceParent::parse(&text).unwrap().trace_id(), TRACE, "{text}");
        }
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
    fn a_future_version_is_read_by_its_version_zero_part() {
        let future = format!("{}-what-comes", GOOD.replace("00-4", "cc-4"));
        assert_eq!(TraceParent::parse(&future).unwrap().trace_id(), TRACE);
    }
}
