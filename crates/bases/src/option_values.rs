//! The values of options of several bases.

/// Returns a number of decimal digits, which may have one of the suffixes k, m, g and t (powers of 1,024); `None` if it is none, or
/// too large.
pub(crate) fn scaled(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let suffix = ["k", "m", "g", "t"].iter().position(|suffix| lower.ends_with(suffix));
    let (digits, shift) = match suffix {
        Some(index) => (&lower[..lower.len() - 1], 10 * (index + 1)),
        None => (&lower[..], 0),
    };
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(1 << shift)
}

/// Returns the bits of a mode in octal digits, up to 7777.
pub(crate) fn mode(text: &str) -> Option<u32> {
    let octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    octal.then(|| u32::from_str_radix(text, 8).ok())?.filter(|&mode| mode <= 0o7777)
}
