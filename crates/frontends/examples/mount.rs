//! Mounts a base on a directory until it is unmounted: the front end's interface in a few lines.
//!
//! `cargo run -p plyfs-frontends --example mount -- MOUNT_POINT [DIRECTORY]`: the directory given, else one in memory. With
//! `RUST_LOG=plyfs::request=trace` each request is shown.

use plyfs_frontends::fuse::{Mount, MountOptions};
use std::path::Path;
use std::sync::Arc;
use vnode::FileSystemRef;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args_os().skip(1);
    let mount_point = arguments.next().ok_or("usage: mount MOUNT_POINT [DIRECTORY]")?;
    let (source, base): (_, FileSystemRef) = match arguments.next() {
        Some(path) => {
            let base = bases::dir::DirectoryFileSystem::open(Path::new(&path), bases::dir::Options::default())?;
            (path, Arc::new(base))
        }
        None => ("mem:".into(), Arc::new(bases::mem::MemoryFileSystem::new(bases::mem::Options::default()))),
    };
    let allow_other = rustix::process::geteuid().is_root();
    let options = MountOptions { source, allow_other, ..MountOptions::default() };
    let mount = Mount::new(base, mount_point.as_ref(), &options)?;
    println!("{}", mount.decisions());
    mount.wait();
    for count in mount.statistics() {
        let (requests, mean) = (count.times.requests(), count.times.mean());
        println!("{:>16} {requests:>10} requests {:>8} failed, {mean:?} each", count.operation, count.failures);
    }
    Ok(())
}
