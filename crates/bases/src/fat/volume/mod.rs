//! The volume below the files: storage, the table in memory, allocation, chains of clusters, and the data in them.

pub(crate) mod allocation;
pub(crate) mod chain;
pub(crate) mod data;
pub(crate) mod growth;
pub(crate) mod overlay;
pub(crate) mod pages;
pub(crate) mod positions;
pub(crate) mod run;
pub(crate) mod run_budget;
pub(crate) mod state;
pub(crate) mod storage;
pub(crate) mod table;
