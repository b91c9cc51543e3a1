//! The reference's examples: each is a description without mistakes.

mod common;

#[test]
fn the_examples_of_the_reference_are_descriptions() {
    let reference = include_str!("../../../docs/language.md");
    let examples: Vec<_> = reference.split("```fist\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 7);
    for example in examples {
        let program = common::program("example", example);
        assert!(!program.functions.is_empty());
    }
}

#[test]
fn the_reference_names_all_that_there_is() {
    let reference = include_str!("../../../docs/language.md");
    let functions = fist::builtins::SIGNATURES.iter().map(|signature| signature.names[0]);
    let operations = fist::operations::OPERATIONS.iter().map(|kind| kind.name);
    let attributes = fist::builtins::ATTRIBUTES.iter().map(|(_, name, _)| *name);
    let values = fist::builtins::OPERATION_VALUES.iter().map(|(_, name, _)| *name);
    let globals = fist::builtins::GLOBALS.iter().map(|(_, name, _)| *name);
    for name in functions.chain(operations).chain(attributes).chain(values).chain(globals) {
        assert!(reference.contains(name), "{name}");
    }
}

#[test]
fn the_descriptions_of_the_tutorial_are_without_mistakes() {
    let tutorial = include_str!("../../../docs/fist-tutorial.md");
    let blocks = tutorial.split("```\n").skip(1).step_by(2);
    let descriptions: Vec<_> = blocks.filter(|block| block.starts_with("%%\n")).collect();
    assert_eq!(descriptions.len(), 3);
    for description in &descriptions {
        common::program("trashfs", description);
    }
    let last = descriptions[2].lines().filter(|line| !line.trim().is_empty()).count();
    assert!(last < 15, "{last} lines");
}
