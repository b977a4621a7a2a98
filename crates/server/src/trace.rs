//! W3C Trace Context (<https://www.w3.org/TR/trace-context/>): the trace id of a request.

use http::{HeaderMap, HeaderValue};

/// The trace id of the `traceparent` header, 32 hexadecimal digits. A header that is not as the specification
/// says is passed over, as the specification says.
pub(crate) fn id_of(headers: &HeaderMap) -> Option<String> {
    id_in(headers.get("traceparent")?).map(str::to_owned)
}

/// The same of the header's value.
pub(crate) fn id_in(header: &HeaderValue) -> Option<&str> {
    parse(header.to_str().ok()?)
}

fn parse(header: &str) -> Option<&str> {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    let mut parts = header.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
    let known = version != "ff" && (version != "00" || parts.next().is_none());
    (lengths
        && known
        && [version, trace, span, flags].into_iter().all(is_hex)
        && !is_zero(trace)
        && !is_zero(span))
    .then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_specification_says() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = format!("00-{id}-00f067aa0ba902b7-01");
        assert_eq!(parse(&good), Some(id));
        assert_eq!(parse(&format!("01-{id}-00f067aa0ba902b7-01-more")), Some(id));
        for bad in [
            String::new(),
            format!("{good}-more"),
            format!("ff-{id}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{id}-{}-01", "0".repeat(16)),
            format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase()),
            format!("00-{id}"),
        ] {
            assert_eq!(parse(&bad), None, "{bad}");
        }
    }
}
