//! Why the server ended before it was asked to.

use std::error::Error;
use std::{fmt, io};

/// The reason why the server ended before it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The editor violated the protocol, or disconnected without a shutdown request.
    Protocol(String),
    /// Standard input or output failed.
    Stream(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Protocol(what) => formatter.write_str(what),
            Failure::Stream(error) => error.fmt(formatter),
        }
    }
}

impl Error for Failure {}
