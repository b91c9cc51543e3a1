//! Keywords of the language and their meaning, for editors and the reference. Those that the compiler has tables of are
//! taken from there.

use crate::builtins::{BuiltIn, Parameter, ReturnKind, Signature};
use crate::check::operands::OBJECT_ROLES;
use crate::numbers::{ERRORS, FLAGS, NUMBERS};
use crate::parser::types::{INTEGERS, TYPE_KEYWORDS};

/// A keyword that begins a declaration.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The keyword.
    pub name: &'static str,
    /// Its syntax.
    pub usage: &'static str,
    /// Its effect, in one sentence.
    pub summary: &'static str,
    /// The keywords that can follow it.
    pub choices: &'static [(&'static str, &'static str)],
}

/// The declarations (FiST, section 2.2).
pub const DECLARATIONS: [Declaration; 13] = [
    Declaration {
        name: "accessmode",
        usage: "accessmode readonly;",
        summary: "what may be done to files",
        choices: &[
            ("readonly", "they are not changed"),
            ("writeonly", "they are not read"),
            ("readwrite", "they are read and changed"),
        ],
    },
    Declaration {
        name: "debug",
        usage: "debug on;",
        summary: "whether each operation is traced",
        choices: &[("on", "each operation is traced"), ("off", "nothing is traced")],
    },
    Declaration {
        name: "errorcode",
        usage: "errorcode EBADKEY 200;",
        summary: "a name for an error number, a new one if none is given",
        choices: &[],
    },
    Declaration {
        name: "fanout",
        usage: "fanout 2;",
        summary: "how many file systems lie immediately below",
        choices: &[],
    },
    Declaration {
        name: "fileformat",
        usage: "fileformat ACLDATA { int user; int group; };",
        summary: "what a file of auxiliary data holds",
        choices: &[],
    },
    Declaration {
        name: "filter",
        usage: "filter:data;",
        summary: "what is encoded below",
        choices: &[
            ("data", "the data of files, by the functions NAME_encode_data and NAME_decode_data"),
            ("name", "the names of objects, by the functions NAME_encode_name and NAME_decode_name"),
            ("size", "the data of files, whose encoded form has another size"),
        ],
    },
    Declaration {
        name: "ioctl",
        usage: "ioctl:fromuser SETKEY { char key[16]; };",
        summary: "a command that programs can give; behind its name its number, 1 to 255, if that is to stay",
        choices: &[
            ("fromuser", "its data come from the program"),
            ("touser", "its data go to the program"),
            ("both", "its data come from the program and go back to it, as where nothing is said"),
        ],
    },
    Declaration {
        name: "mntdata",
        usage: "mntdata { int limit; };",
        summary: "what is given when the file system is mounted",
        choices: &[],
    },
    Declaration {
        name: "mntflag",
        usage: "mntflag GROUP { int strict; };",
        summary: "what is true or false when the file system is mounted",
        choices: &[],
    },
    Declaration {
        name: "mntstyle",
        usage: "mntstyle overlay;",
        summary: "whether the mount hides what lies below",
        choices: &[
            ("regular", "what lies below can be reached beside the mount"),
            ("overlay", "the mount lies over it and hides it"),
        ],
    },
    Declaration {
        name: "operations",
        usage: "operations serial;",
        summary: "whether operations with rules run at the same time",
        choices: &[("serial", "they are done one at a time on a mount"), ("parallel", "they run at the same time")],
    },
    Declaration {
        name: "per_vfs",
        usage: "per_vfs { char key[16]; };",
        summary: "data of each mount: `$vfs.key`",
        choices: &[],
    },
    Declaration {
        name: "per_vnode",
        usage: "per_vnode { int opens; };",
        summary: "data of each object that is in use: `$0.opens`",
        choices: &[],
    },
];

/// The sets of operations in rules.
pub const SETS: [(&str, &str); 6] = [
    ("op", "operations"),
    ("ops", "operations"),
    ("readops", "operations that do not change the file system"),
    ("writeops", "operations that change the file system"),
    ("delops", "operations that take a name away: unlink, rmdir, rename"),
    ("createops", "operations that make something: create, mkdir, mknod, symlink, link, tmpfile"),
];

/// The types of operations that a rule can name instead of a single operation.
pub const TYPES: [(&str, &str); 3] =
    [("all", "all of the set"), ("data", "those on the data of files"), ("name", "those on names")];

/// The parts of an operation.
pub const PARTS: [(&str, &str); 3] = [
    ("precall", "before the operation"),
    ("call", "in the place of the operation; of readdir, for each name"),
    ("postcall", "behind the operation"),
];

/// The keywords of statements and of C declarations.
pub const STATEMENTS: [&str; 21] = [
    "if", "else", "while", "do", "for", "switch", "case", "default", "break", "continue", "return", "sizeof", "struct",
    "enum", "typedef", "const", "static", "extern", "inline", "volatile", "register",
];

/// Objects of operations, without `$`, each with a description; numbers denote the file systems below.
pub fn objects() -> impl Iterator<Item = (&'static str, &'static str)> {
    let data = [("vfs", "the data of the mount: per_vfs"), ("mnt", "what was given when it was mounted: mntdata")];
    OBJECT_ROLES.iter().map(|(name, _, summary)| (*name, *summary)).chain(data)
}

/// The errors of Linux, by name.
pub fn errors() -> impl Iterator<Item = (&'static str, i32)> {
    ERRORS.into_iter()
}

/// Other predefined constants.
pub fn constants() -> impl Iterator<Item = (&'static str, i64)> {
    FLAGS.into_iter().chain(NUMBERS)
}

/// The names of predefined types, and the keywords that form types.
pub fn types() -> impl Iterator<Item = &'static str> {
    let refused = |word: &&str| matches!(*word, "float" | "double");
    let words = TYPE_KEYWORDS.into_iter().filter(move |word| !refused(word) && !STATEMENTS.contains(word));
    words.chain(INTEGERS.into_iter().map(|(name, ..)| name)).chain(["page_t", "vnode", "vnode_t"])
}

/// The syntax of a call of a built-in function: `int fistLookup(directory, name[, slot, uid, gid])`.
pub fn usage(signature: &Signature) -> String {
    let result = match signature.return_kind {
        ReturnKind::Nothing => "void ",
        ReturnKind::Integer => "int ",
        ReturnKind::Memory => "char *",
    };
    let name = |index: usize| match signature.parameters[index] {
        (_, Parameter::Values) => "…",
        (name, _) => name,
    };
    let mut usage = format!("{result}{}(", signature.names[0]);
    for index in 0..signature.parameters.len() {
        if index == signature.needed {
            usage.push('[');
        }
        usage.push_str(if index > 0 { ", " } else { "" });
        usage.push_str(name(index));
    }
    usage.push_str(if signature.needed < signature.parameters.len() { "])" } else { ")" });
    usage
}

/// The declaration of a built-in function with the kinds of its arguments; those in brackets may be omitted.
pub fn prototype(signature: &Signature) -> String {
    let result = match (signature.function, signature.return_kind) {
        (BuiltIn::Allocate, _) => "void *",
        (_, ReturnKind::Nothing) => "void ",
        (_, ReturnKind::Integer) => "int ",
        (_, ReturnKind::Memory) => "char *",
    };
    let mut prototype = format!("{result}{}(", signature.names[0]);
    for (index, (name, parameter)) in signature.parameters.iter().enumerate() {
        prototype.push_str(if index == signature.needed { "[" } else { "" });
        prototype.push_str(if index > 0 { ", " } else { "" });
        let declared = match parameter {
            Parameter::Integer if matches!(*name, "length" | "room" | "number") => format!("long {name}"),
            Parameter::Integer => format!("int {name}"),
            Parameter::Object | Parameter::Slot => format!("vnode {name}"),
            Parameter::String | Parameter::Format => format!("const char *{name}"),
            Parameter::Input => format!("const void *{name}"),
            Parameter::Output => format!("void *{name}"),
            // Declared data, their fields, and values of the type of a field.
            Parameter::Ioctl | Parameter::FileFormat | Parameter::Field => name.to_uppercase(),
            Parameter::OutInteger if signature.parameters.iter().any(|(_, one)| *one == Parameter::Field) => {
                format!("TYPE *{name}")
            }
            Parameter::OutInteger => format!("int *{name}"),
            Parameter::Value => format!("TYPE {name}"),
            Parameter::Values => "…".to_owned(),
        };
        prototype.push_str(&declared);
    }
    prototype + if signature.needed < signature.parameters.len() { "])" } else { ")" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtins, operations, parser};

    #[test]
    fn keywords_match_the_parser() {
        assert_eq!(DECLARATIONS.map(|declaration| declaration.name), parser::declarations::DECLARATION_KEYWORDS);
        assert_eq!(SETS.map(|(name, _)| name), parser::rules::OPERATION_SETS);
        assert_eq!(PARTS.map(|(name, _)| name), parser::rules::RULE_PARTS);
        assert!(SETS.iter().all(|(name, _)| operations::set(name).is_some()));
        assert!(TYPES.iter().all(|(name, _)| operations::of_type(name).is_some()));
    }

    #[test]
    fn declaration_usages_parse() {
        for Declaration { name, usage, choices, .. } in DECLARATIONS {
            let parsed = parser::parse(usage);
            assert!(parsed.diagnostics.is_empty() && parsed.description.declarations.len() == 1, "{usage}");
            for (choice, _) in choices {
                let data = if name == "ioctl" { " A { int a; }" } else { "" };
                let parsed = parser::parse(&format!("{name}:{choice}{data};"));
                assert!(parsed.diagnostics.is_empty(), "{name} {choice}");
            }
        }
    }

    #[test]
    fn call_usages_are_formatted_as_expected() {
        let of = |name: &str| usage(builtins::function(name).unwrap());
        assert_eq!(of("fistLastErr"), "int fistLastErr()");
        assert_eq!(of("fistPrintf"), "void fistPrintf(format[, …])");
        assert_eq!(of("fistRetErr"), "void fistRetErr([error])");
        assert_eq!(of("fistLookup"), "int fistLookup(directory, name[, slot, uid, gid])");
        assert_eq!(of("fistStrAdd"), "char *fistStrAdd(one, other)");
    }
}
