//! A stack mounted by a separate process, so that the memory of the tests and of the server are independent: a page fault of a
//! test on the mount must never wait for the test's own process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frontends::fuse::{Features, Mount, MountFlags, MountOptions, MountPoint, UnmountMode};

use crate::Recipe;
use crate::access::StackAccess;

const RECIPE_VARIABLE: &str = "PLYFS_SUITE_SERVE";
const MOUNT_POINT_VARIABLE: &str = "PLYFS_SUITE_MOUNT_POINT";
/// Name of the variable with the protocol features that the mount does without.
const WITHHELD_VARIABLE: &str = "PLYFS_SUITE_WITHHELD";
/// Name of the variable with the required transport of its requests, if any: `mount` or `mount over io_uring`.
const TRANSPORT_VARIABLE: &str = "PLYFS_SUITE_TRANSPORT";

/// Whether a server of this process failed at its end, when no test could report it.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// A mounted stack. Dropping it unmounts.
pub struct ServedStack {
    server: Child,
    mount_point: PathBuf,
}

impl ServedStack {
    /// Starts this program again as the server of a mount and waits until the mount is usable. The program must begin with
    /// [`serve_if_requested`].
    ///
    /// # Errors
    /// The server's message when it cannot mount, or if requests do not use the required transport.
    pub fn start(
        recipe: &Recipe,
        mount_point: &Path,
        withheld: Features,
        transport: Option<StackAccess>,
    ) -> io::Result<Self> {
        let mut server = Command::new(std::env::current_exe()?)
            .env(RECIPE_VARIABLE, recipe.to_text())
            .env(MOUNT_POINT_VARIABLE, mount_point)
            .env(WITHHELD_VARIABLE, withheld.to_string())
            .env(TRANSPORT_VARIABLE, transport.map(|access| access.to_string()).unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut reply = String::new();
        if let Some(output) = server.stdout.take() {
            BufReader::new(output).read_line(&mut reply)?;
        }
        if reply.trim() != "ready" {
            let _ = server.wait();
            return Err(io::Error::other(format!("{recipe} is not mounted: {}", reply.trim())));
        }
        Ok(Self { server, mount_point: mount_point.to_owned() })
    }

    /// Returns whether a server failed when its mount was to end: it died, or could not unmount.
    pub fn has_any_failed() -> bool {
        HAS_FAILED.load(Ordering::SeqCst)
    }

    /// Returns the pid of the process that serves the mount.
    pub fn process(&self) -> u32 {
        self.server.id()
    }
}

impl Drop for ServedStack {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        match self.server.wait() {
            Ok(status) if status.success() => {}
            other => {
                HAS_FAILED.store(true, Ordering::SeqCst);
                eprintln!("the server of {} ended with {other:?}", self.mount_point.display());
                let _ = MountPoint::open(&self.mount_point).and_then(|point| point.unmount(UnmountMode::Lazy));
            }
        }
    }
}

/// Serves until its input ends and then ends the process, if this is a server process; otherwise does nothing.
pub fn serve_if_requested() {
    let (Ok(recipe), Some(mount_point)) = (std::env::var(RECIPE_VARIABLE), std::env::var_os(MOUNT_POINT_VARIABLE))
    else {
        return;
    };
    let code = match serve(&recipe, Path::new(&mount_point)) {
        Ok(()) => 0,
        Err(error) => {
            println!("{error}");
            1
        }
    };
    std::process::exit(code);
}

fn serve(recipe: &str, mount_point: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let recipe = Recipe::from_text(recipe).ok_or("the recipe cannot be read")?;
    let withheld = std::env::var(WITHHELD_VARIABLE).unwrap_or_default();
    // The callers apply their own umasks to creation modes.
    rustix::process::umask(rustix::fs::Mode::empty());
    let options = MountOptions {
        // Set-id bits and devices, which the kernel would otherwise forbid, are tested too.
        flags: MountFlags { no_suid: false, no_devices: false, ..MountFlags::default() },
        source: format!("suite-{recipe}").into(),
        allow_other: rustix::process::geteuid().is_root(),
        withheld: if withheld.is_empty() { Features::NONE } else { withheld.parse()? },
        ..MountOptions::default()
    };
    let mount = Mount::new(recipe.build()?, mount_point, &options)?;
    let (transport, uring) = (std::env::var(TRANSPORT_VARIABLE).unwrap_or_default(), &mount.decisions().uring);
    if !transport.is_empty() && (transport == StackAccess::Uring.to_string()) != uring.is_ok() {
        return Err(format!("it is to be a {transport}, and io_uring is {uring:?}").into());
    }
    println!("ready");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    // A test that was stopped may still use it.
    mount.unmount(UnmountMode::Clean).or_else(|_| mount.unmount(UnmountMode::Lazy))?;
    let is_unmounted = mount.wait_timeout(Duration::from_secs(60));
    if is_unmounted { Ok(()) } else { Err("the mount is still used a minute after it was to go".into()) }
}
