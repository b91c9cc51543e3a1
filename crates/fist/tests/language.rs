//! The reference's examples: each is a description without mistakes.

mod common;

#[test]
fn reference_examples_are_valid_programs() {
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md"));
    let examples: Vec<_> = reference.split("```fist\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 9);
    for example in examples {
        let program = common::program("example", example);
        assert!(!program.functions.is_empty());
    }
}

#[test]
fn reference_lists_every_word() {
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md"));
    let functions = plyfs_fist::builtins::SIGNATURES.iter().map(|signature| signature.names[0]);
    let operations = plyfs_fist::operations::OPERATIONS.iter().map(|kind| kind.name);
    let attributes = plyfs_fist::builtins::ATTRIBUTES.iter().map(|(_, name, _)| *name);
    let values = plyfs_fist::builtins::OPERATION_VALUES.iter().map(|(_, name, _)| *name);
    let globals = plyfs_fist::builtins::GLOBALS.iter().map(|(_, name, _)| *name);
    for name in functions.chain(operations).chain(attributes).chain(values).chain(globals) {
        assert!(reference.contains(name), "{name}");
    }
}

/// Each function has its prototype, with what may be left out.
#[test]
fn reference_has_the_prototype_of_every_function() {
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md"));
    for signature in plyfs_fist::builtins::SIGNATURES {
        let prototype = format!("`{}`", plyfs_fist::words::prototype(signature));
        assert!(reference.contains(&prototype), "{prototype}");
        assert!(
            signature
                .names
                .iter()
                .all(|name| reference.contains(&format!("{name}`")) || reference.contains(&format!("{name}(")))
        );
    }
}

/// The index of codes has each, once, with what it means.
#[test]
fn reference_has_an_index_of_codes() {
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md"));
    for code in plyfs_fist::diagnostic::Code::ALL {
        let row = format!("| {} | {} |\n", code.name(), code.meaning().trim_end_matches('.'));
        let is_both = matches!(code.name(), "F0301");
        assert_eq!(reference.matches(&row).count(), 1 + usize::from(is_both), "{row}");
    }
}

#[test]
fn reference_states_the_limits() {
    use plyfs_fist::limits::*;
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md"));
    let with_commas = |number: u64| {
        let digits = number.to_string();
        let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
        groups.join(",")
    };
    let rows = [
        ("the text", vec![format!("{} MiB", MAX_SOURCE_BYTES >> 20), with_commas(MAX_TOKENS as u64)]),
        ("the text", vec![format!("names of {MAX_NAME_BYTES} bytes")]),
        ("statements, expressions and values in braces", vec![MAX_NESTING_DEPTH.to_string()]),
        ("pointers and arrays", vec![MAX_TYPE_DEPTH.to_string()]),
        (
            "rules; functions",
            [MAX_RULES, MAX_FUNCTIONS, MAX_PARAMETERS].map(|limit| with_commas(limit as u64)).to_vec(),
        ),
        ("fields of a structure", vec![with_commas(MAX_FIELDS as u64)]),
        ("ioctls; file formats", vec![format!("{MAX_IOCTLS_OR_FORMATS}; {MAX_IOCTLS_OR_FORMATS}; {MAX_ERROR_CODES}")]),
        (
            "data of the last section",
            vec![with_commas(MAX_DATA_OBJECTS as u64), format!("{} MiB", MAX_DATA_BYTES >> 20)],
        ),
        ("an array or a structure", vec![format!("{} MiB", MAX_OBJECT_BYTES >> 20)]),
        ("`per_vnode`; an ioctl's data", vec![format!("{} KiB", MAX_VNODE_DATA_BYTES >> 10)]),
        ("rounds of loops", vec![with_commas(plyfs_fist::interpreter::MAX_FUEL)]),
        ("depth of functions", vec![plyfs_fist::interpreter::MAX_CALL_DEPTH.to_string()]),
        ("work", vec![with_commas(plyfs_fist::meter::MAX_WORK)]),
        ("computing time", vec![format!("{} second", plyfs_fist::meter::TIME_LIMIT.as_secs())]),
    ];
    for (begin, stated) in rows {
        let begin = format!("| {begin}");
        let row = reference.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no row `{begin}`"));
        stated.iter().for_each(|what| assert!(row.contains(what), "{row} does not tell {what}"));
    }
}

#[test]
fn tutorial_programs_are_valid() {
    let tutorial = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fist-tutorial.md"));
    let blocks = tutorial.split("```fist\n").skip(1).filter_map(|rest| rest.split("```").next());
    let descriptions: Vec<_> = blocks.filter(|block| block.starts_with("%%\n")).collect();
    assert_eq!(descriptions.len(), 3);
    for description in &descriptions {
        common::program("trashfs", description);
    }
    let last = descriptions[2].lines().filter(|line| !line.trim().is_empty()).count();
    assert!(last < 15, "{last} lines");
}
