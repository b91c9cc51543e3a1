//! Warnings: what works, and may not do what was meant, or costs more than it seems.

mod common;

use std::path::Path;

use common::codes;

/// A filter of data whose first lines and vector are these.
fn filter(declared: &str, vector: &str) -> String {
    format!(
        "filter:data;\nper_vfs {{ char key[16]; char vector[8]; }};\n%%\n%%\n{declared}\n\
        int test_encode_data(const page_t *in, page_t *out, int length, long page)\n{{\n    int n = 0;\n    {vector}\n    \
        BF_cfb64_encrypt(in, out, length, &$vfs.key, iv, &n, BF_ENCRYPT);\n    return length;\n}}\n\
        int test_decode_data(const page_t *in, page_t *out, int length) {{ return length; }}\n"
    )
}

#[test]
fn constant_initialization_vectors_are_reported() {
    let table = "unsigned char fixed[8] = { 1, 2 };";
    for vector in [
        "unsigned char iv[8];",
        "unsigned char iv[8] = { 1, 2, 3, 'a', -1 };",
        "char iv[9] = \"sameeach\";",
        "unsigned char iv[8]; fistMemCpy(iv, fixed, 8);",
        "unsigned char iv[8]; fistMemCpy(&iv[0], &fixed[0], sizeof(iv));",
        "unsigned char iv[8]; fistMemCpy(iv, \"sameeach\", 8); iv[3] = 7;",
        "unsigned char iv[8]; fistMemSet(iv, 0x5a, 8);",
    ] {
        assert_eq!(codes(&filter(table, vector)), ["F0305"], "{vector}");
    }
    for (declared, vector) in [
        (table, "unsigned char iv[8]; fistRandom(iv, 8);"),
        (table, "unsigned char iv[8]; fistMemCpy(iv, fixed, 8); iv[0] = page;"),
        (table, "unsigned char iv[8]; fistMemCpy(iv, &$vfs.vector, 8);"),
        (table, "unsigned char iv[8], *to = iv; fistMemCpy(to, fixed, 8); *to += page;"),
        (table, "unsigned char iv[8]; make(iv, page);"),
        (table, "unsigned char iv[8]; fistHash(digest, &page, 8); fistMemCpy(iv, digest, 8);"),
        (table, "unsigned char first = page, iv[8] = { first };"),
        (
            "unsigned char fixed[8]; void change(int to) { fixed[1] = to; }",
            "unsigned char iv[8]; fistMemCpy(iv, fixed, 8);",
        ),
    ] {
        let declared = format!("void make(unsigned char *iv, long page) {{ iv[0] = page; }}\n{declared}");
        let vector = format!("unsigned char digest[32]; {vector}");
        assert_eq!(codes(&filter(&declared, &vector)), [""; 0], "{vector}");
    }
    let sealed = |nonce: &str| {
        let body = format!("char to[60], key[32]; {nonce} fistSeal(to, \"x\", 1, key, nonce, 7);");
        codes(&format!("%%\n%op:mkdir:precall {{ {body} }}\n"))
    };
    assert_eq!(sealed("char nonce[24];"), ["F0305"]);
    assert_eq!(sealed("char nonce[24]; fistRandom(nonce, 24);"), [""; 0]);
    // What is read back is given as it was kept.
    let read = "char to[60], key[32], nonce[24]; fistUnseal(to, \"x\", 1, key, nonce, 7);";
    assert_eq!(codes(&format!("%%\n%op:mkdir:precall {{ {read} }}\n")), [""; 0]);
}

#[test]
fn rules_that_prevent_name_caching_are_reported() {
    let of = |rules: &str| codes(&format!("per_vfs {{ int n; }};\n%%\n{rules}\n"));
    let counts = "%op:lookup:postcall { $vfs.n++; }";
    assert_eq!(of(counts), ["F0304"]);
    assert_eq!(of("%readops:name:postcall { $vfs.n++; }"), ["F0304"]);
    // One that fires before a look-up sees them all anyway, and one that waits for an error costs nothing.
    assert_eq!(of(&format!("{counts}\n%op:lookup:precall {{ if ($name[0] == '.') fistRetErr(ENOENT); }}")), [""; 0]);
    assert_eq!(of("%op:lookup:postcall { if (fistLastErr() == 0) return; $vfs.n++; }"), [""; 0]);
    assert_eq!(of("%op:mkdir:postcall { $vfs.n++; }"), [""; 0]);
}

#[test]
fn needlessly_held_locks_are_reported() {
    let of = |rules: &str| codes(&format!("operations serial;\nper_vfs {{ int n; }};\n%%\n{rules}\n"));
    assert_eq!(of("%op:read:precall { $vfs.n++; }"), ["F0306"]);
    assert_eq!(of("%op:all:precall { $vfs.n++; }"), ["F0306"]);
    assert_eq!(of("%writeops:all:precall { $vfs.n++; }\n%op:open:precall { $vfs.n--; }"), [""; 0]);
    assert_eq!(codes("per_vfs { int n; };\n%%\n%op:read:precall { $vfs.n++; }\n"), [""; 0]);
    // In place of an operation, where nothing is asked for below, nobody waits; otherwise they do.
    assert_eq!(of("%op:readlink:call { $vfs.n++; fistSetErr(EINVAL); }"), [""; 0]);
    assert_eq!(of("%op:readlink:call { fistSetErr(fistOp($1)); }"), ["F0306"]);
}

/// The samples are right; what the paper's do, which they are, is told.
#[test]
fn samples_produce_only_the_warnings_due_to_the_paper() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fist");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "fist") {
            continue;
        }
        let loaded = plyfs_fist::load::load(&path).unwrap_or_else(|failure| panic!("{failure}"));
        let codes: Vec<_> = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
        let expected: &[&str] = match loaded.name.as_str() {
            "snoopfs" | "aclfs" => &["F0303"],
            "cryptfs" => &["F0305", "F0305"],
            _ => &[],
        };
        assert_eq!(codes, expected, "{}", loaded.name);
        seen += 1;
    }
    assert!(seen > 12);
}
