//! Tools of FAT file systems: formatting, checking, repairing, tuning and labels, beside dosfstools and mtools.
