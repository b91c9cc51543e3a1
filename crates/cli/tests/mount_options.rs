//! The options that mount(8) knows: what they do to a mount, for `plyfs mount`, for mount(8) and in /etc/fstab, and as a remount.

mod support;

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Scratch, can_mount, copy_program, finish, requests, run, umount};

/// The options of the mount and of its file system, as the kernel shows them.
fn shown(mount: &str) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().rfind(|line| line.split(' ').nth(4) == Some(mount)).expect("it is mounted");
    let fields: Vec<&str> = line.split(' ').collect();
    [fields[5], fields[fields.len() - 1]].iter().flat_map(|words| words.split(',')).map(str::to_owned).collect()
}

/// Which of these words the kernel shows.
fn shown_of<'a>(mount: &str, words: &[&'a str]) -> Vec<&'a str> {
    let shown = shown(mount);
    words.iter().copied().filter(|word| shown.iter().any(|other| other == word)).collect()
}

/// What `status` tells of the options.
fn status(mount: &str) -> String {
    let status = run(["status", mount]).succeeded();
    let line = status.lines().find_map(|line| line.strip_prefix("options"));
    line.unwrap_or_default().trim().to_owned()
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn options_of_mount_and_fstab_are_taken() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    let silent = "defaults,auto,noauto,_netdev,nofail,x-systemd.automount,X-mount.mkdir=0755,comment=text,async,atime,\
                  diratime,relatime,norelatime,nostrictatime,nolazytime,iversion,noiversion,mand,nomand,nouser,noowner,\
                  nogroup,rw,exec,nosuid,nodev,silent,loud";
    run(["mount", "mem:", mount, "-o", silent]).succeeded();
    assert_eq!(status(mount), "");
    umount(mount);
    for (given, expected, of_kernel) in [
        ("noatime,nodiratime", "noatime,nodiratime", &["noatime", "nodiratime", "nosuid", "nodev"][..]),
        ("strictatime,lazytime", "strictatime,lazytime", &["lazytime", "nosuid", "nodev"]),
        ("suid,dev,user", "noexec", &["noexec", "nosuid", "nodev"]),
        ("users,exec,suid", "suid", &["nodev"]),
        ("group,dev", "dev", &["nosuid"]),
        ("owner,ro,sync,dirsync", "ro,sync,dirsync", &["ro", "sync", "dirsync", "nosuid", "nodev"]),
    ] {
        run(["mount", "mem:", mount, "-o", given]).succeeded();
        assert_eq!(status(mount), expected, "{given}");
        let all = ["noatime", "nodiratime", "lazytime", "ro", "sync", "dirsync", "noexec", "nosuid", "nodev"];
        let mut of_kernel = of_kernel.to_vec();
        of_kernel.sort_by_key(|word| all.iter().position(|other| other == word));
        assert_eq!(shown_of(mount, &all), of_kernel, "{given}");
        umount(mount);
    }
}

/// As on a mount of the kernel's with the same option, whether the server or the kernel itself reads.
#[test]
fn the_kernel_reads_ahead_as_far_as_requested() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    for (options, kilobytes) in [("rw", "512"), ("read_ahead=2000000", "1956"), ("read_ahead=0", "0")] {
        run(["mount", "mem:", mount, "-o", options]).succeeded();
        let device = fs::metadata(mount).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let set = fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")).unwrap();
        assert_eq!(set.trim(), kilobytes, "{options}");
        umount(mount);
    }
    let refused = run(["mount", "mem:", mount, "-o", "read_ahead=1m"]);
    assert!(refused.code == 2 && refused.errors.contains("'read_ahead' needs a number of bytes"), "{refused:?}");
}

#[test]
fn what_is_read_on_a_mount_without_access_times_keeps_them() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base, other) = (&scratch.name("mount"), &scratch.name("base"), &scratch.name("other"));
    let native = scratch.name("native");
    for directory in [base, other, &native] {
        fs::create_dir(directory).unwrap();
    }
    let call = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).status().unwrap().success(), "{arguments:?}");
    };
    call("mount", &["-t", "tmpfs", "-o", "strictatime,mode=777", "none", base]);
    fs::create_dir(Path::new(base).join("d")).unwrap();
    for name in ["f", "d/of_user"] {
        fs::write(Path::new(base).join(name), "x").unwrap();
    }
    std::os::unix::fs::chown(Path::new(base).join("d/of_user"), Some(65_534), None).unwrap();
    let long_ago = || {
        call(
            "touch",
            &["-a", "-d", "2001-01-01", &format!("{base}/f"), &format!("{base}/d"), &format!("{base}/d/of_user")],
        )
    };
    let is_kept = |name: &str| fs::metadata(Path::new(base).join(name)).unwrap().atime() < 1_000_000_000;
    // What others own, as a user that may not ask for that itself.
    let read = |directory: &str| {
        long_ago();
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let command = format!("cat {directory}/f {directory}/d/of_user && ls {directory}/d");
        let output = Command::new("setpriv").args(user).args(["sh", "-c", &command]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        ["f", "d/of_user", "d"].map(is_kept)
    };
    for (option, expected) in
        [("noatime", [true; 3]), ("nodiratime", [false, false, true]), ("strictatime", [false; 3])]
    {
        call("mount", &["--bind", base, &native]);
        call("mount", &["-o", &format!("remount,bind,{option}"), &native]);
        assert_eq!(read(&native), expected, "{option}: beside it");
        call("umount", &[&native]);
        for stack in [base.clone(), format!("{base} | audit(to=stderr)"), format!("{base}=rw, {other}=ro | union")] {
            for more in ["", ",nopassthrough"] {
                run(["mount", &stack, mount, "-o", &format!("allow_other,{option}{more}")]).succeeded();
                assert_eq!(read(mount), expected, "{option}{more}: {stack}");
                umount(mount);
            }
        }
    }
    run(["mount", base, mount, "-o", "allow_other"]).succeeded();
    assert_eq!(read(mount), [false; 3]);
    run(["mount", "-o", "remount,noatime", mount]).succeeded();
    assert_eq!(read(mount), [true; 3], "after a remount");
    umount(mount);
    call("umount", &[base]);
}

#[test]
fn set_id_bits_and_devices_have_no_effect_unless_root_asks() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
    fs::create_dir(base).unwrap();
    copy_program("/usr/bin/id", scratch.path("base/id"));
    fs::set_permissions(scratch.path("base/id"), Permissions::from_mode(0o4755)).unwrap();
    assert!(Command::new("mknod").arg(scratch.path("base/null")).args(["c", "1", "3"]).status().unwrap().success());
    let user_of_program = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        finish(command.arg(scratch.path("mount/id")).arg("-u").output()).succeeded()
    };
    let device = || number(File::open(scratch.path("mount/null")));
    for (options, user, error) in [
        ("rw", "65534\n", Some(libc::EACCES)),
        ("suid", "0\n", Some(libc::EACCES)),
        ("dev", "65534\n", None),
        ("suid,dev", "0\n", None),
    ] {
        run(["mount", base, mount, "-o", options]).succeeded();
        assert_eq!((user_of_program().as_str(), device()), (user, error), "{options}");
        umount(mount);
    }
    let program = scratch.path("plyfs");
    copy_program(env!("CARGO_BIN_EXE_plyfs"), &program);
    for option in ["suid", "dev"] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        let refused = finish(command.args(["mount", "mem:", mount, "-o", option]).output());
        let message = format!("plyfs: mount option '{option}' is for root only; leave it out\n");
        assert_eq!((refused.code, refused.errors), (9, message));
    }
}

/// Every change of a directory.
fn change_names(mount: &Path) -> Vec<(&'static str, Option<i32>)> {
    let at = |name: &str| mount.join(name);
    vec![
        ("create", number(File::create_new(at("new")))),
        ("mkdir", number(fs::create_dir(at("directory")))),
        ("symlink", number(symlink("target", at("symlink")))),
        ("mknod", number(std::os::unix::net::UnixListener::bind(at("socket")))),
        ("link", number(fs::hard_link(at("file"), at("link")))),
        ("rename", number(fs::rename(at("file"), at("renamed")))),
        ("unlink", number(fs::remove_file(at("other")))),
        ("rmdir", number(fs::remove_dir(at("empty")))),
    ]
}

/// truncate(2).
fn truncate(path: &Path, size: u64) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the path ends with a zero byte, and outlives the call.
    match unsafe { libc::truncate(path.as_ptr(), size as libc::off_t) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Every change of data.
fn change_data(mount: &Path) -> Vec<(&'static str, Option<i32>)> {
    let path = mount.join("data");
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let from = File::open(mount.join("from")).unwrap();
    let length = |size| number(file.set_len(size));
    let open = |options: &mut fs::OpenOptions| number(options.write(true).open(&path));
    let (allocate, copy) = (
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 16),
        rustix::fs::copy_file_range(&from, Some(&mut 0), &file, Some(&mut 0), 4),
    );
    vec![
        ("write", number(file.write_at(b"text", 0))),
        ("truncate", length(1000)),
        ("truncate a path", number(truncate(&path, 10))),
        ("open to truncate", open(File::options().truncate(true))),
        ("allocate", number(allocate.map_err(io::Error::from))),
        ("copy", number(copy.map_err(io::Error::from))),
    ]
}

/// Below is a file system where nothing reaches storage.
#[test]
fn with_sync_and_dirsync_what_cannot_be_stored_fails_at_once() {
    if !can_mount() {
        return;
    }
    for more in ["", " | rot13"] {
        let scratch = Scratch::new();
        let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
        fs::create_dir(base).unwrap();
        let stack = format!("{base} | faulty(operations=fsync, error=ENOSPC){more}");
        for (option, data_fail, names_fail) in [("async", false, false), ("dirsync", false, true), ("sync", true, true)]
        {
            ["file", "data", "from", "other"]
                .iter()
                .for_each(|name| fs::write(scratch.path(base).join(name), "text").unwrap());
            let _ = fs::create_dir(scratch.path("base/empty"));
            run(["mount", &stack, mount, "-o", option]).succeeded();
            for (what, error) in change_data(&scratch.mount()) {
                assert_eq!(error, data_fail.then_some(libc::ENOSPC), "{what} with {option}{more}");
            }
            for (what, error) in change_names(&scratch.mount()) {
                assert_eq!(error, names_fail.then_some(libc::ENOSPC), "{what} with {option}{more}");
            }
            umount(mount);
            fs::remove_dir_all(base).unwrap();
            fs::create_dir(base).unwrap();
        }
    }
}

#[test]
fn with_sync_no_write_passes_the_server_by() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
    fs::create_dir(base).unwrap();
    let file = scratch.path("mount/file");
    run(["mount", base, mount, "-o", "sync"]).succeeded();
    fs::write(&file, "text").unwrap();
    assert_eq!(requests(mount, "write"), 1);
    run(["mount", "-o", "remount,async", mount]).succeeded();
    fs::write(&file, "text").unwrap();
    let of_async = requests(mount, "write") - 1;
    run(["mount", "-o", "remount,sync", mount]).succeeded();
    fs::write(&file, "text").unwrap();
    assert_eq!(requests(mount, "write"), of_async + 2);
    assert_eq!(fs::read_to_string(scratch.path("base/file")).unwrap(), "text");
    umount(mount);
}

/// The kernel asks for the fsync of what goes through its cache.
#[test]
fn with_sync_what_the_kernel_caches_is_stored_at_once() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
    fs::create_dir(base).unwrap();
    for options in ["nopassthrough", "writes=back"] {
        for (option, expected) in [("async", 0), ("sync", 2)] {
            run(["mount", base, mount, "-o", &format!("{options},{option}")]).succeeded();
            let file = File::create(scratch.path("mount/file")).unwrap();
            (0..2).for_each(|place| file.write_all_at(b"text", place).unwrap());
            assert_eq!(requests(mount, "fsync"), expected, "{options},{option}");
            drop(file);
            umount(mount);
        }
    }
}

#[test]
fn a_remount_changes_flags_and_tells_why_not() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
    fs::create_dir(base).unwrap();
    let remount = |options: &str| run(["mount", "-o", &format!("remount,{options}"), mount]);
    run(["mount", base, mount, "-o", "noexec,attr_timeout=5"]).succeeded();
    remount("ro,noatime,nodiratime").succeeded();
    assert_eq!(shown_of(mount, &["ro", "noexec", "nosuid", "nodev", "noatime", "nodiratime"]).len(), 6);
    assert_eq!(status(mount), "ro,noexec,noatime,nodiratime,attr_timeout=5");
    assert_eq!(number(File::create(scratch.path("mount/file"))), Some(libc::EROFS));
    remount("rw,suid,exec,strictatime,attr_timeout=5,allow_other,user_id=0").succeeded();
    assert_eq!(status(mount), "suid,strictatime,nodiratime,attr_timeout=5");
    assert_eq!(shown_of(mount, &["ro", "noexec", "nosuid", "nodev", "noatime"]), ["nodev"]);

    let mut file = File::create(scratch.path("mount/file")).unwrap();
    let busy = remount("ro");
    let message = format!(
        "plyfs: files on {mount} are open for writing, so it cannot become read-only; \
         end the programs that write (fuser -vm {mount} lists them)\n"
    );
    assert_eq!((busy.code, busy.errors), (12, message));
    assert_eq!(status(mount), "suid,strictatime,nodiratime,attr_timeout=5");
    io::Write::write_all(&mut file, b"text").unwrap();
    drop(file);

    let fixed = |option: &str| {
        let refused = remount(option);
        let message = format!("plyfs: mount option '{option}' cannot be changed while {mount} is mounted; ");
        assert!(refused.code == 2 && refused.errors.starts_with(&message), "{refused:?}");
    };
    ["attr_timeout=6", "dirsync", "noallow_other", "locks=kernel", "nopassthrough"].into_iter().for_each(fixed);
    for (words, code, message) in [
        (&["-o", "remount,ro", "mem:", mount][..], 2, "is a mount of"),
        (&["-o", "remount,ro", "--over", mount, ""], 2, "a remount changes only mount options; "),
        (&["-f", "-o", "remount,ro", mount], 2, "a remount changes only mount options; "),
        (&["-o", "remount,rw,noatme", mount], 2, "did you mean 'noatime'?"),
        (&["-o", "remount,ro", base], 11, "there is no mount of Plyfs on"),
        (&["-o", "remount,ro", "/none"], 11, "there is no mount of Plyfs on"),
        (&["-o", "remount,ro", "/proc"], 11, "/proc is a mount of type proc, not of Plyfs; "),
        (&["-o", "ro", mount], 2, "the following required arguments were not provided: <MOUNTPOINT>"),
        (&["-o", "user_id=0", "mem:", mount], 2, "unknown mount option 'user_id'"),
    ] {
        let refused = finish(support::plyfs().arg("mount").args(words).output());
        assert_eq!((refused.code, refused.errors.lines().count()), (code, 1), "{words:?}: {refused:?}");
        assert!(refused.errors.contains(message), "{words:?}: {refused:?}");
    }
    // The same stack may be named.
    run(["mount", "-o", "remount,ro", base, mount]).succeeded();
    assert_eq!(shown_of(mount, &["ro"]), ["ro"]);
    umount(mount);
}

#[test]
fn over_and_the_log_are_mount_options() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base, log) = (&scratch.name("mount"), &scratch.name("base"), &scratch.name("log"));
    fs::create_dir(base).unwrap();
    fs::write(scratch.path("base/file"), "below").unwrap();
    let remount = |options: &str| run(["mount", "-o", &format!("remount,{options}"), base]);
    let refused = |run: support::Run, message: &str| {
        assert!(run.code == 2 && run.errors.contains(message) && run.errors.lines().count() == 1, "{run:?}");
    };
    let audit = "audit(to=/dev/null)";
    let options = format!("over,log-file={log},log-level=\"warn,cli=debug\"");
    for stack in [audit.to_owned(), format!("{base} | {audit}")] {
        run(["mount", &stack, base, "-o", &options]).succeeded();
        assert_eq!(fs::read_to_string(scratch.path("base/file")).unwrap(), "below");
        assert_eq!(status(base), format!("over,log-file={log}"), "{stack}");
        assert_eq!(run(["log-level", base]).succeeded(), "warn,cli=debug\n");
        remount(&format!("over,log-file={log},noexec,log-level=info")).succeeded();
        assert_eq!(status(base), format!("noexec,over,log-file={log}"), "{stack}");
        assert_eq!(run(["log-level", base]).succeeded(), "info\n");
        refused(remount("log-file=/other"), "mount option 'log-file=/other' cannot be changed while ");
        refused(remount("exec,log-level=loud"), "'loud' is not a log level");
        assert_eq!(status(base), format!("noexec,over,log-file={log}"), "{stack}");
        umount(base);
        assert_eq!(fs::metadata(log).unwrap().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(log).unwrap().lines().last().unwrap().contains("unmounted"), "{stack}");
        fs::remove_file(log).unwrap();
    }
    run(["mount", base, mount]).succeeded();
    refused(run(["mount", "-o", "remount,over", mount]), "mount option 'over' cannot be changed while ");
    umount(mount);
    refused(run(["mount", base, mount, "-o", "over"]), "is not on ");
    refused(run(["mount", "mem:", mount, "-o", "over"]), "is not on ");
    refused(run(["mount", "-o", "over", "readonly"]), "<MOUNTPOINT>");
    refused(run(["mount", "-o", &format!("over,lowerdir={base}"), mount]), "leave one of them out");
    refused(run(["mount", "mem:", mount, "-o", "log-level=loud"]), "'loud' is not a log level");
    let unwritable = run(["mount", "mem:", mount, "-o", "log-file=/none/log"]);
    assert!(unwritable.code == 1 && unwritable.errors.contains("cannot open the log file /none/log"), "{unwritable:?}");
}

/// What is only in a mapping is written before flags change; where that fails, they stay.
#[test]
fn a_remount_stores_what_was_written_first() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
    fs::create_dir(base).unwrap();
    run(["mount", &format!("{base} | faulty(operations=write, error=EIO)"), mount]).succeeded();
    let script = "import mmap, sys\n\
                  file = open(sys.argv[1], 'w+b')\n\
                  file.truncate(4096)\n\
                  mapping = mmap.mmap(file.fileno(), 4096)\n\
                  mapping[:4] = b'text'\n\
                  print(flush=True)\n\
                  sys.stdin.read()";
    let mut writer = Command::new("python3");
    writer.args(["-c", script]).arg(scratch.path("mount/file")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let refused = run(["mount", "-o", "remount,noexec", mount]);
    let message = format!("plyfs: what was written to {mount} cannot be stored: Input/output error");
    assert!(refused.code == 1 && refused.errors.starts_with(&message), "{refused:?}");
    assert_eq!(shown_of(mount, &["noexec"]), [""; 0]);
    run(["control", mount, "faulty", "off"]).succeeded();
    // The kernel does not try again by itself what has failed.
    fs::write(scratch.path("mount/other"), "text").unwrap();
    run(["mount", "-o", "remount,noexec", mount]).succeeded();
    assert_eq!(shown_of(mount, &["noexec"]), ["noexec"]);
    drop(writer.stdin.take());
    writer.wait().unwrap();
    umount(mount);
}

/// Runs a script where `plyfs` is the helper of mount(8), /etc/fstab has these lines and users may open /dev/fuse.
fn with_fstab(scratch: &Scratch, fstab: &str, script: &str) -> support::Run {
    fs::write(scratch.path("fstab"), fstab).unwrap();
    fs::create_dir_all(scratch.path("device")).unwrap();
    copy_program(env!("CARGO_BIN_EXE_plyfs"), scratch.path("plyfs"));
    let directory = scratch.name("");
    let script = format!(
        "set -e; cd {directory}
        mount -t tmpfs -o mode=755 none /usr/sbin
        for name in mount.plyfs mount.fuse.plyfs; do ln -s {directory}plyfs /usr/sbin/$name; done
        mount --bind fstab /etc/fstab
        mount -t tmpfs -o mode=755 none device; mknod -m 666 device/fuse c 10 229; mount --bind device/fuse /dev/fuse
        shown() {{ awk -v point={directory}mount '$5 == point {{ print $6, $NF }}' /proc/self/mountinfo; }}
        user() {{ setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; }}
        {script}"
    );
    finish(Command::new("unshare").args(["--mount", "sh", "-c", &script]).output())
}

/// Whether mount(8) looks for its helpers where a test can put them.
fn can_use_helpers() -> bool {
    let can = can_mount() && fs::read_link("/sbin").is_ok_and(|link| link.ends_with("usr/sbin"));
    if !can {
        eprintln!("skipped: needs root, /dev/fuse and /sbin as a link to /usr/sbin");
    }
    can
}

#[test]
fn lines_of_fstab_with_the_options_of_overlayfs_are_remounted() {
    if !can_use_helpers() {
        return;
    }
    let scratch = Scratch::new();
    let [lower, upper, work, mount] = ["lower", "upper", "work", "mount"].map(|name| scratch.name(name));
    [&lower, &upper, &work].iter().for_each(|path| fs::create_dir(path).unwrap());
    let fstab = format!("overlay {mount} plyfs lowerdir={lower},upperdir={upper},workdir={work},noexec 0 0\n");
    let script = "
        mount mount; shown
        mount -o remount,ro mount; shown
        : > /etc/fstab
        mount -o remount,rw mount; shown
        umount mount";
    let done = with_fstab(&scratch, &fstab, script);
    assert_eq!((done.code, done.errors.as_str()), (0, ""), "{done:?}");
    let access: Vec<_> = done.output.lines().map(|line| line.split(',').next().unwrap_or_default()).collect();
    assert_eq!(access, ["rw", "ro", "rw"], "{done:?}");
    let both = run(["mount", "-o", &format!("lowerdir={lower}"), &format!("{lower} | readonly"), &mount]);
    assert!(both.code == 2 && both.errors.contains("leave one of them out"), "{both:?}");
}

#[test]
fn lines_of_fstab_are_mounted_once_and_remounted() {
    if !can_use_helpers() {
        return;
    }
    for stack in ["{}|readonly", r"{}\040|\040audit(to=/dev/null)", "{}", "{}//./|readonly", "link", "mem:"] {
        let scratch = Scratch::new();
        let (base, mount) = (scratch.name("base"), scratch.name("mount"));
        fs::create_dir(&base).unwrap();
        symlink(&base, scratch.path("link")).unwrap();
        let stack = stack.replace("{}", &base).replace("link", &scratch.name("link"));
        let options = "nofail,_netdev,x-systemd.automount,comment=text,noatime,noexec,sync";
        let fstab = format!("{stack} {mount} plyfs {options} 0 0\n");
        let script = "
            mount -a; shown | wc -l
            mount -a; shown | wc -l
            mount -o remount,ro mount; shown
            mount -o remount,rw,exec,async mount; shown
            : > /etc/fstab
            mount -o remount,nosuid,ro mount; shown
            umount mount; shown";
        let done = with_fstab(&scratch, &fstab, script);
        let all = "user_id=0,group_id=0,allow_other";
        let expected = [
            "1".to_owned(),
            "1".to_owned(),
            format!("ro,nosuid,nodev,noexec,noatime ro,sync,{all}"),
            format!("rw,nosuid,nodev,noatime rw,{all}"),
            format!("ro,nosuid,nodev,noatime ro,{all}"),
        ];
        assert_eq!((done.code, done.errors.as_str()), (0, ""), "{stack}: {done:?}");
        // Who checks permissions depends on the stack.
        let output = done.output.replace(",default_permissions", "");
        assert_eq!(output.lines().collect::<Vec<_>>(), expected, "{stack}");
    }
}

#[test]
fn lines_of_fstab_name_the_directory_below_and_the_log() {
    if !can_use_helpers() {
        return;
    }
    for kind in ["plyfs", "fuse.plyfs"] {
        let scratch = Scratch::new();
        let (mount, log) = (scratch.name("mount"), scratch.name("log"));
        let fstab =
            format!("{mount}|audit(to=/dev/null) {mount} {kind} over,log-file={log},log-level=debug,noexec 0 0\n");
        let script = "
            echo below > mount/file
            mount -a; shown | wc -l
            mount -a; shown | wc -l
            cat mount/file
            ./plyfs status mount | grep ^options
            ./plyfs log-level mount
            mount -o remount,log-level=warn,exec mount; ./plyfs log-level mount
            mount -o remount,log-file=/other mount 2>&1 || echo refused
            mount -o remount,log-level=info mount
            ./plyfs umount mount; shown
            grep -c unmounted log";
        let done = with_fstab(&scratch, &fstab, script);
        assert_eq!((done.code, done.errors.as_str()), (0, ""), "{kind}: {done:?}");
        let lines: Vec<&str> = done.output.lines().collect();
        let options = format!("options      noexec,over,log-file={log}");
        assert_eq!(lines[..6], ["1", "1", "below", options.as_str(), "debug", "warn"], "{kind}: {done:?}");
        let refused = "plyfs: mount option 'log-file=/other' cannot be changed while ";
        assert!(lines[6].starts_with(refused), "{kind}: {done:?}");
        assert_eq!(lines[lines.len() - 2..], ["refused", "1"], "{kind}: {done:?}");
    }
}

#[test]
fn users_mount_and_unmount_what_fstab_lets_them() {
    if !can_use_helpers() || !Path::new("/usr/bin/fusermount3").exists() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    std::os::unix::fs::chown(&mount, Some(65_534), Some(65_534)).unwrap();
    let script = "
        user mount mount; shown
        user ./plyfs mount -o remount,ro mount 2>&1 || echo $?
        user umount mount; shown
        user mount mount; umount mount; shown
        mount mount; user umount mount 2>&1 || echo refused; umount mount";
    let done =
        with_fstab(&scratch, &format!("mem:|readonly {mount} plyfs noauto,user,noatime,sync,dirsync 0 0\n"), script);
    assert_eq!((done.code, done.errors.as_str()), (0, ""), "{done:?}");
    let lines: Vec<&str> = done.output.lines().collect();
    assert!(
        // A stack that is read-only is mounted so.
        lines[0].starts_with("ro,nosuid,nodev,noexec,noatime ") && lines[0].contains(" ro,sync,dirsync,user_id=65534"),
        "{done:?}"
    );
    let only_root = format!(
        "plyfs: only root may change the options of {mount}; unmount it, and mount it again with the new options"
    );
    assert_eq!(lines[1..3], [&only_root, "9"]);
    assert_eq!((lines.len(), lines[4]), (5, "refused"), "{done:?}");

    let done = with_fstab(
        &scratch,
        &format!("mem:|readonly {mount} plyfs noauto,users 0 0\n"),
        "mount mount; shown; user umount mount; shown",
    );
    assert_eq!((done.code, done.errors.as_str(), done.output.lines().count()), (0, "", 1), "{done:?}");
}
