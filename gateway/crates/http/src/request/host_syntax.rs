//! The syntax of `Host` (RFC 9110, 7.2): a name or an address, and at most a port.

use core::net::Ipv6Addr;

/// The bytes of a registered name (RFC 3986, 3.2.2). Percent-encoding is none of them: names of the DNS have no byte
/// that needs it.
const NAME_BYTES: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 128 {
        table[byte] = matches!(
            byte as u8,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$'
                | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        );
        byte += 1;
    }
    table
};

/// Returns the text of a `Host`, which may be empty; `None` if it is malformed.
#[inline]
pub(super) fn parse(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|byte| !is_name_byte(*byte));
    let is_valid = match end.map(|end| value.split_at(end)) {
        None => true,
        Some(([], [b'[', rest @ ..])) => is_address(rest),
        Some((name, rest)) => !name.is_empty() && is_port(rest),
    };
    // Valid ones are ASCII.
    is_valid.then(|| str::from_utf8(value).ok()).flatten()
}

fn is_name_byte(byte: u8) -> bool {
    NAME_BYTES[usize::from(byte)]
}

/// Returns whether this is an address of IPv6 without its `[`, and at most a port. Its zone means nothing here, and some
/// clients send it.
fn is_address(rest: &[u8]) -> bool {
    let rest = str::from_utf8(rest).ok();
    let Some((address, port)) = rest.and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let (address, zone) = match address.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (address, None),
    };
    let is_zone = |zone: &str| !zone.is_empty() && zone.bytes().all(is_name_byte);
    address.parse::<Ipv6Addr>().is_ok()
        && zone.is_none_or(is_zone)
        && (port.is_empty() || is_port(port.as_bytes()))
}

/// Returns whether this is a colon and a port, which may be empty (RFC 3986, 3.2.3).
fn is_port(rest: &[u8]) -> bool {
    match rest {
        [b':'] => true,
        [b':', digits @ ..] => {
            let number = digits.iter().try_fold(0_u16, |number, digit| {
                let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
                number.checked_mul(10)?.checked_add(digit.into())
            });
            number.is_some()
        }
        _ => false,
    }
}
