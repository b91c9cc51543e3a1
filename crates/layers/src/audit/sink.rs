//! Destinations of the lines of `audit`: a file, standard error, or the system log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use jiff::Zoned;

/// Socket of the system log.
pub(crate) const SYSLOG_SOCKET: &str = "/dev/log";

/// Facility authpriv, severity notice, as in RFC 3164.
const SYSLOG_PRIORITY: u32 = 10 * 8 + 5;

/// Destination of lines.
#[derive(Debug)]
pub(crate) enum Sink {
    File {
        file: File,
        /// Whether the last write left a line incomplete: that line is ended before the next.
        torn: bool,
    },
    StandardError,
    Syslog {
        socket: UnixDatagram,
        path: PathBuf,
    },
}

impl Sink {
    /// Opens a file to which lines are appended; a new file is readable only by its owner. A FIFO without a reader is
    /// refused, rather than waited for.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(nonblocking).open(path)?;
        Ok(Self::File { file, torn: false })
    }

    /// Connects to the system log at this socket.
    pub(crate) fn syslog(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self::Syslog { socket, path: path.to_owned() })
    }

    /// Writes one line.
    pub(crate) fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            Self::File { file, torn } => {
                let text = format!("{}{line}\n", if *torn { "\n" } else { "" });
                // One write call per line, so that lines from several writers to one file do not mix.
                let written = file.write(text.as_bytes())?;
                *torn = written < text.len();
                if *torn { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
            }
            Self::StandardError => writeln!(io::stderr().lock(), "{line}"),
            Self::Syslog { socket, path } => {
                let time = Zoned::now().strftime("%b %e %H:%M:%S").to_string();
                let message = format!("<{SYSLOG_PRIORITY}>{time} plyfs-audit[{}]: {line}", std::process::id());
                match socket.send(message.as_bytes()) {
                    Ok(_) => Ok(()),
                    // The logger was restarted.
                    Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                        socket.connect(path)?;
                        socket.send(message.as_bytes()).map(drop)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syslog_gets_one_datagram_per_line_even_after_its_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let logger = UnixDatagram::bind(&path).unwrap();
        let mut sink = Sink::syslog(&path).unwrap();
        let mut received = [0; 200];
        sink.write("{}").unwrap();
        let length = logger.recv(&mut received).unwrap();
        let message = String::from_utf8_lossy(&received[..length]).into_owned();
        assert!(
            message.starts_with("<85>") && message.ends_with(&format!(" plyfs-audit[{}]: {{}}", std::process::id()))
        );
        assert_eq!(message.as_bytes()[4 + 3], b' ');

        drop(logger);
        std::fs::remove_file(&path).unwrap();
        assert!(sink.write("{}").is_err());
        let logger = UnixDatagram::bind(&path).unwrap();
        sink.write("{}").unwrap();
        assert!(logger.recv(&mut received).unwrap() > 0);
    }

    #[test]
    fn a_file_is_private_and_appended_to() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        Sink::file(&path).unwrap().write("one").unwrap();
        Sink::file(&path).unwrap().write("two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Sink::file(directory.path()).is_err());
    }
}
