//! The one error type of the vnode interface: an error number as in errno(3).

use std::fmt;
use std::io;

/// An error number of Linux, as in errno(3). The only error that crosses the vnode interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

/// Result of every vnode operation.
pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// Returns the error with the number `number`, positive as the kernel defines it. Numbers that are invalid on Linux
    /// become EIO.
    pub const fn new(number: i32) -> Self {
        if number > 0 && number < 4096 { Self(number) } else { Self::EIO }
    }

    /// Returns the positive error number.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Returns the symbolic name, such as `ENOENT`; `None` for numbers not listed here.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }
}

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`, see errno(3).")] pub const $name: Errno = Errno(libc::$name);)*
        }
        const NAMES: &[(i32, &str)] = &[$((libc::$name, stringify!($name))),*];
    };
}

errnos! {
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR
    EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE ERANGE EDEADLK ENAMETOOLONG ENOLCK
    ENOSYS ENOTEMPTY ELOOP ENODATA EOVERFLOW EILSEQ EOPNOTSUPP ETIMEDOUT ECONNREFUSED ESTALE EDQUOT EINPROGRESS ECANCELED
    EBADMSG EPROTO EUCLEAN ENOTUNIQ ENOTCONN
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::new(number),
            None => match error.kind() {
                io::ErrorKind::NotFound => Self::ENOENT,
                io::ErrorKind::PermissionDenied => Self::EACCES,
                io::ErrorKind::AlreadyExists => Self::EEXIST,
                io::ErrorKind::Interrupted => Self::EINTR,
                io::ErrorKind::OutOfMemory => Self::ENOMEM,
                io::ErrorKind::InvalidInput => Self::EINVAL,
                _ => Self::EIO,
            },
        }
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        io::Error::from_raw_os_error(errno.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "errno {}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&io::Error::from_raw_os_error(self.0), formatter)
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_linux_cannot_have_become_an_input_output_error() {
        assert_eq!(Errno::new(0), Errno::EIO);
        assert_eq!(Errno::new(-2), Errno::EIO);
        assert_eq!(Errno::new(2), Errno::ENOENT);
        assert_eq!(Errno::ENOENT.name(), Some("ENOENT"));
    }
}
