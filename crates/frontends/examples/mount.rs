//! Mounts the memory base on a directory until it is unmounted: the front end's interface in a few lines.
//!
//! `cargo run -p frontends --example mount -- MOUNT_POINT`; with `RUST_LOG=plyfs::request=trace` each request is shown.

use frontends::fuse::{Mount, MountOptions};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let mount_point = std::env::args_os().nth(1).ok_or("usage: mount MOUNT_POINT")?;
    let base = bases::mem::MemoryFileSystem::new(bases::mem::Options::default());
    let options = MountOptions { source: "mem:".into(), allow_other: true, ..MountOptions::default() };
    let mount = Mount::new(Arc::new(base), mount_point.as_ref(), &options)?;
    println!("{}", mount.decisions());
    mount.wait();
    for count in mount.statistics() {
        println!("{:>16} {:>10} requests {:>8} failed", count.operation, count.requests, count.failures);
    }
    Ok(())
}
