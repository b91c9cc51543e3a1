//! A live CD: its image, under a layer of changes, is the root of a guest.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::guest::{command, script};
use crate::support::Scratch;

/// The first process of the CD. At the first start it changes what is there, at the second it finds these changes.
const INIT: &str = r#"#!/bin/sh
fail() { echo "failed: $*"; poweroff -f; }
export PATH=/bin
grep -q ' / fuse.plyfs rw' /proc/mounts || fail "the root is not a union"
(cd / && sha256sum -c -s /checksums) || fail "files of the CD differ"
if [ ! -e /etc/started ]; then
    echo "first start"
    [ "$(stat -c %u:%g:%a /etc/secret)" = 0:42:640 ] || fail "owners of Rock Ridge"
    echo changed >>/etc/motd && [ "$(cat /etc/motd)" = "$(printf 'welcome\nchanged')" ] || fail "appending"
    cp -p /checksums /etc/copy && rm /usr/share/large && mv /usr/share/old /usr/share/new || fail "changing names"
    mkdir -p /var/log && chown 7:7 /etc/secret && ln -s new /usr/share/link || fail "creating"
    rm -r /usr/share/tree && mkdir /usr/share/tree && [ -z "$(ls /usr/share/tree)" ] || fail "a directory in place of one of the CD"
    mkfifo /var/fifo && (echo through >/var/fifo &) && [ "$(cat /var/fifo)" = through ] || fail "a FIFO"
    echo '#!/bin/sh
echo a new program' >/bin/new && chmod +x /bin/new && [ "$(/bin/new)" = "a new program" ] || fail "a new program"
    touch /etc/started
else
    echo "second start"
    [ "$(tail -n 1 /etc/motd)" = changed ] && [ ! -e /usr/share/large ] && [ -e /usr/share/new/file ] || fail "changes are lost"
    [ "$(stat -c %u /etc/secret)" = 7 ] && [ "$(/bin/new)" = "a new program" ] && [ -z "$(ls /usr/share/tree)" ] || fail "more are lost"
fi
sync
echo "live: done"
poweroff -f
"#;

/// Boots the CD twice.
pub(crate) fn run() {
    let scratch = Scratch::new();
    let tree = scratch.path("cd");
    make(&tree);
    let (image, changes) = (scratch.path("live.iso"), scratch.path("changes"));
    command(Command::new("genisoimage").args(["-quiet", "-R", "-o"]).arg(&image).arg(&tree));
    fs::File::create(&changes).unwrap().set_len(64 << 20).unwrap();
    command(Command::new("mkfs.ext4").arg("-q").arg(&changes));
    let before = fs::read(&image).unwrap();
    for start in ["first start", "second start"] {
        let output = Command::new(script("live-guest"))
            .arg(env!("CARGO_BIN_EXE_plyfs"))
            .args([&image, &changes])
            .output()
            .expect("the guest is started");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(start) && said.contains("live: done"), "{start}: {}\n{said}", output.status);
    }
    assert!(before == fs::read(&image).unwrap(), "the CD is as it was");
}

/// Makes the tree of a small system.
fn make(tree: &Path) {
    let at = |name: &str| tree.join(name);
    for name in ["bin", "sbin", "dev", "proc", "etc", "usr/share/old", "usr/share/tree/inner"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    command(Command::new("cp").arg("/bin/busybox").arg(at("bin/busybox")));
    let commands = "sh cat cp grep ls ln mkdir mkfifo mv poweroff printf rm sha256sum stat sync tail touch chmod chown";
    for name in commands.split(' ') {
        symlink("busybox", at("bin").join(name)).unwrap();
    }
    fs::write(at("sbin/init"), INIT).unwrap();
    fs::set_permissions(at("sbin/init"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(at("etc/motd"), "welcome\n").unwrap();
    fs::write(at("etc/secret"), "secret").unwrap();
    command(Command::new("chown").arg("0:42").arg(at("etc/secret")));
    fs::set_permissions(at("etc/secret"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(at("usr/share/large"), vec![7; 3 << 20]).unwrap();
    for name in ["usr/share/old/file", "usr/share/tree/file", "usr/share/tree/inner/file"] {
        fs::write(at(name), name).unwrap();
    }
    // Of what the first start leaves as it is.
    let sums = Command::new("sha256sum").args(["bin/busybox", "sbin/init"]).current_dir(tree).output().unwrap();
    assert!(sums.status.success());
    fs::write(at("checksums"), sums.stdout).unwrap();
}
