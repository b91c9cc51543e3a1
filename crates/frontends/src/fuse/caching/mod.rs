//! What the kernel may cache, by the name of what is cached, and how it learns that a part of that is stale.

pub(crate) mod access;
pub(crate) mod expiry;
pub(crate) mod inner_mounts;
pub(crate) mod names;
pub(crate) mod new_files;
pub(crate) mod notification_threads;
pub(crate) mod notifications;
pub(crate) mod notifier;
pub(crate) mod page_cache;
pub(crate) mod readdirplus;
pub(crate) mod walkers;
