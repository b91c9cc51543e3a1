//! Quotafs: all ways to gain bytes, one after the other and at once, with a limit of 10,000.

use std::fs;

use super::Mounted;

fn mounted() -> Option<Mounted> {
    Mounted::new("quotafs", &[("limit", "10000")])
}

/// The sizes of all files of the mount together.
fn total(mounted: &Mounted) -> u64 {
    let entries = fs::read_dir(mounted.directories.base()).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn no_way_to_grow_passes_the_limit() {
    let Some(mounted) = mounted() else { return };
    fs::write(mounted.below("source"), vec![1; 100_000]).unwrap();
    let ways = [
        "head -c 20000 /dev/zero > file",
        "head -c 6000 /dev/zero > file && head -c 6000 /dev/zero >> file",
        "dd if=/dev/zero of=file bs=1 count=1 seek=20000 2>/dev/null",
        "truncate -s 20000 file",
        "truncate -s 9223372036854775807 file",
        "fallocate -l 20000 file",
        "fallocate -n -l 20000 file",
        "fallocate -n -o 5000 -l 20000 file",
        "fallocate -z -l 20000 file",
        "fallocate -z -n -l 20000 file",
        "fallocate -l 9000 file && fallocate -i -o 0 -l 4096 file",
        "cp source file",
        "cp --reflink=always source file",
        "perl -e 'open(F, \">>\", \"file\"); print F \"x\" x 9000; close F; truncate(\"file\", 20000) or exit 1'",
    ];
    for way in ways {
        assert_eq!(mounted.user(&format!("touch file; {way}")), None, "{way}");
        let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(mounted.below("file")).unwrap());
        assert!(total(&mounted) <= 110_000 && blocks * 512 < 20_000, "{way}");
        assert!(
            mounted.user("rm file && head -c 10000 /dev/zero > all && rm all").is_some(),
            "{way}: all is counted back"
        );
    }
}

#[test]
fn writers_at_once_do_not_pass_it_together() {
    let Some(mounted) = mounted() else { return };
    let one = "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=f$i bs=50 count=200 2>/dev/null & done; wait";
    mounted.user(one).unwrap();
    assert!(total(&mounted) <= 10_000, "{}", total(&mounted));
    assert!(mounted.user("rm f* && head -c 10000 /dev/zero > all && rm all").is_some(), "all is counted back");
    // To one file, and cut meanwhile.
    let many = "for i in 1 2 3 4 5 6; do (for k in 1 2 3 4 5 6; do head -c 900 /dev/zero >> same; truncate -s 0 same; \
                truncate -s 700 same; done) 2>/dev/null & done; wait; truncate -s 0 same";
    mounted.user(many).unwrap();
    assert!(mounted.user("head -c 10001 /dev/zero > all").is_none(), "more than all");
    assert!(mounted.user("head -c 10000 /dev/zero > all").is_some(), "all");
}

#[test]
fn deleted_files_count_until_they_are_closed() {
    let Some(mounted) = mounted() else { return };
    let held = "head -c 8000 /dev/zero > file; exec 3< file; rm file; head -c 8000 /dev/zero > more";
    assert_eq!(mounted.user(held), None);
    // Closing is told a moment later.
    let again = "rm more; for i in 1 2 3 4 5 6 7 8 9; do head -c 8000 /dev/zero > more 2>/dev/null && exit 0; sleep 0.1; done; exit 1";
    assert!(mounted.user(again).is_some());
    // What takes the place of another, and what is deleted twice over, counts once.
    assert!(
        mounted.user("truncate -s 0 more; head -c 5000 /dev/zero > a; head -c 5000 /dev/zero > b; mv a b").is_some()
    );
    assert!(mounted.user("head -c 5001 /dev/zero > c").is_none());
    assert!(mounted.user("rm c; head -c 5000 /dev/zero > c; ln c d; rm c; head -c 1 /dev/zero > e").is_none());
    assert!(mounted.user("rm d; head -c 5000 /dev/zero > e").is_some());
    let reached = "perl -e 'sysopen(F, \"e\", 010000000) or exit 2; unlink \"e\"; open(G, \"+<\", \"/proc/self/fd/\" . fileno(F)) and exit 3; \
                   truncate(\"/proc/self/fd/\" . fileno(F), 0) and exit 4; exit 0'";
    assert!(mounted.user(reached).is_some(), "what counted back is not opened again, nor cut");
    assert!(mounted.user("head -c 5001 /dev/zero > e").is_none(), "it counted back once");
}

#[test]
fn users_do_not_count_for_each_other() {
    let Some(mounted) = mounted() else { return };
    fs::write(mounted.path("root"), vec![0; 100_000]).unwrap();
    let as_uid = |uid: u32, count: u32| {
        let file = mounted.path(&format!("of{uid}"));
        let command = format!("head -c {count} /dev/zero > {}", file.display());
        let mut shell = std::process::Command::new("sh");
        std::os::unix::process::CommandExt::uid(&mut shell, uid);
        shell.args(["-c", &command]).stderr(std::process::Stdio::null()).status().unwrap().success()
    };
    assert!(as_uid(1024, 10_000) && as_uid(2048, 10_000), "numbers that are alike are not the same");
    assert!(!as_uid(70_000, 1), "nobody counts for those");
    // What is given to a user is the user's.
    std::os::unix::fs::chown(mounted.path("root"), Some(1024), None).unwrap();
    fs::remove_file(mounted.path("of1024")).unwrap();
    assert!(!as_uid(1024, 1));
}
