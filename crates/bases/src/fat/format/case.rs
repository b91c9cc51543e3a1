//! Comparison of names regardless of case, as Windows does: one code unit at a time.

/// Returns the upper case of a UTF-16 code unit. Characters whose upper case has several characters, is not in the basic
/// multilingual plane, or is in ASCII although they are not, have none; nor has the micro sign, as in Windows.
pub fn upcase(unit: u16) -> u16 {
    match char::from_u32(unit.into()) {
        Some(character) => u16::try_from(u32::from(upcase_character(character))).unwrap_or(unit),
        None => unit,
    }
}

/// Returns the upper case of a character, by the rules of [`upcase`].
pub fn upcase_character(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_uppercase();
    }
    let is_basic = |character: char| u32::from(character) <= 0xFFFF;
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if is_basic(character) && is_basic(upper) && !upper.is_ascii() && character != 'µ' => {
            upper
        }
        _ => character,
    }
}

/// Returns the upper case of a name: two names are the same if this is equal.
pub fn upcased(units: &[u16]) -> Vec<u16> {
    units.iter().map(|&unit| upcase(unit)).collect()
}

/// Returns whether two names are the same regardless of case.
pub fn names_equal(left: &[u16], right: &[u16]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(&left, &right)| upcase(left) == upcase(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn names_differ_in_more_than_case() {
        let equal = |left, right| names_equal(&units(left), &units(right));
        assert!(equal("ReadMe.TXT", "rEADmE.txt"));
        assert!(equal("éÉж", "ÉéЖ"));
        assert!(!equal("a", "ab") && !equal("a", "b"));
        // No character outside of ASCII equals one in it, and none equals two.
        assert!(!equal("ı", "I") && !equal("ſ", "S") && !equal("ß", "SS"));
        assert!(!equal("µ", "Μ"));
        assert!(names_equal(&[0xD800, 0x61], &[0xD800, 0x41]));
        assert!(!names_equal(&[0xD800], &[0xD801]));
    }

    #[test]
    fn upper_case_has_no_other_upper_case() {
        for unit in 0..=u16::MAX {
            assert_eq!(upcase(upcase(unit)), upcase(unit), "{unit:#x}");
        }
    }
}
