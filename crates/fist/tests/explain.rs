//! What is told of a description.

mod common;

#[test]
fn what_fires_is_told_in_its_order() {
    let text = "accessmode readonly;\nmntdata { int limit; };\nioctl:fromuser SET { int x; };\n%%\n\
        %op:unlink:postcall { }\n%delops:all:precall { }\n%op:unlink { }\n%op:readdir:call { }\n%op:ioctl:SET { }\n";
    let program = common::program("example", text);
    let expected = "example:\n  nothing can be changed\n  takes the option limit=VALUE\n\
        ioctl SET (0x40044601) takes x\n  %op:ioctl:SET (line 9)\n\
        unlink\n  %delops:all:precall (line 6)\n  %op:unlink (line 7), in its place\n  %op:unlink:postcall (line 5)\n\
        rmdir\n  %delops:all:precall (line 6)\n  the operation below\n\
        rename\n  %delops:all:precall (line 6)\n  the operation below\n\
        readdir\n  %op:readdir:call (line 8), for each name\n";
    assert_eq!(plyfs_fist::explain::explain(&program, text), expected);
}
