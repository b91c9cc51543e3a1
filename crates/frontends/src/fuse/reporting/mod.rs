//! What a mount reports of its work: statistics, latencies, and lines of the log.

pub(crate) mod latency;
pub(crate) mod rate_limit;
pub(crate) mod statistics;
pub(crate) mod trace;
