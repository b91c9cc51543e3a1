//! A language server for descriptions in FiST: errors while typing, help on words, completion, layout and an outline.

mod completion;
mod diagnostics;
mod document;
mod hover;
mod outline;
mod positions;
mod server;
mod symbols;

pub use server::serve_on;

/// Why the server ended before it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The editor does not speak the protocol, or has gone without a word.
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

/// Serves the editor that is on standard input and output, until it says that it is done.
pub fn serve() -> Result<(), Failure> {
    let (connection, threads) = lsp_server::Connection::stdio();
    let served = serve_on(&connection);
    // The threads end when nothing can be sent any more.
    drop(connection);
    served?;
    threads.join().map_err(Failure::Stream)
}
