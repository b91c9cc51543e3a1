//! Layers: file systems stacked on file systems.
