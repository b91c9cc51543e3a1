//! Tools of FAT file systems: formatting, checking, repairing, tuning and labels, beside dosfstools and mtools where those are
//! installed. `FAT_SEED` replays a failure of the random tests, `FAT_ROUNDS` sets how many rounds they have, and `FAT_MUTATIONS` the number of damaged
//! images; with `FAT_EXTERNAL`, fsck.fat checks each of those after the repair, too.

mod badsect;
mod boot;
mod chains;
mod codes;
mod directories;
mod dump;
mod external;
mod image;
mod interrupted;
mod label;
mod lost;
mod mkfs;
mod mutated;
mod names;
mod repairs;
mod sample;
mod sharing;
mod tables;
mod tune;
mod unreadable;
