use super::*;
use crate::tree::{DeclarationKind, ItemKind};

fn read(text: &str) -> Description {
    let parsed = parse(text);
    assert!(parsed.diagnostics.is_empty(), "{:#?}", parsed.diagnostics);
    parsed.description
}

fn codes(text: &str) -> Vec<Code> {
    parse(text).diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

/// The listings of the paper as printed.
pub(crate) const SNOOPFS: &str = include_str!("../../tests/paper/snoopfs.fist");

pub(crate) const CRYPTFS: &str = include_str!("../../tests/paper/cryptfs.fist");

pub(crate) const UNIONFS: &str = include_str!("../../tests/paper/unionfs.fist");

#[test]
fn the_listings_of_the_paper_are_parsed() {
    let snoopfs = read(SNOOPFS);
    assert_eq!((snoopfs.rules.len(), snoopfs.rules[0].operation.value.as_str()), (1, "lookup"));
    let cryptfs = read(CRYPTFS);
    assert_eq!(
        (cryptfs.preamble.len(), cryptfs.declarations.len(), cryptfs.rules.len(), cryptfs.code.len()),
        (1, 4, 1, 2)
    );
    assert_eq!(cryptfs.rules[0].ioctl.as_ref().map(|ioctl| ioctl.value.as_str()), Some("SETKEY"));
    assert!(matches!(&cryptfs.code[1].kind, ItemKind::Function(function) if function.parameters.len() == 2));
    let unionfs = read(UNIONFS);
    assert!(matches!(&unionfs.declarations[0].kind, DeclarationKind::FanOut(count) if count.value == 2));
    assert_eq!(unionfs.rules.len(), 4);
}

#[test]
fn percent_is_remainder_after_an_operand_and_global_otherwise() {
    let description = read("%%\n%op:all:precall { int a = %uid % %gid%2; a = a %uid; }\n");
    assert_eq!(description.rules.len(), 1);
    let text = parse("%%\n%op:all:precall { int a = 5%uid; }\n");
    assert!(text.diagnostics.is_empty());
}

#[test]
fn several_errors_are_reported_in_one_run() {
    let text = "fanout two;\nfliter data;\n%%\n%op:unlink:before { x = ; y = 1 }\n%ops:all { return 0; }\n%%\nint f( { }\nint g() { return 1; }\n";
    let found = codes(text);
    for code in [Code::Expected, Code::UnknownDeclaration, Code::UnknownPart] {
        assert!(found.contains(&code), "{code:?} in {found:?}");
    }
    assert_eq!(parse(text).description.rules.len(), 2);
}

#[test]
fn parsing_always_terminates_within_the_depth_limit() {
    for text in [
        format!("%%\n%op:all {{ {} }}\n", "(".repeat(100_000)),
        format!("%%\n%op:all {{ {} }}\n", "{".repeat(100_000)),
        format!("%%\n%op:all {{ x = {} 1; }}\n", "1 + ".repeat(100_000)),
        format!("%%\n%op:all {{ {} ; }}\n", "if (1) ".repeat(100_000)),
        format!("%%\n%op:all {{ x = {} 1; }}\n", "-".repeat(100_000)),
        format!("%%\n%op:all {{ x = a{}; }}\n", ".b".repeat(100_000)),
        "%{\n".repeat(10_000),
        "%%\n%%\n%%\n%%\n".to_owned(),
        "\"".to_owned(),
        "/*".to_owned(),
        "#ifdef A\n".repeat(60_000),
        format!("{}{}", "#ifdef A\n".repeat(40_000), "#else\n".repeat(40_000)),
    ] {
        assert!(!parse(&text).diagnostics.is_empty(), "{}", &text[..text.len().min(40)]);
    }
}

/// Parsing terminates on random sequences of meaningful pieces.
#[test]
fn random_texts_are_parsed_or_rejected() {
    let given = std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("PLYFS_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let listings = [SNOOPFS, CRYPTFS, UNIONFS].concat();
    let mut pieces: Vec<&str> = listings.split_inclusive([' ', '\n', '(', ')', '{', '}', ';', ',']).collect();
    pieces.extend(crate::token::MARKS);
    pieces.extend([
        "\n%%\n",
        "\n%op:",
        "case",
        "switch",
        "struct",
        "#define A(",
        "#define B 1",
        "\n#ifdef A\n",
        "\n#ifndef EPERM\n",
        "\n#else\n",
        "\n#endif\n",
        "\n%{",
        "\n%}",
        "\\",
        "'",
        "\"",
    ]);
    for _ in 0..20_000 {
        let text: String = (0..random.usize(1..60)).map(|_| pieces[random.usize(..pieces.len())]).collect();
        parse(&text);
    }
}
