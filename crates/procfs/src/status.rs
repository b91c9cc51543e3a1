//! The status of a process or thread, see proc_pid_status(5).

use crate::read::{bytes, field, number, number_of_radix, words};

/// A snapshot of the status. Each field is found when it is asked for: most callers need few of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status(Vec<u8>);

/// User or group IDs of a thread, see credentials(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The real ID.
    pub real: u32,
    /// The effective ID.
    pub effective: u32,
    /// The saved set-user-ID or set-group-ID.
    pub saved: u32,
    /// The ID for accesses to files.
    pub file_system: u32,
}

/// A set of signals, see signal(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalSet {
    /// Pending for the thread.
    PendingForThread,
    /// Pending for the process.
    PendingForProcess,
    /// Blocked.
    Blocked,
    /// Ignored.
    Ignored,
    /// Caught by a handler.
    Caught,
}

impl From<Vec<u8>> for Status {
    fn from(text: Vec<u8>) -> Self {
        Self(text)
    }
}

impl Status {
    /// Returns the number of the process that the thread belongs to.
    pub fn process(&self) -> Option<u32> {
        self.number("Tgid")
    }

    /// Returns its state: `b'R'` is running or runnable.
    pub fn state(&self) -> Option<u8> {
        self.text("State")?.first().copied()
    }

    /// Returns the process that traces it; 0 without one.
    pub fn tracer(&self) -> Option<u32> {
        self.number("TracerPid")
    }

    /// Returns its user IDs.
    pub fn uids(&self) -> Option<Ids> {
        self.ids("Uid")
    }

    /// Returns its group IDs.
    pub fn gids(&self) -> Option<Ids> {
        self.ids("Gid")
    }

    /// Returns its supplementary groups.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        words(self.text("Groups").unwrap_or_default()).filter_map(number)
    }

    /// Returns its file mode creation mask.
    pub fn umask(&self) -> Option<u32> {
        number_of_radix(self.text("Umask")?, 8)?.try_into().ok()
    }

    /// Returns its effective capabilities.
    pub fn effective_capabilities(&self) -> Option<u64> {
        self.mask("CapEff")
    }

    /// Returns the capabilities that it is permitted.
    pub fn permitted_capabilities(&self) -> Option<u64> {
        self.mask("CapPrm")
    }

    /// Returns a set of its signals: signal 1 is the lowest bit.
    pub fn signals(&self, set: SignalSet) -> Option<u64> {
        self.mask(match set {
            SignalSet::PendingForThread => "SigPnd",
            SignalSet::PendingForProcess => "ShdPnd",
            SignalSet::Blocked => "SigBlk",
            SignalSet::Ignored => "SigIgn",
            SignalSet::Caught => "SigCgt",
        })
    }

    /// Returns how often it has slept, waiting for something.
    pub fn voluntary_switches(&self) -> Option<u64> {
        self.number("voluntary_ctxt_switches")
    }

    /// Returns the resident memory of the process in bytes.
    pub fn resident_bytes(&self) -> Option<u64> {
        bytes(self.text("VmRSS")?)
    }

    /// Returns the size of the address space of the process in bytes.
    pub fn address_space_bytes(&self) -> Option<u64> {
        bytes(self.text("VmSize")?)
    }

    /// Returns the number of descriptors for which the process has room without another allocation.
    pub fn descriptor_table_size(&self) -> Option<usize> {
        self.number("FDSize")
    }

    fn ids(&self, key: &str) -> Option<Ids> {
        let mut ids = words(self.text(key)?).map(number::<u32>);
        let mut next = || ids.next().flatten();
        Some(Ids { real: next()?, effective: next()?, saved: next()?, file_system: next()? })
    }

    fn mask(&self, key: &str) -> Option<u64> {
        number_of_radix(self.text(key)?, 16)
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        number(self.text(key)?)
    }

    fn text(&self, key: &str) -> Option<&[u8]> {
        field(&self.0, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_kernels_units() {
        let text = b"Name:\t\xff\nUmask:\t0027\nState:\tS (sleeping)\nTgid:\t7\nTracerPid:\t0\nUid:\t1\t2\t3\t4\nFDSize:\t64\n\
            Groups:\t4 24 \nVmRSS:\t      12 kB\nSigPnd:\t0000000000000100\nCapPrm:\t0000000000000009\n\
            voluntary_ctxt_switches:\t150\n";
        let status = Status::from(text.to_vec());
        assert_eq!(status.umask(), Some(0o027));
        assert_eq!((status.process(), status.state(), status.tracer()), (Some(7), Some(b'S'), Some(0)));
        assert_eq!(status.uids(), Some(Ids { real: 1, effective: 2, saved: 3, file_system: 4 }));
        assert_eq!(status.groups().collect::<Vec<_>>(), [4, 24]);
        assert_eq!((status.resident_bytes(), status.descriptor_table_size()), (Some(12_288), Some(64)));
        assert_eq!(status.signals(SignalSet::PendingForThread), Some(1 << 8));
        assert_eq!((status.permitted_capabilities(), status.effective_capabilities()), (Some(9), None));
        assert_eq!(status.voluntary_switches(), Some(150));
        assert_eq!(status.gids(), None);
    }
}
