//! Linux's isofs beside `iso`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guest::{command, load};
use crate::support::{Scratch, run as plyfs, umount};
use crate::{source, tree};

/// Compares images of all kinds.
pub(crate) fn run() {
    load(&["isofs", "nls_utf8"]);
    let scratch = Scratch::new();
    let source = scratch.path("source");
    make(&source);
    for (name, program, options) in [
        ("Rock Ridge of genisoimage", "genisoimage", &["-R"][..]),
        ("Rock Ridge of xorriso", "xorriso", &["-R"]),
        ("Joliet", "genisoimage", &["-J", "-joliet-long", "-input-charset", "utf-8"]),
        ("both", "xorriso", &["-R", "-J", "-joliet-long"]),
        ("zisofs", "genisoimage", &["-R", "-z"]),
    ] {
        let image = scratch.path("image.iso");
        let _ = fs::remove_file(&image);
        let tree = if name == "zisofs" { compressed(&source, &scratch) } else { source.clone() };
        image_of(program, options, &image, &tree);
        compare(name, &image, &scratch, name == "Joliet");
    }
}

/// Makes the tree: objects of all kinds, and directories deeper than ISO 9660 allows.
fn make(root: &Path) {
    source::make(root);
    // Linux cuts off longer names.
    fs::rename(root.join("l".repeat(255)), root.join("l".repeat(240))).unwrap();
    let deep = root.join("1/2/3/4/5/6/7/8/9/10");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("leaf"), "leaf").unwrap();
    fs::hard_link(root.join("lower.txt"), root.join("another name")).unwrap();
    symlink("a directory/../a directory/inner", root.join("link")).unwrap();
    symlink("/".to_owned() + &"part/".repeat(40), root.join("long link")).unwrap();
    command(Command::new("mkfifo").arg(root.join("fifo")));
    command(Command::new("mknod").arg(root.join("device")).args(["b", "7", "30"]));
    command(Command::new("chown").arg("12:34").arg(root.join("device")));
    command(Command::new("chmod").arg("4751").arg(root.join("lower.txt")));
}

fn compressed(source: &Path, scratch: &Scratch) -> PathBuf {
    let path = scratch.path("compressed");
    command(Command::new("mkzftree").arg(source).arg(&path));
    path
}

fn image_of(program: &str, options: &[&str], image: &Path, tree: &Path) {
    let mut make = Command::new(program);
    if program == "xorriso" {
        make.args(["-as", "mkisofs"]);
    }
    command(make.arg("-quiet").args(options).arg("-o").arg(image).arg(tree));
}

fn compare(name: &str, image: &Path, scratch: &Scratch, is_joliet: bool) {
    let mount_point = scratch.mount();
    let mount_text = mount_point.to_str().unwrap();
    let mut options = "loop,ro".to_owned();
    if is_joliet {
        options += ",iocharset=utf8,uid=0,gid=0,mode=0555,dmode=0555";
    }
    command(Command::new("mount").args(["-t", "iso9660", "-o", &options]).arg(image).arg(&mount_point));
    eprintln!("{name}, by the kernel");
    let mut by_kernel = tree::read(&mount_point);
    // The place of relocated directories, empty where it is seen at all.
    by_kernel.remove("rr_moved");
    command(Command::new("umount").arg(&mount_point));
    plyfs(["mount", &format!("iso:{}(uid=0,gid=0)", image.display()), mount_text]).succeeded();
    eprintln!("{name}, by plyfs");
    let mut by_plyfs = tree::read(&mount_point);
    umount(mount_text);
    if is_joliet {
        // Linux has those of a directory from its own first record, which differs from that in its parent.
        for tree in [&mut by_kernel, &mut by_plyfs] {
            tree.values_mut().filter(|object| object.is_directory()).for_each(|object| object.modified = 0);
        }
    }
    assert!(by_plyfs.len() > 150, "{name}: it shows something");
    tree::assert_same(&by_plyfs, &by_kernel, name);
}
