//! How the executables are linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The addresses that are adjusted at every start take one bit each in place of 24 bytes: half a megabyte (glibc 2.36).
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
