//! Diagnostics: what is wrong with a description, where, and what to do about it.

use crate::text::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, and may not do what was meant.
    Warning,
    /// It cannot be mounted.
    Error,
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Which kind of problem, by a code that stays the same.
    pub code: Code,
    /// The problem, in a sentence without its place.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What is wrong there, if the message does not say so.
    pub label: Option<String>,
    /// Other places that have to do with it, and how.
    pub related: Vec<(Span, String)>,
    /// What to do.
    pub remedy: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(code: Code, message: impl Into<String>, span: Span) -> Diagnostic {
        let (severity, message) = (Severity::Error, message.into());
        Diagnostic { severity, code, message, span, label: None, related: Vec::new(), remedy: None }
    }

    /// A warning at a place.
    pub fn warning(code: Code, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message, span) }
    }

    /// Tells what is wrong at its place.
    pub fn at(&mut self, label: impl Into<String>) -> &mut Diagnostic {
        self.label = Some(label.into());
        self
    }

    /// Tells of another place that has to do with it.
    pub fn and(&mut self, span: Span, label: impl Into<String>) -> &mut Diagnostic {
        self.related.push((span, label.into()));
        self
    }

    /// Tells what to do.
    pub fn remedy(&mut self, remedy: impl Into<String>) -> &mut Diagnostic {
        self.remedy = Some(remedy.into());
        self
    }
}

macro_rules! codes {
    ($($(#[doc = $text:literal])* $name:ident = $number:literal;)*) => {
        /// The kinds of problems. A number, once given, is of its kind for ever.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $text])* $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// As messages show it: `F0102`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Code::$name => concat!("F", $number),)*
                }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => concat!($($text),*).trim(),)*
                }
            }
        }
    };
}

codes! {
    // The text.
    /// The text is too long, or a name in it.
    TooLong = "0001";
    /// A character that nothing begins with.
    UnexpectedCharacter = "0002";
    /// A comment, string, section or condition that is not closed.
    Unclosed = "0003";
    /// An integer that is none, or too large.
    BadInteger = "0004";
    /// A character in quotes that is none.
    BadCharacter = "0005";
    /// A backslash with something that C does not know.
    BadEscape = "0006";

    // The grammar.
    /// Something else was expected.
    Expected = "0101";
    /// A declaration of an unknown kind.
    UnknownDeclaration = "0102";
    /// A rule for unknown operations.
    UnknownOperation = "0103";
    /// A part of a rule that is none of the three.
    UnknownPart = "0104";
    /// Something of C that descriptions cannot have.
    NotSupported = "0105";
    /// What is nested too deeply.
    TooDeep = "0106";
    /// A line for the preprocessor that means nothing here.
    Directive = "0107";
    /// Something that stands where it means nothing.
    Misplaced = "0108";

    // The meaning.
    /// A name that is declared twice.
    Twice = "0201";
    /// A name that is not declared.
    UnknownName = "0202";
    /// A value of a type that is not the one expected.
    BadType = "0203";
    /// A constant that is none, or not one that can be here.
    BadConstant = "0204";
    /// A call that does not fit the function.
    BadCall = "0205";
    /// A variable that the operations of a rule do not have.
    NotHere = "0206";
    /// Something that does nothing.
    Useless = "0207";
    /// More of something than a description may have, or something larger.
    TooMany = "0208";

    // The file system.
    /// A rule that can never fire.
    NeverFires = "0301";
    /// A filter that is declared, whose functions are not there.
    MissingFilter = "0302";
    /// An error that Linux does not answer there.
    PermissionError = "0303";
    /// A rule behind look-up that keeps names out of the kernel's cache.
    SeesLookups = "0304";
    /// An initialization vector or a nonce that is always the same.
    FixedVector = "0305";
    /// A lock that is held while something is done below that changes nothing.
    HeldLock = "0306";
}
