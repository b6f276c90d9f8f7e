//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Returns the digits of bytes, such as a digest's, in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
