//! A language server for FiST: diagnostics while typing, hover help, completion, formatting and a document outline.

mod completion;
mod diagnostics;
mod document;
mod hover;
mod outline;
mod positions;
mod server;
mod symbols;

pub use server::serve_on;

/// The reason why the server ended before it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The editor violated the protocol, or disconnected without a shutdown request.
    Protocol(String),
    /// Standard input or output failed.
    Stream(std::io::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Protocol(what) => formatter.write_str(what),
            Failure::Stream(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for Failure {}

/// Serves the editor on standard input and output, until it shuts the server down.
pub fn serve() -> Result<(), Failure> {
    let (connection, threads) = lsp_server::Connection::stdio();
    let served = serve_on(&connection);
    // The threads end when the last sender is dropped.
    drop(connection);
    served?;
    threads.join().map_err(Failure::Stream)
}
