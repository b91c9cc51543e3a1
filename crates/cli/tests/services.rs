//! Servers as services: what they report to a service manager, and the units in the documentation.

mod support;

use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{Scratch, can_mount, finish, is_mounted, plyfs, umount};

/// A service manager, which receives notifications.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(scratch: &Scratch) -> Self {
        let path = scratch.name("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, path }
    }

    /// Waits for a notification, and returns its lines.
    fn notification(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).expect("a notification arrives");
        String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_server_in_the_foreground_reports_when_it_is_usable_and_when_it_stops() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (manager, mount) = (Manager::new(&scratch), scratch.name("mount"));
    for ends_by_signal in [true, false] {
        let mut command = plyfs();
        command.args(["mount", "-f", "mem: | readonly", &mount]).env("NOTIFY_SOCKET", &manager.path);
        let mut server = command.stderr(Stdio::null()).spawn().unwrap();
        let ready = manager.notification();
        assert!(is_mounted(&scratch.mount()), "it is ready before the mount is there");
        assert_eq!(ready, ["READY=1".to_owned(), format!("STATUS=Serving mem: | readonly on {mount}")]);
        if ends_by_signal {
            kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
            assert_eq!(manager.notification(), ["STOPPING=1".to_owned(), format!("STATUS=Unmounting {mount}")]);
        } else {
            umount(&mount);
        }
        let stored = format!("STATUS={mount} is unmounted; storing what was written");
        assert_eq!(manager.notification(), ["STOPPING=1".to_owned(), stored]);
        assert!(server.wait().unwrap().success());
    }
}

#[test]
fn a_server_in_the_background_notifies_nobody() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (manager, mount) = (Manager::new(&scratch), scratch.name("mount"));
    finish(plyfs().args(["mount", "mem:", &mount]).env("NOTIFY_SOCKET", &manager.path).output()).succeeded();
    umount(&mount);
    manager.socket.set_nonblocking(true).unwrap();
    let received = manager.socket.recv(&mut [0; 4096]).map_err(|error| error.kind());
    assert_eq!(received, Err(io::ErrorKind::WouldBlock));
}

#[test]
fn a_service_manager_that_cannot_be_reached_prevents_no_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    let mut command = plyfs();
    command.args(["mount", "-f", "mem:", &mount]).env("NOTIFY_SOCKET", scratch.name("none"));
    let server = command.stderr(Stdio::piped()).spawn().unwrap();
    support::wait_until("the mount", || is_mounted(&scratch.mount()));
    umount(&mount);
    let ended = finish(server.wait_with_output());
    assert!(ended.code == 0 && ended.errors.contains("the service manager cannot be notified"), "{ended:?}");
}

/// The units of the page on systemd: each is a block that begins with the path of its file.
fn documented_units() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/systemd.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```ini\n# /etc/systemd/system/").skip(1);
    let units = blocks.map(|block| {
        let (name, rest) = block.split_once('\n').expect("a name");
        let (text, _) = rest.split_once("```").expect("an end of the block");
        (name.to_owned(), text.to_owned())
    });
    units.collect()
}

#[test]
fn documented_units_are_valid() {
    let units = documented_units();
    let kinds = ["service", "mount", "automount"];
    for kind in kinds {
        assert!(units.iter().any(|(name, _)| name.ends_with(&format!(".{kind}"))), "{kind}: {units:?}");
    }
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("skipped: needs systemd-analyze");
        return;
    }
    let scratch = Scratch::new();
    for (name, text) in &units {
        fs::write(scratch.path(name), text.replace("/usr/bin/plyfs", env!("CARGO_BIN_EXE_plyfs"))).unwrap();
    }
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).args(units.iter().map(|(name, _)| scratch.path(name)));
    let verified = finish(verify.output());
    assert_eq!((verified.code, verified.errors.as_str()), (0, ""));
}
