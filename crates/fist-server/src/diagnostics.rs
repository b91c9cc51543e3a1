//! Converts the diagnostics of a document into the protocol's.

use fist::diagnostic::Severity;
use lsp_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag, Location, NumberOrString, Uri,
};

use crate::document::Document;
use crate::positions::Encoding;

/// Maximum number of reported diagnostics: an editor that marks more is useless.
const MAX_REPORTED_DIAGNOSTICS: usize = 500;

/// Returns the diagnostics of a document.
pub(crate) fn of(document: &Document, uri: &Uri, encoding: Encoding) -> Vec<Diagnostic> {
    let reported = document.diagnostics.iter().take(MAX_REPORTED_DIAGNOSTICS);
    reported.map(|one| diagnostic(document, one, uri, encoding)).collect()
}

fn diagnostic(document: &Document, one: &fist::diagnostic::Diagnostic, uri: &Uri, encoding: Encoding) -> Diagnostic {
    let range = |span| encoding.range(&document.text, &document.lines, span);
    let related = one.related.iter().map(|(span, message)| DiagnosticRelatedInformation {
        location: Location { uri: uri.clone(), range: range(*span) },
        message: message.clone(),
    });
    let mut message = one.message.clone();
    if let Some(label) = &one.label {
        message.push_str(&format!(": {label}"));
    }
    if let Some(remedy) = &one.remedy {
        message.push_str(&format!("\nhelp: {remedy}"));
    }
    let is_idle = matches!(one.code, fist::diagnostic::Code::Useless | fist::diagnostic::Code::NeverFires);
    Diagnostic {
        range: range(one.span),
        severity: Some(match one.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
        }),
        code: Some(NumberOrString::String(one.code.name().to_owned())),
        source: Some("fist".to_owned()),
        message,
        related_information: Some(related.collect::<Vec<_>>()).filter(|related| !related.is_empty()),
        tags: is_idle.then(|| vec![DiagnosticTag::UNNECESSARY]),
        ..Diagnostic::default()
    }
}
