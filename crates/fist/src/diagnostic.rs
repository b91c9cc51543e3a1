//! Diagnostics: the errors and warnings for a FiST program, their locations and remedies.

use crate::text::Span;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program works, but may not do what was intended.
    Warning,
    /// The program cannot be mounted.
    Error,
}

/// An error or warning for a FiST program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// The kind of problem, by a stable code.
    pub code: Code,
    /// The problem, in one sentence without its location.
    pub message: String,
    /// Its location.
    pub span: Span,
    /// A label at that location, if the message needs one.
    pub label: Option<String>,
    /// Related locations, each with a label.
    pub related: Vec<(Span, String)>,
    /// The suggested fix.
    pub remedy: Option<String>,
}

impl Diagnostic {
    /// Creates an error at a location.
    pub fn error(code: Code, message: impl Into<String>, span: Span) -> Diagnostic {
        let (severity, message) = (Severity::Error, message.into());
        Diagnostic { severity, code, message, span, label: None, related: Vec::new(), remedy: None }
    }

    /// Creates a warning at a location.
    pub fn warning(code: Code, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message, span) }
    }

    /// Sets the label at the location of the problem.
    pub fn at(&mut self, label: impl Into<String>) -> &mut Diagnostic {
        self.label = Some(label.into());
        self
    }

    /// Adds a related location.
    pub fn and(&mut self, span: Span, label: impl Into<String>) -> &mut Diagnostic {
        self.related.push((span, label.into()));
        self
    }

    /// Sets the suggested fix.
    pub fn remedy(&mut self, remedy: impl Into<String>) -> &mut Diagnostic {
        self.remedy = Some(remedy.into());
        self
    }
}

macro_rules! codes {
    ($($(#[doc = $text:literal])* $name:ident = $number:literal;)*) => {
        /// The kinds of problems. A number, once assigned, keeps its kind for ever.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $text])* $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code as messages show it: `F0102`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Code::$name => concat!("F", $number),)*
                }
            }

            /// Its meaning, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => concat!($($text),*).trim(),)*
                }
            }
        }
    };
}

codes! {
    // Lexical problems.
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

    // Syntax.
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

    // Semantics.
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
