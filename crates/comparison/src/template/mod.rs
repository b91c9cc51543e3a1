//! Each sample as a layer in Rust on the layer template.
