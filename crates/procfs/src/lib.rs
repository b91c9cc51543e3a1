//! What the kernel reports below /proc, see proc(5): mounts, processes, descriptors, parameters of the system.
//!
//! All files are read as bytes, since users choose names in many of them: a mount point or the name of a process need not be
//! text, and never keeps the rest of a file from being read. Fields are parsed when they are asked for. What ends while it is
//! read is `None`.

mod descriptor;
mod id_map;
mod machine;
pub mod mount_table;
mod process;
mod read;
mod stat;
mod status;
mod user_namespace;

pub use descriptor::{DescriptorPath, is_mounted, mount_id};
pub use id_map::{IdKind, IdMap};
pub use machine::{available_memory, has_file_system, idle_time, load_average, parameter};
pub use process::{Process, all_processes};
pub use stat::Stat;
pub use status::{Ids, SignalSet, Status};
pub use user_namespace::{denies_setgroups, has_machine_ids, is_machine_root};
