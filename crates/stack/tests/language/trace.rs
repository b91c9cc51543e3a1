//! What `debug on` logs: each operation with its arguments, and how it went.

use vnode::{Caller, Errno};

use super::{create, described, logged, name, write};

#[test]
fn operations_are_logged_with_their_arguments_and_results() {
    let rules = "debug on;\n%%\n%op:mkdir:precall { $mode = 0700; }\n%op:rmdir:precall { fistRetErr(EPERM); }\n";
    let log = logged(|| {
        let mount = described("traced", rules, &[]);
        let (root, server) = (mount.root(), Caller::server());
        mount.mkdir("d").unwrap();
        assert_eq!(root.rmdir(&server, name("d")), Err(Errno::EPERM));
        assert_eq!(root.lookup(&server, name("no\nthing")).err(), Some(Errno::ENOENT));
        write(&root, &server, "file", b"secret").unwrap();
        let file = root.lookup(&server, name("file")).unwrap().vnode;
        file.setxattr(&server, b"user.key", b"secret", vnode::XattrMode::Set).unwrap();
        assert_eq!(file.getxattr(&server, b"user.key").unwrap(), b"secret");
        assert_eq!(super::names_in(&root), ["d", "file"]);
    });
    for expected in [
        r#"mkdir(name="d", mode=0755): rules have made it mkdir(name="d", mode=0700)"#,
        r#"mkdir(name="d", mode=0755) = ino="#,
        " mode=040700 ",
        r#"rmdir(name="d") = EPERM"#,
        r#"lookup(name="no\nthing") = ENOENT"#,
        r#"create(name="file", mode=0644, flags="#,
        "write(offset=0, length=6) = 6",
        r#"setxattr(xattr="user.key", length=6) = 0"#,
        r#"getxattr(xattr="user.key") = 6 bytes"#,
        "opendir() = open",
        "readdir() = 0",
        "release() = 0",
        r#"path="file""#,
    ] {
        assert!(log.contains(expected), "{expected}\n{log}");
    }
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn what_the_access_mode_refuses_is_logged_and_nothing_where_nothing_is_said() {
    let log = |declared: &str| {
        logged(|| {
            let mount = described("traced", &format!("{declared}\n%%\n"), &[]);
            let _ = mount.mkdir("d");
            let _ = create(&mount.root(), &Caller::server(), "file");
        })
    };
    let refused = log("debug on;\naccessmode readonly;");
    assert!(refused.contains(r#"mkdir(name="d", mode=0755) = EROFS"#), "{refused}");
    assert!(!log("accessmode readonly;").contains("mkdir"));
    assert!(!log("debug off;").contains("create"));
}
