//! Tests of mounted FAT volumes: behaviour, agreement with a model, conformance, and what power failures leave.

mod basics;
mod chains;
mod conformance;
mod crash;
mod image;
mod in_entries;
mod io;
mod journal;
mod kept;
mod links;
mod model;
#[path = "../model/operation.rs"]
mod operation;
mod renames;
mod saved;
#[path = "../model/side.rs"]
mod side;
mod sidecars;
mod stress;
mod trapped;
