//! Tests of the expression's text: results of parsing, locations of errors, and conversion between text and tree.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::*;

fn branch(stack: &Stack, index: usize) -> &Base {
    match &stack.source[index].value.tree {
        BranchTree::Base(base) => base,
        BranchTree::Stack(_) => panic!("branch {index} is a stack"),
    }
}

fn text_at(text: &str, span: Span) -> &str {
    &text[span.start..span.end]
}

/// Returns the column and the message of the error for `text`.
fn error(text: &str) -> (usize, String) {
    let error = parse(text).expect_err(text);
    (error.span.column(), error.problem.to_string())
}

#[test]
fn a_pipeline_of_a_path_and_layers() {
    let text = "/srv/data | audit(file=/var/log/a.json, all=yes) | readonly";
    let stack = parse(text).unwrap();
    assert_eq!(branch(&stack, 0).kind, None);
    assert_eq!(branch(&stack, 0).location.value, "/srv/data");
    assert_eq!(stack.layers.len(), 2);
    let audit = &stack.layers[0];
    assert_eq!(audit.value.name.value, LayerName::Name("audit".into()));
    assert_eq!(text_at(text, audit.span), "audit(file=/var/log/a.json, all=yes)");
    assert_eq!(text_at(text, audit.value.name.span), "audit");
    assert_eq!(text_at(text, audit.value.arguments[0].value.span), "/var/log/a.json");
    assert_eq!(text_at(text, audit.value.arguments[1].key.span), "all");
}

#[test]
fn branches_with_modes_and_a_stack_in_parentheses() {
    let text = "/fast=rw,(fat:disk.img | readonly)=ro , \"/c d\"=nc|union";
    let stack = parse(text).unwrap();
    let modes: Vec<Mode> = stack.source.iter().map(|branch| branch.value.mode.as_ref().unwrap().value).collect();
    assert_eq!(modes, [Mode::ReadWrite, Mode::ReadOnly, Mode::NoCreate]);
    assert_eq!(text_at(text, stack.source[1].span), "(fat:disk.img | readonly)=ro");
    let BranchTree::Stack(inner) = &stack.source[1].value.tree else { panic!("not a stack") };
    assert_eq!(branch(inner, 0).kind.as_ref().unwrap().value, "fat");
    assert_eq!(branch(&stack, 2).location.value, "/c d");
}

#[test]
fn branches_with_options_after_their_modes() {
    let text = "/a=rw(minimum-free = 4g, other=x), fat:b(uid=1)=ro(), /c=nc | union";
    let stack = parse(text).unwrap();
    let options = |index: usize| -> Vec<String> {
        stack.source[index].value.options.iter().map(|option| option.to_string()).collect()
    };
    assert_eq!(options(0), ["minimum-free=4g", "other=x"]);
    assert!(options(1).is_empty() && options(2).is_empty());
    assert_eq!(text_at(text, stack.source[0].span), "/a=rw(minimum-free = 4g, other=x)");
    assert_eq!(stack.to_string(), "/a=rw(minimum-free=4g, other=x), fat:b(uid=1)=ro, /c=nc | union");
}

#[test]
fn bases_with_options() {
    let text = "fat:usb.img(uid=1000, names=lower)=ro, disk.img (partition = 2), mem:() | union";
    let stack = parse(text).unwrap();
    let fat = branch(&stack, 0);
    assert_eq!(
        (fat.kind.as_ref().unwrap().value.as_str(), fat.location.value.as_os_str()),
        ("fat", "usb.img".as_ref())
    );
    assert_eq!(text_at(text, fat.location.span), "usb.img");
    let texts: Vec<_> = fat.arguments.iter().map(|argument| argument.to_string()).collect();
    assert_eq!(texts, ["uid=1000", "names=lower"]);
    assert_eq!(text_at(text, fat.arguments[1].key.span), "names");
    assert_eq!(text_at(text, fat.arguments[0].value.span), "1000");
    assert_eq!(text_at(text, stack.source[0].span), "fat:usb.img(uid=1000, names=lower)=ro");
    assert_eq!((branch(&stack, 1).kind.is_none(), branch(&stack, 1).arguments.len()), (true, 1));
    assert!(branch(&stack, 2).arguments.is_empty());
    assert_eq!(stack.to_string(), "fat:usb.img(uid=1000, names=lower)=ro, disk.img(partition=2), mem: | union");
    let quoted = parse("\"/srv/data (old)\"(key=\"a, b\")").unwrap();
    assert_eq!(branch(&quoted, 0).location.value, "/srv/data (old)");
    assert_eq!(quoted.to_string(), "\"/srv/data (old)\"(key=\"a, b\")");
}

#[test]
fn kinds_and_paths_with_colons() {
    let kinds = [
        ("mem:", Some("mem"), ""),
        ("dir:x", Some("dir"), "x"),
        ("nfs://host/export", Some("nfs"), "//host/export"),
        ("fat:\"a b.img\"", Some("fat"), "a b.img"),
        ("mem:\"\"", Some("mem"), ""),
        ("/a:b", None, "/a:b"),
        ("./a:b", None, "./a:b"),
        ("a\\:b", None, "a:b"),
        ("\"a:b\"", None, "a:b"),
        ("\"a\":b", None, "a:b"),
        (":b", None, ":b"),
    ];
    for (text, kind, location) in kinds {
        let stack = parse(text).unwrap();
        let base = branch(&stack, 0);
        assert_eq!(base.kind.as_ref().map(|kind| kind.value.as_str()), kind, "{text}");
        assert_eq!(base.location.value, location, "{text}");
        assert_eq!(parse(&stack.to_string()).unwrap(), stack, "{text}");
    }
}

#[test]
fn quoting_with_quotes_backslashes_and_numbers() {
    let paths: [(&str, &[u8]); 6] = [
        ("/a\\ b", b"/a b"),
        ("/a\" | b\"c", b"/a | bc"),
        ("\"/a\\\"b\\\\\"", b"/a\"b\\"),
        ("/\\xff\\x0A", b"/\xff\n"),
        ("\"/\\x41\"", b"/A"),
        ("/\\ä", "/ä".as_bytes()),
    ];
    for (text, bytes) in paths {
        assert_eq!(branch(&parse(text).unwrap(), 0).location.value.as_bytes(), bytes, "{text}");
    }
}

#[test]
fn paths_ending_in_fist_are_layers() {
    let stack = parse("/a | \"my rules.fist\"(key=1) | ./x.fist").unwrap();
    assert_eq!(stack.layers[0].value.name.value, LayerName::Description(PathBuf::from("my rules.fist")));
    assert_eq!(stack.layers[1].value.name.value, LayerName::Description(PathBuf::from("./x.fist")));
}

#[test]
fn layer_list_may_be_empty() {
    assert!(parse_layers("  ").unwrap().is_empty());
    let layers = parse_layers("audit(all=yes) | readonly").unwrap();
    assert_eq!(layers.len(), 2);
    assert_eq!(parse_layers("audit | ").unwrap_err().span.column(), 9);
    assert_eq!(parse_layers("/x").unwrap_err().problem, SyntaxProblem::BadLayerName("/x".into()));
}

#[test]
fn errors_point_at_the_column() {
    let cases = [
        ("", 1, "the stack expression is empty"),
        ("  ", 3, "the stack expression is empty"),
        ("| audit", 1, "expected a base, found '|'"),
        ("/a |", 5, "expected a layer, found the end"),
        ("/a | | b", 6, "expected a layer, found '|'"),
        ("/a,", 4, "expected a base, found the end"),
        ("/a b", 4, "unexpected 'b' after a base"),
        ("/a | audit readonly", 12, "unexpected 'readonly' after a layer"),
        ("/a | audit, readonly", 11, "unexpected ',' after a layer"),
        ("/a=", 4, "expected a branch mode after '=', found the end"),
        ("/a=b", 4, "unknown branch mode 'b'; the modes are rw, ro and nc"),
        ("/a=rw()x", 8, "unexpected 'x' after a base"),
        ("/a=rw(minimum-free", 19, "expected '=' after the option 'minimum-free', found the end"),
        ("/a=ro=rw", 6, "unexpected '=' after a base"),
        ("/a | map(uid)", 13, "expected '=' after the option 'uid', found ')'"),
        ("/a | map(uid=)", 14, "expected a value for the option 'uid', found ')'"),
        ("/a | map(uid=1 2)", 16, "unexpected '2' after a value"),
        ("/a | map(uid=1=2)", 15, "unexpected '=' after a value"),
        ("/a | map(uid=1,)", 16, "expected an option, found ')'"),
        ("/a | map(uid=1", 9, "this parenthesis is never closed"),
        ("/a | map(uid=1,", 9, "this parenthesis is never closed"),
        ("/a | map(", 9, "this parenthesis is never closed"),
        (
            "/a(old)",
            7,
            "expected '=' after the option 'old', found ')'; write old=value (a path with a parenthesis in it",
        ),
        ("fat:x(uid=)", 11, "expected a value for the option 'uid', found ')'"),
        ("fat:x(=1)", 7, "expected an option, found '='; options are written (key=value, key=value) (a path with"),
        ("fat:x(uid=1 2)", 13, "unexpected '2' after a value"),
        ("fat:x(uid=1", 6, "this parenthesis is never closed"),
        ("fat:x(uid=1)(gid=1)", 13, "unexpected '(' after a base"),
        ("(/a)(uid=1)", 5, "unexpected '(' after a base"),
        ("/a, (/b | x", 5, "this parenthesis is never closed"),
        ("(/b x)", 5, "unexpected 'x' after a base"),
        ("/a)", 3, "this ')' closes nothing"),
        ("/a | \"b", 6, "this double quote is never closed"),
        ("/a\\", 3, "nothing follows this backslash"),
        ("/a\\xg0", 3, "\\x needs two hexadecimal digits"),
        ("/a\\x4", 3, "\\x needs two hexadecimal digits"),
        ("/a\\x00", 1, "a zero byte"),
        ("\"\"", 1, "this path is empty"),
        ("/a | /b", 6, "'/b' is neither the name of a layer"),
        ("/a | \"\"", 6, "'' is neither the name of a layer"),
        ("/ä | |", 7, "expected a layer, found '|'"),
    ];
    for (text, column, message) in cases {
        let (found_column, found_message) = error(text);
        assert!(found_message.starts_with(message), "{text}: {found_message}");
        assert_eq!(found_column, column, "{text}: {found_message}");
        assert!(found_message.contains("; "), "no remedy: {found_message}");
        assert!(!found_message.contains('\n'), "{found_message}");
    }
}

#[test]
fn parenthesis_nesting_is_limited() {
    let nested = |depth: usize| format!("{}/a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(64)).is_ok());
    assert_eq!(parse(&nested(65)).unwrap_err().problem, SyntaxProblem::TooDeep);
    assert_eq!(parse(&"(".repeat(1_000_000)).unwrap_err().problem, SyntaxProblem::TooDeep);
}

#[test]
fn excerpt_shows_the_line_and_the_location() {
    let text = "/ä | adit | ro";
    let layer = parse(text).unwrap().layers[0].value.name.span;
    assert_eq!(layer.excerpt(text), "/ä | adit | ro\n     ^^^^");
    let text = "/a\n| b c\n| d";
    assert_eq!(parse(text).unwrap_err().span.excerpt(text), "| b c\n    ^");
    let text = "/a |";
    assert_eq!(parse(text).unwrap_err().span.excerpt(text), "/a |\n    ^");
}

#[test]
fn non_utf8_arguments_are_escaped() {
    let text = from_argument(OsStr::from_bytes(b"/a\xff | audit"));
    let protected = OsStr::from_bytes(b"/a\\\xff\\\\\xfe");
    assert_eq!(from_argument(protected), r"/a\xff\\\xfe");
    assert_eq!(text, "/a\\xff | audit");
    assert_eq!(branch(&parse(&text).unwrap(), 0).location.value.as_bytes(), b"/a\xff");
}

#[test]
fn random_trees_round_trip_through_text() {
    let seed =
        std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..5_000 {
        let stack = random_stack(&mut random, 3);
        let text = stack.to_string();
        let parsed =
            parse(&text).unwrap_or_else(|error| panic!("PLYFS_TEST_SEED={seed}, round {round}: {text}: {error}"));
        assert_eq!(parsed, stack, "PLYFS_TEST_SEED={seed}, round {round}: {text}");
        assert_eq!(parsed.to_string(), text, "PLYFS_TEST_SEED={seed}, round {round}");
        assert!(!text.contains('\n'), "PLYFS_TEST_SEED={seed}, round {round}: {text}");
    }
}

#[test]
fn random_text_parses_or_fails_within_its_bounds() {
    let seed =
        std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let pieces = ["/a", "mem:", "|", ",", "=", "(", ")", "\"", "\\", "\\x", "ro", "k", " ", "4", "ä", "\n", ".fist"];
    for round in 0..20_000 {
        let text: String = (0..random.usize(0..12)).map(|_| pieces[random.usize(0..pieces.len())]).collect();
        match parse(&text) {
            Ok(stack) => assert_eq!(
                parse(&stack.to_string()).as_ref(),
                Ok(&stack),
                "PLYFS_TEST_SEED={seed}, round {round}: {text}"
            ),
            Err(error) => {
                assert!(
                    error.span.start <= error.span.end && error.span.end <= text.len(),
                    "PLYFS_TEST_SEED={seed}, round {round}: {text}"
                );
                assert_eq!(
                    error.span.excerpt(&text).lines().count(),
                    2,
                    "PLYFS_TEST_SEED={seed}, round {round}: {text}"
                );
            }
        }
    }
}

fn random_stack(random: &mut fastrand::Rng, depth: usize) -> Stack {
    let source = (0..random.usize(1..4)).map(|_| without_span(random_branch(random, depth))).collect();
    let layers = (0..random.usize(0..3)).map(|_| without_span(random_layer(random))).collect();
    Stack { source, layers }
}

fn random_branch(random: &mut fastrand::Rng, depth: usize) -> Branch {
    let tree = if depth > 0 && random.u8(0..4) == 0 {
        BranchTree::Stack(Box::new(random_stack(random, depth - 1)))
    } else if random.bool() {
        let kinds = ["mem", "dir", "nfs+tls", "s3"];
        let kind = without_span(kinds[random.usize(0..kinds.len())].to_owned());
        let location = without_span(random_word(random, 0));
        BranchTree::Base(Base { kind: Some(kind), location, arguments: random_arguments(random) })
    } else {
        let location = without_span(random_word(random, 1));
        BranchTree::Base(Base { kind: None, location, arguments: random_arguments(random) })
    };
    let mode = random.bool().then(|| without_span(Mode::ALL[random.usize(0..3)]));
    let options = if mode.is_some() { random_arguments(random) } else { Vec::new() };
    Branch { tree, mode, options }
}

fn random_layer(random: &mut fastrand::Rng) -> Layer {
    let name = if random.bool() {
        LayerName::Name("layer-1_b".to_owned())
    } else {
        let mut path = random_word(random, 1);
        path.push(".fist");
        LayerName::Description(PathBuf::from(path))
    };
    Layer { name: without_span(name), arguments: random_arguments(random) }
}

fn random_arguments(random: &mut fastrand::Rng) -> Vec<Argument> {
    let argument = |random: &mut fastrand::Rng| Argument {
        key: without_span(random_word(random, 0).to_string_lossy().into_owned()),
        value: without_span(random_word(random, 0)),
    };
    (0..random.usize(0..3)).map(|_| argument(random)).collect()
}

/// Returns a word of bytes that are special to the lexer, and of any others but zero.
fn random_word(random: &mut fastrand::Rng, length_min: usize) -> OsString {
    let special = b"|,=()\"\\ \t\n:/.x4a";
    let bytes = (0..random.usize(length_min..8))
        .map(|_| if random.u8(0..4) == 0 { random.u8(1..) } else { special[random.usize(0..special.len())] })
        .collect();
    OsString::from_vec(bytes)
}

fn without_span<T>(value: T) -> Spanned<T> {
    Spanned::new(value, Span::default())
}
