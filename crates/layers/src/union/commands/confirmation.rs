//! Confirmation of commands that cannot be undone.

use crate::command::{CommandHost, Exit, Failure, Outcome};

/// Asks on the terminal whether to do something, unless `is_confirmed`. Without a terminal nobody can be asked, and the command line counts
/// as the confirmation.
///
/// # Errors
/// Fails if the answer is not yes.
pub(crate) fn confirm(host: &dyn CommandHost, question: &str, is_confirmed: bool) -> Outcome {
    if is_confirmed || !host.can_ask() {
        return Ok(());
    }
    let answer = host.ask(&format!("plyfs: {question} [y/N] ")).unwrap_or_default();
    match answer.to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => {
            let message =
                "not confirmed, so that nothing was changed; answer y, or add --yes to go on without a question";
            Err(Failure::new(Exit::Failure, message))
        }
    }
}
