//! Why options do not describe an overlay.

use std::fmt;

/// Options that do not describe an overlay, or that are not supported; shows what is wrong and the remedy.
#[derive(Debug)]
pub struct OverlayError {
    pub(crate) message: String,
}

impl fmt::Display for OverlayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for OverlayError {}
