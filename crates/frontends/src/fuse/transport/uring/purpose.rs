//! Requests that the session sends to itself: the purpose of each, by its unique.

/// The purpose of a request of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnRequestPurpose {
    /// The entry that gets it may be parked.
    Park,
    /// It is answered at once, so that the kernel looks for requests that wait.
    Fetch,
}

/// Bit in the unique of a request of our own: the kernel counts its own requests up from zero.
pub(crate) const OWN_REQUEST: u64 = 1 << 63;

/// Bit in the unique of a request of our own that parks its entry.
pub(crate) const PARK_REQUEST: u64 = 1 << 62;

/// Returns the purpose of a request by its unique, if it is one of our own.
pub(crate) fn purpose_of(unique: u64) -> Option<OwnRequestPurpose> {
    match (unique & OWN_REQUEST != 0, unique & PARK_REQUEST != 0) {
        (false, _) => None,
        (true, true) => Some(OwnRequestPurpose::Park),
        (true, false) => Some(OwnRequestPurpose::Fetch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_requests_are_distinguished_from_the_kernels() {
        assert_eq!(purpose_of(0x7fff_ffff), None);
        assert_eq!(purpose_of(OWN_REQUEST | 6), Some(OwnRequestPurpose::Fetch));
        assert_eq!(purpose_of(OWN_REQUEST | PARK_REQUEST), Some(OwnRequestPurpose::Park));
    }
}
