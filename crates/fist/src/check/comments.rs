//! Attachment of comments to the code that they precede.

use crate::ir::Statement;
use crate::text::{Span, Spanned};
use crate::tree::{Description, Item, ItemKind};

/// The comments of a text, in source order, and how many of a function's have been attached.
#[derive(Debug, Default)]
pub(crate) struct Comments {
    all: Vec<Spanned<String>>,
    /// Ends of the items at file scope, in source order.
    ends: Vec<u32>,
    /// Location up to which comments have been attached.
    position: u32,
}

impl Comments {
    pub(crate) fn new(all: Vec<Spanned<String>>, description: &Description) -> Comments {
        let items = description.preamble.iter().chain(&description.code).map(|item| item.span);
        let declarations = description.declarations.iter().map(|declaration| declaration.span);
        let rules = description.rules.iter().map(|rule| rule.span);
        let mut ends: Vec<_> = items.chain(declarations).chain(rules).map(|span| span.end).collect();
        ends.sort_unstable();
        Comments { all, ends, position: 0 }
    }

    /// The comments that begin between two byte offsets.
    fn between(&self, start: u32, end: u32) -> &[Spanned<String>] {
        let first = self.all.partition_point(|comment| comment.span.start < start);
        let last = self.all.partition_point(|comment| comment.span.start < end);
        self.all.get(first..last).unwrap_or_default()
    }

    fn texts(comments: &[Spanned<String>]) -> Vec<String> {
        comments.iter().map(|comment| comment.value.clone()).collect()
    }

    /// The comments before an item at file scope.
    pub(crate) fn before(&self, span: Span) -> Vec<String> {
        let before = self.ends.partition_point(|end| *end <= span.start);
        let start = before.checked_sub(1).map_or(0, |last| self.ends[last]);
        Comments::texts(self.between(start, span.start))
    }

    /// The comments before items that are not code, or after everything.
    pub(crate) fn of_declarations(&self, description: &Description) -> Vec<String> {
        let declares = |item: &&Item| !matches!(&item.kind, ItemKind::Function(function) if function.body.is_some());
        let items = |items: &[Item]| items.iter().filter(declares).map(|item| item.span).collect::<Vec<_>>();
        let declarations = description.declarations.iter().map(|declaration| declaration.span);
        let spans = items(&description.preamble).into_iter().chain(declarations).chain(items(&description.code));
        let behind = Comments::texts(self.between(self.ends.last().copied().unwrap_or(0), u32::MAX));
        spans.flat_map(|span| self.before(span)).chain(behind).collect()
    }

    /// Begins the body of a function.
    pub(crate) fn begin(&mut self, body: Span) {
        self.position = body.start;
    }

    /// Takes the comments up to a location in the body.
    pub(crate) fn up_to(&mut self, end: u32) -> impl Iterator<Item = Statement> + use<> {
        let texts = Comments::texts(self.between(self.position, end));
        self.position = self.position.max(end);
        texts.into_iter().map(Statement::Comment)
    }
}
