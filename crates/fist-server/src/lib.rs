//! A language server for descriptions in FiST.

/// Serves.
pub fn serve() -> Result<(), String> {
    Ok(())
}
