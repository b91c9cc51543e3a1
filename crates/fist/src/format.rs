//! Message formats: the subset of the printf(3) conversions that FiST programs need.

/// A conversion in a format: `%-10s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Its start in the format, including the `%`.
    pub start: usize,
    /// Its end.
    pub end: usize,
    /// `d`, `u`, `x`, `X`, `o`, `c`, `s`; `i` is `d`.
    pub kind: u8,
    /// Padded with zeros rather than spaces.
    pub has_zeros: bool,
    /// Left-justified.
    pub is_left: bool,
    /// Minimum number of characters.
    pub width: usize,
    /// Maximum number of bytes of a string.
    pub precision: Option<usize>,
}

impl Conversion {
    /// Returns whether the conversion takes a string.
    pub fn is_text(&self) -> bool {
        self.kind == b's'
    }
}

/// Maximum field width: a larger one is an error.
const MAX_FIELD_WIDTH: usize = 4096;

/// Parses the conversions of a format, or returns an error message.
pub fn conversions(format: &[u8]) -> Result<Vec<Conversion>, String> {
    let mut conversions = Vec::new();
    let mut at = 0;
    while let Some(next) = format[at..].iter().position(|byte| *byte == b'%') {
        let start = at + next;
        at = start + 1;
        if format.get(at) == Some(&b'%') {
            at += 1;
            continue;
        }
        let conversion = conversion(format, start)?;
        at = conversion.end;
        conversions.push(conversion);
    }
    Ok(conversions)
}

fn conversion(format: &[u8], start: usize) -> Result<Conversion, String> {
    let mut at = start + 1;
    let (mut has_zeros, mut is_left) = (false, false);
    while let Some(flag @ (b'-' | b'0' | b' ' | b'+' | b'#')) = format.get(at) {
        is_left |= *flag == b'-';
        has_zeros |= *flag == b'0';
        at += 1;
    }
    let width = number(format, &mut at)?.unwrap_or(0);
    let mut precision = None;
    if format.get(at) == Some(&b'.') {
        at += 1;
        precision = Some(number(format, &mut at)?.unwrap_or(0));
    }
    while let Some(b'l' | b'h' | b'z' | b'j' | b'q') = format.get(at) {
        at += 1;
    }
    match format.get(at) {
        Some(kind @ (b'd' | b'u' | b'x' | b'X' | b'o' | b'c' | b's' | b'i')) => {
            let kind = if *kind == b'i' { b'd' } else { *kind };
            Ok(Conversion { start, end: at + 1, kind, has_zeros, is_left, width, precision })
        }
        Some(other) => {
            Err(format!("there is no conversion `%{}`: there are d, i, u, x, X, o, c and s", char::from(*other)))
        }
        None => Err("the format ends within a conversion: write `%%` for a percent sign".to_owned()),
    }
}

fn number(format: &[u8], at: &mut usize) -> Result<Option<usize>, String> {
    let start = *at;
    let mut value = 0_usize;
    while let Some(digit @ b'0'..=b'9') = format.get(*at) {
        value = value * 10 + usize::from(digit - b'0');
        if value > MAX_FIELD_WIDTH {
            return Err(format!("a field is at most {MAX_FIELD_WIDTH} characters wide"));
        }
        *at += 1;
    }
    Ok((*at > start).then_some(value))
}

/// Maximum length of a message in bytes, excluding its strings.
pub(crate) fn width(format: &[u8]) -> usize {
    let conversions = conversions(format).unwrap_or_default();
    format.len() + conversions.iter().map(|conversion| conversion.width.max(24)).sum::<usize>()
}

/// The value of a conversion.
pub enum Value<'a> {
    /// An integer, and the size of its type in bytes.
    Integer(i64, u8),
    /// A string, as far as it is known to be one.
    Text(&'a [u8]),
}

/// Formats a message: replaces each conversion. A missing value prints as nothing.
pub fn print(format: &[u8], values: &[Value<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut at = 0;
    let plain = |from: usize, to: usize, message: &mut Vec<u8>| {
        let mut bytes = format[from..to].iter().peekable();
        while let Some(byte) = bytes.next() {
            message.push(*byte);
            if *byte == b'%' {
                bytes.next_if(|next| **next == b'%');
            }
        }
    };
    for (conversion, value) in conversions(format).unwrap_or_default().iter().zip(values) {
        plain(at, conversion.start, &mut message);
        converted(conversion, value, &mut message);
        at = conversion.end;
    }
    plain(at, format.len(), &mut message);
    message
}

fn converted(conversion: &Conversion, value: &Value<'_>, message: &mut Vec<u8>) {
    let text = match (value, conversion.kind) {
        (Value::Text(text), _) => text[..text.len().min(conversion.precision.unwrap_or(usize::MAX))].to_vec(),
        (Value::Integer(value, _), b'c') => vec![*value as u8],
        (Value::Integer(value, _), b'd') => value.to_string().into_bytes(),
        (Value::Integer(value, bytes), kind) => {
            let value = *value as u64 & u64::MAX >> (64 - 8 * u32::from(*bytes).clamp(4, 8));
            match kind {
                b'x' => format!("{value:x}").into_bytes(),
                b'X' => format!("{value:X}").into_bytes(),
                b'o' => format!("{value:o}").into_bytes(),
                _ => value.to_string().into_bytes(),
            }
        }
    };
    let missing = conversion.width.saturating_sub(text.len());
    if conversion.is_left {
        message.extend_from_slice(&text);
        message.extend(std::iter::repeat_n(b' ', missing));
    } else if conversion.has_zeros && !conversion.is_text() {
        let (sign, digits) = text.split_at(usize::from(text.first() == Some(&b'-')));
        message.extend_from_slice(sign);
        message.extend(std::iter::repeat_n(b'0', missing));
        message.extend_from_slice(digits);
    } else {
        message.extend(std::iter::repeat_n(b' ', missing));
        message.extend_from_slice(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_printf() {
        let values = [Value::Integer(-7, 4), Value::Text(b"name"), Value::Integer(255, 4), Value::Integer(-5, 8)];
        assert_eq!(print(b"%d|%-6s|%04x|%05ld|100%%", &values), b"-7|name  |00ff|-0005|100%");
        assert_eq!(print(b"%.2s", &[Value::Text(b"name")]), b"na");
        let minus_one = [Value::Integer(-1, 4), Value::Integer(-1, 8)];
        assert_eq!(print(b"%x %u", &minus_one), b"ffffffff 18446744073709551615");
        assert!(conversions(b"%").is_err() && conversions(b"%n").is_err() && conversions(b"%99999d").is_err());
    }
}
