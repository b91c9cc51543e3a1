//! A language server for FiST: diagnostics while typing, hover help, completion, formatting and a document outline.

mod completion;
mod diagnostics;
mod document;
mod failure;
mod hover;
mod outline;
mod positions;
mod server;
mod symbols;

pub use failure::Failure;
pub use server::serve_on;

/// Serves the editor on standard input and output, until it shuts the server down.
pub fn serve() -> Result<(), Failure> {
    let (connection, threads) = lsp_server::Connection::stdio();
    let served = serve_on(&connection);
    // The threads end when the last sender is dropped.
    drop(connection);
    served?;
    threads.join().map_err(Failure::Stream)
}
