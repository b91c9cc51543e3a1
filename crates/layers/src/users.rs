//! Lookup of users and groups in the system's databases.

#![allow(dead_code, reason = "which of the helpers are used depends on the features")]

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;

/// Returns the ID of a user, given as a number or by name.
pub(crate) fn user(text: &str) -> Option<u32> {
    id(text, |name, buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: `name` ends in NUL; `buffer` is writable for the length given; `entry` and `found` are written only
        // during the call. `entry` is initialised if `found` is not null, as getpwnam_r(3) says.
        unsafe {
            let error = libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            );
            (error, (!found.is_null()).then(|| (*entry.as_ptr()).pw_uid))
        }
    })
}

/// Returns the ID of a group, given as a number or by name.
pub(crate) fn group(text: &str) -> Option<u32> {
    id(text, |name, buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: as in `user`, with getgrnam_r(3).
        unsafe {
            let error = libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            );
            (error, (!found.is_null()).then(|| (*entry.as_ptr()).gr_gid))
        }
    })
}

/// Parses a number, or looks up a name with a buffer as large as the entry needs. The ID with all bits set means "none"
/// to the kernel and belongs to nobody.
fn id(text: &str, look_up: impl Fn(&CString, &mut [u8]) -> (i32, Option<u32>)) -> Option<u32> {
    const ROOM_MAX: usize = 1 << 20;
    if let Ok(number) = text.parse() {
        return (number != u32::MAX).then_some(number);
    }
    let name = CString::new(text).ok()?;
    let mut room = 1024;
    loop {
        match look_up(&name, &mut vec![0; room]) {
            (libc::ERANGE, _) if room < ROOM_MAX => room *= 4,
            (_, found) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_ids() {
        assert_eq!((user("0"), user("root"), group("root")), (Some(0), Some(0), Some(0)));
        assert_eq!((user("no such user"), user(""), user("4294967295"), group("a\0b")), (None, None, None, None));
    }
}
