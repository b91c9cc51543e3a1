//! The kernel's own NFS server on the loopback device, told what it exports by its own files: no other program is needed.

use std::fs;
use std::path::Path;

use rustix::mount::MountFlags;

use crate::file_system::load;

/// A time that does not come.
const NEVER: &str = "2147483647";
/// `NFSEXP_FSID | NFSEXP_NOSUBTREECHECK | NFSEXP_GATHERED_WRITES | NFSEXP_INSECURE_PORT`, and no `NFSEXP_ROOTSQUASH`
/// (include/uapi/linux/nfsd/export.h).
const FLAGS: u32 = 0x2000 | 0x0400 | 0x0020 | 0x0002;

/// Exports a directory to this machine, as what the server shows at its root. It can be served once.
pub(crate) fn serve(directory: &Path) {
    load(&["nfsd", "nfsv4"]);
    let server = Path::new("/proc/fs/nfsd");
    let mounted = rustix::mount::mount("nfsd", server, "nfsd", MountFlags::empty(), None);
    mounted.unwrap_or_else(|error| panic!("nfsd cannot be mounted: {error}"));
    // Where it notes its clients; only then it can be told not to wait for those that it had before.
    fs::create_dir_all("/var/lib/nfs/v4recovery").expect("the guest's files may be changed");
    // Version 3 needs other services.
    for (file, text) in [("versions", "-3\n"), ("nfsv4leasetime", "10\n"), ("nfsv4gracetime", "10\n")] {
        tell(&server.join(file), text);
    }
    let path = directory.to_str().expect("a path of text");
    let caches = Path::new("/proc/net/rpc");
    tell(&caches.join("auth.unix.ip/channel"), &format!("nfsd 127.0.0.1 {NEVER} here\n"));
    tell(&caches.join("nfsd.export/channel"), &format!("here {path} {NEVER} {FLAGS} 65534 65534 0\n"));
    tell(&caches.join("nfsd.fh/channel"), &format!("here 1 \\x00000000 {NEVER} {path}\n"));
    tell(&server.join("portlist"), "tcp 2049\n");
    tell(&server.join("threads"), "2\n");
    tell(&server.join("v4_end_grace"), "Y\n");
}

/// Writes to a file of the kernel's, in one call.
fn tell(file: &Path, text: &str) {
    fs::write(file, text).unwrap_or_else(|error| panic!("{}: {text:?}: {error}", file.display()));
}
