//! Remedies for a shortage of system resources.

use std::io;

/// Returns the remedy for this error as the end of a message: "; …". Empty if the error is not a shortage.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "; raise the limit of open files (ulimit -n), or close some",
        Some(libc::ENFILE) => {
            "; the whole machine has too many open files: raise fs.file-max with sysctl(8), or close some"
        }
        Some(libc::EAGAIN) => "; raise the limit of processes (ulimit -u) or of the control group (pids.max)",
        Some(libc::ENOMEM) => "; raise the limit of memory (ulimit -v, or of the control group), or end other programs",
        Some(libc::ENOSPC | libc::EDQUOT) => "; make room where it is kept",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_have_a_remedy_and_other_errors_none() {
        for errno in [libc::EMFILE, libc::ENFILE, libc::EAGAIN, libc::ENOMEM, libc::ENOSPC, libc::EDQUOT] {
            assert!(remedy(&io::Error::from_raw_os_error(errno)).starts_with("; "), "{errno}");
        }
        assert_eq!(remedy(&io::Error::from_raw_os_error(libc::EIO)), "");
        assert_eq!(remedy(&io::Error::other("something")), "");
    }
}
