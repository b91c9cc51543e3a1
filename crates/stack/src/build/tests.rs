//! Tests of building: the stacks that are built, the errors and their locations, and the paths that become absolute.

use std::path::Path;

use vnode::{Caller, Errno, Name};

use super::*;
use crate::syntax::{parse, parse_layers};

/// Returns the column and message of the error from building `text`.
fn error(text: &str) -> (usize, String) {
    match build(&parse(text).unwrap()) {
        Err(error) => (error.span.column(), error.problem.to_string()),
        Ok(_) => panic!("{text} was built"),
    }
}

#[test]
fn layers_are_stacked_bottom_up() {
    let file_system = build(&parse("(mem: | longnames(suffix=.x)) | readonly").unwrap()).unwrap();
    let kinds: Vec<String> = file_system.describe().into_iter().map(|member| member.kind).collect();
    assert_eq!(kinds, ["mem", "longnames", "readonly"]);
    let created = file_system.root().mkdir(&Caller::server(), Name::new(b"d").unwrap(), 0o777);
    assert_eq!(created.err(), Some(Errno::EROFS));
    let text = crate::explain(file_system.as_ref());
    assert!(text.contains("  longnames suffix=.x\n") && text.contains("read-only"), "{text}");
}

#[test]
fn layers_stack_on_an_existing_file_system() {
    let base = build(&parse("mem:").unwrap()).unwrap();
    let stack = Registry::default().build_layers(base, &parse_layers("readonly").unwrap()).unwrap();
    assert!(stack.properties().needs.read_only);
}

#[test]
fn errors_point_at_their_cause() {
    let cases = [
        ("mam:", 1, "there is no kind of base 'mam'; did you mean 'mem'?"),
        ("x3y://bucket", 1, "there is no kind of base 'x3y'; there are dir and mem"),
        ("dir:", 1, "'dir:' needs a path"),
        ("mem:nonsense", 5, "`mem` has no option `nonsense`"),
        ("mem: | nothing", 8, "there is no layer 'nothing'; there are "),
        ("mem: | readonly(x=1)", 17, "`readonly` has no option `x`"),
        ("mem: | longnames(suffix=a, suffix=b)", 28, "option `suffix` of `longnames` is given twice; give it once"),
        ("mem: | longnames(suffix=\\xff)", 25, "the value of 'suffix' is not UTF-8"),
        ("mem: | ./rules.fist", 8, "cannot read ./rules.fist: No such file or directory"),
        ("mem:, mem: | readonly", 7, "several branches need a layer that joins them"),
        ("(mem:, mem:) | readonly", 8, "several branches need a layer that joins them"),
        ("mem:=ro | readonly", 6, "the mode 'ro' is for one of several branches"),
    ];
    for (text, column, message) in cases {
        let (found_column, found_message) = error(text);
        assert!(found_message.starts_with(message), "{text}: {found_message}");
        assert_eq!(found_column, column, "{text}: {found_message}");
    }
}

#[test]
fn missing_directory_is_named() {
    let error = build(&parse("/none/at/all | readonly").unwrap()).err().unwrap();
    assert!(matches!(error.problem, BuildProblem::Directory(_)));
    assert!(error.to_string().starts_with("there is no directory `/none/at/all`: "), "{error}");
}

#[test]
fn paths_become_absolute_and_nothing_else_does() {
    let cases = [
        ("data | readonly", "/home/me/data | readonly"),
        ("dir:data", "dir:/home/me/data"),
        ("/data", "/data"),
        ("mem:data", "mem:data"),
        ("(a | readonly)=ro, ../b=rw", "(/home/me/a | readonly)=ro, /home/me/../b=rw"),
        ("a | audit(to=log, rules=r, path=x)", "/home/me/a | audit(to=/home/me/log, rules=/home/me/r, path=x)"),
        ("a | audit(to=stderr)", "/home/me/a | audit(to=stderr)"),
        ("a | my.fist(to=log)", "/home/me/a | /home/me/my.fist(to=log)"),
        ("a | unknown(to=log)", "/home/me/a | unknown(to=log)"),
    ];
    for (text, absolute) in cases {
        let mut stack = parse(text).unwrap();
        Registry::default().make_absolute(&mut stack, Path::new("/home/me"));
        assert_eq!(stack.to_string(), absolute);
    }
}

#[test]
fn missing_branch_is_an_error_unless_omitted() {
    let error = |text: &str| error(text).1;
    assert!(error("mem:, /no/such=ro | union").contains("/no/such"));
    assert!(error("mem:, /no/such=ro | union(missing=fail)").contains("/no/such"));
    assert!(error("mem:, /no/such=ro | union(missing=maybe)").contains("fail or skip"));
    assert!(error("/no/such=rw, /nor/this=ro | union(missing=skip)").contains("/nor/this"), "nothing is left");
    assert!(error("mem:, /dev/null=ro | union(missing=skip)").contains("/dev/null"), "it is there, and no directory");
    let union = build(&parse("/no/such=rw, mem:=rw, (/nor/this | readonly) | union(missing=skip)").unwrap()).unwrap();
    let text = crate::explain(union.as_ref());
    assert!(text.contains("mem:=rw") && !text.contains("/no/such") && !text.contains("/nor/this"), "{text}");
}

/// Returns a layer of this name from elsewhere.
const fn locked(name: &'static str) -> layers::Kind {
    layers::Kind::over(name, "refuses every change", &[], |pairs, lower| {
        layers::kind("readonly").expect("the layer is built in").stack(pairs, lower)
    })
}

#[test]
fn layers_from_elsewhere_are_built_and_suggested() {
    let registry = Registry::default().with_layer(locked("locked"));
    let build = |text: &str| registry.build(&parse(text).unwrap());
    assert!(build("mem: | locked").unwrap().properties().needs.read_only);
    assert!(build("mem:, (mem: | locked) | union").is_ok());
    let message = |text: &str| build(text).err().unwrap().problem.to_string();
    assert_eq!(message("mem: | loked"), "there is no layer 'loked'; did you mean 'locked'?");
    assert!(
        message("mem: | locked(x=1)").starts_with("`locked` has no option `x`"),
        "{}",
        message("mem: | locked(x=1)")
    );
    assert!(error("mem: | locked").1.starts_with("there is no layer 'locked'"), "only that registry has it");
    assert!(registry.layers().is_sorted_by_key(|kind| kind.name));
}

#[test]
fn a_layer_from_elsewhere_replaces_one_of_the_same_name() {
    let registry = Registry::default().with_layer(locked("rot13"));
    assert!(registry.build(&parse("mem: | rot13").unwrap()).unwrap().properties().needs.read_only);
    assert_eq!(registry.layers().len(), Registry::default().layers().len());
}

#[test]
fn branches_added_later_may_have_layers_from_elsewhere() {
    let registry = Registry::default().with_layer(locked("locked"));
    let union = registry.build(&parse("mem: | union").unwrap()).unwrap();
    let branch = ("branch".to_owned(), "(mem: | locked)=ro".to_owned());
    let command = vnode::Control { target: "union".into(), command: "add".into(), arguments: vec![branch] };
    assert!(union.control(&command).unwrap().contains("mem: | locked"));
}
