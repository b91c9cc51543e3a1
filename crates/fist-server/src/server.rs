//! The server: receives the editor's messages, and responds to them.

use std::collections::HashMap;

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, Exit, Notification as _, PublishDiagnostics,
};
use lsp_types::request::{Completion, DocumentSymbolRequest, Formatting, HoverRequest, Request as LspRequest};
use lsp_types::{
    CompletionItem, CompletionOptions, CompletionResponse, CompletionTextEdit, Diagnostic, Documentation, Hover,
    HoverContents, HoverProviderCapability, InitializeParams, InitializeResult, MarkupContent, MarkupKind, OneOf,
    PublishDiagnosticsParams, ServerCapabilities, ServerInfo, TextDocumentPositionParams, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextEdit, Uri,
};

use crate::document::Document;
use crate::positions::Encoding;
use crate::{Failure, completion, diagnostics, hover, outline};

/// Serves the editor at the other end, until it shuts the server down.
pub fn serve_on(connection: &Connection) -> Result<(), Failure> {
    let protocol = |error: lsp_server::ProtocolError| Failure::Protocol(error.to_string());
    let (id, parameters) = connection.initialize_start().map_err(protocol)?;
    let parameters: InitializeParams = serde_json::from_value(parameters)
        .map_err(|error| Failure::Protocol(format!("what the editor begins with is not of the protocol: {error}")))?;
    let general = parameters.capabilities.general;
    let encoding = Encoding::of(general.and_then(|general| general.position_encodings).as_deref());
    let result = serde_json::to_value(capabilities(encoding)).map_err(|error| Failure::Protocol(error.to_string()))?;
    connection.initialize_finish(id, result).map_err(protocol)?;
    let mut server = Server { connection, encoding, documents: HashMap::new() };
    for message in &connection.receiver {
        match message {
            Message::Request(request) => {
                if connection.handle_shutdown(&request).map_err(protocol)? {
                    return Ok(());
                }
                let response = server.dispatch(request);
                server.send(response.into())?;
            }
            Message::Notification(notification) if notification.method == Exit::METHOD => break,
            Message::Notification(notification) => server.handle_notification(notification)?,
            Message::Response(_) => {}
        }
    }
    Err(Failure::Protocol("the editor has gone without a shutdown".to_owned()))
}

/// Returns the server's capabilities.
fn capabilities(encoding: Encoding) -> InitializeResult {
    let characters = ["%", "$", ":", "."].map(str::to_owned).to_vec();
    let completion = CompletionOptions { trigger_characters: Some(characters), ..CompletionOptions::default() };
    InitializeResult {
        capabilities: ServerCapabilities {
            position_encoding: Some(encoding.kind()),
            text_document_sync: Some(TextDocumentSyncCapability::Kind(TextDocumentSyncKind::FULL)),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            completion_provider: Some(completion),
            document_formatting_provider: Some(OneOf::Left(true)),
            document_symbol_provider: Some(OneOf::Left(true)),
            ..ServerCapabilities::default()
        },
        server_info: Some(ServerInfo {
            name: "plyfs fist lsp".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
    }
}

struct Server<'a> {
    connection: &'a Connection,
    encoding: Encoding,
    /// The documents open in the editor, by URI.
    documents: HashMap<String, Document>,
}

/// The result of a request; `None` if its document is not open.
type RequestResult<T> = Option<T>;

impl Server<'_> {
    fn send(&self, message: Message) -> Result<(), Failure> {
        self.connection.sender.send(message).map_err(|_| Failure::Protocol("the editor has gone".to_owned()))
    }

    fn dispatch(&self, request: Request) -> Response {
        match request.method.as_str() {
            HoverRequest::METHOD => self.reply::<HoverRequest>(request, |request_parameters| {
                self.hover(&request_parameters.text_document_position_params)
            }),
            Completion::METHOD => self.reply::<Completion>(request, |request_parameters| {
                self.completion(&request_parameters.text_document_position)
            }),
            Formatting::METHOD => self.reply::<Formatting>(request, |request_parameters| {
                self.formatting(&request_parameters.text_document.uri)
            }),
            DocumentSymbolRequest::METHOD => self.reply::<DocumentSymbolRequest>(request, |request_parameters| {
                let document = self.documents.get(request_parameters.text_document.uri.as_str())?;
                Some(outline::of(document, self.encoding).into())
            }),
            other => {
                let what = format!("there is no `{other}` here");
                Response::new_err(request.id, ErrorCode::MethodNotFound as i32, what)
            }
        }
    }

    /// Responds to a request of type `R`.
    fn reply<R: LspRequest>(&self, request: Request, handler: impl FnOnce(R::Params) -> R::Result) -> Response {
        match serde_json::from_value(request.params) {
            Ok(parameters) => Response::new_ok(request.id, handler(parameters)),
            Err(error) => Response::new_err(request.id, ErrorCode::InvalidParams as i32, error.to_string()),
        }
    }

    fn handle_notification(&mut self, notification: Notification) -> Result<(), Failure> {
        // Notifications outside the protocol are ignored, since no response is expected.
        let parameters = notification.params;
        match notification.method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Ok(opened) = serde_json::from_value::<lsp_types::DidOpenTextDocumentParams>(parameters) {
                    let document = opened.text_document;
                    self.update_document(document.uri, document.text, document.version)?;
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Ok(changed) = serde_json::from_value::<lsp_types::DidChangeTextDocumentParams>(parameters)
                    && let Some(last) = changed.content_changes.into_iter().next_back()
                {
                    let document = changed.text_document;
                    self.update_document(document.uri, last.text, document.version)?;
                }
            }
            DidCloseTextDocument::METHOD => {
                if let Ok(closed) = serde_json::from_value::<lsp_types::DidCloseTextDocumentParams>(parameters) {
                    self.documents.remove(closed.text_document.uri.as_str());
                    self.publish(closed.text_document.uri, Vec::new(), None)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Parses a document again, and publishes its diagnostics.
    fn update_document(&mut self, uri: Uri, text: String, version: i32) -> Result<(), Failure> {
        let file = uri.path().as_estr().decode().into_string_lossy().into_owned();
        let document = Document::new(&file, text);
        let reported = diagnostics::of(&document, &uri, self.encoding);
        self.documents.insert(uri.as_str().to_owned(), document);
        self.publish(uri, reported, Some(version))
    }

    fn publish(&self, uri: Uri, diagnostics: Vec<Diagnostic>, version: Option<i32>) -> Result<(), Failure> {
        let reported = PublishDiagnosticsParams { uri, diagnostics, version };
        self.send(Notification::new(PublishDiagnostics::METHOD.to_owned(), reported).into())
    }

    /// Returns the document and the byte that a request refers to.
    fn resolve_position(&self, request_parameters: &TextDocumentPositionParams) -> RequestResult<(&Document, usize)> {
        let document = self.documents.get(request_parameters.text_document.uri.as_str())?;
        Some((document, self.encoding.byte(&document.text, &document.lines, request_parameters.position)))
    }

    fn hover(&self, request_parameters: &TextDocumentPositionParams) -> RequestResult<Hover> {
        let (document, byte) = self.resolve_position(request_parameters)?;
        let (span, value) = hover::hover_at(document, byte)?;
        let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
        Some(Hover { contents, range: Some(self.encoding.range(&document.text, &document.lines, span)) })
    }

    fn completion(&self, request_parameters: &TextDocumentPositionParams) -> RequestResult<CompletionResponse> {
        let (document, byte) = self.resolve_position(request_parameters)?;
        let (span, proposals) = completion::proposals_at(document, byte);
        let range = self.encoding.range(&document.text, &document.lines, span);
        let items = proposals.into_iter().map(|one| CompletionItem {
            text_edit: Some(CompletionTextEdit::Edit(TextEdit { range, new_text: one.label.clone() })),
            label: one.label,
            kind: Some(one.kind),
            detail: Some(one.detail).filter(|detail| !detail.is_empty()),
            documentation: Some(one.summary).filter(|summary| !summary.is_empty()).map(Documentation::String),
            ..CompletionItem::default()
        });
        Some(CompletionResponse::Array(items.collect()))
    }

    /// Returns one edit of the whole text; none if nothing changes or the text cannot be parsed, which has been reported
    /// already.
    fn formatting(&self, uri: &Uri) -> RequestResult<Vec<TextEdit>> {
        let document = self.documents.get(uri.as_str())?;
        let formatted = fist::fmt::format(&document.text).ok().filter(|formatted| *formatted != document.text);
        let range = self.encoding.range(&document.text, &document.lines, document.whole());
        Some(formatted.map(|new_text| TextEdit { range, new_text }).into_iter().collect())
    }
}
