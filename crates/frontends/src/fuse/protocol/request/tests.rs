//! Tests of requests: well-formed, truncated, corrupted and random.

use super::*;
use zerocopy::IntoBytes;

/// Returns a message with this operation number and body, with its header filled in.
fn message(opcode: u32, extensions_length_8: u16, body: &[u8]) -> Vec<u8> {
    let header = wire::InHeader {
        length: (size_of::<wire::InHeader>() + body.len()) as u32,
        opcode,
        unique: 77,
        node: 5,
        uid: 1000,
        gid: 100,
        pid: 4321,
        extensions_length_8,
        padding: 0,
    };
    [header.as_bytes(), body].concat()
}

/// Returns the shortest well-formed arguments of each operation.
fn shortest_arguments(opcode: Opcode) -> Vec<u8> {
    fn zeroed<T>() -> Vec<u8> {
        vec![0; size_of::<T>()]
    }
    let name = b"n\0".to_vec();
    match opcode {
        Opcode::Lookup | Opcode::Unlink | Opcode::RemoveDirectory | Opcode::RemoveXattr => name,
        Opcode::SymbolicLink => b"n\0target\0".to_vec(),
        Opcode::Forget | Opcode::Interrupt => zeroed::<u64>(),
        Opcode::BatchForget => [1u32.to_le_bytes().to_vec(), zeroed::<u32>(), zeroed::<wire::ForgetOne>()].concat(),
        Opcode::GetAttributes => zeroed::<wire::GetAttributesIn>(),
        Opcode::SetAttributes => zeroed::<wire::SetAttributesIn>(),
        Opcode::Statx => zeroed::<wire::StatxIn>(),
        Opcode::MakeNode => [zeroed::<wire::MakeNodeIn>(), name].concat(),
        Opcode::MakeDirectory => [zeroed::<wire::MakeDirectoryIn>(), name].concat(),
        Opcode::Rename => [zeroed::<wire::RenameIn>(), name.clone(), name].concat(),
        Opcode::Rename2 => [zeroed::<wire::Rename2In>(), name.clone(), name].concat(),
        Opcode::Link => [zeroed::<wire::LinkIn>(), name].concat(),
        Opcode::Create | Opcode::TemporaryFile => [zeroed::<wire::CreateIn>(), name].concat(),
        Opcode::Open | Opcode::OpenDirectory => zeroed::<wire::OpenIn>(),
        Opcode::Read | Opcode::ReadDirectory | Opcode::ReadDirectoryPlus => zeroed::<wire::ReadIn>(),
        Opcode::Write => {
            let arguments = wire::WriteIn { size: 3, ..Default::default() };
            [arguments.as_bytes(), b"abc"].concat()
        }
        Opcode::Release | Opcode::ReleaseDirectory => zeroed::<wire::ReleaseIn>(),
        Opcode::Fsync | Opcode::FsyncDirectory => zeroed::<wire::FsyncIn>(),
        Opcode::SetXattr => {
            let arguments = wire::SetXattrIn { size: 2, ..Default::default() };
            [arguments.as_bytes(), b"user.a\0xy"].concat()
        }
        Opcode::GetXattr => [zeroed::<wire::GetXattrIn>(), name].concat(),
        Opcode::ListXattr => zeroed::<wire::GetXattrIn>(),
        Opcode::Flush => zeroed::<wire::FlushIn>(),
        Opcode::Init => vec![0; 16],
        Opcode::GetLock | Opcode::SetLock | Opcode::SetLockWait => zeroed::<wire::LockIn>(),
        Opcode::Access => zeroed::<wire::AccessIn>(),
        Opcode::BlockMap => zeroed::<wire::BlockMapIn>(),
        Opcode::Ioctl => {
            let arguments = wire::IoctlIn { in_size: 4, ..Default::default() };
            [arguments.as_bytes(), b"abcd"].concat()
        }
        Opcode::Poll => zeroed::<wire::PollIn>(),
        Opcode::Fallocate => zeroed::<wire::FallocateIn>(),
        Opcode::Seek => zeroed::<wire::SeekIn>(),
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => zeroed::<wire::CopyFileRangeIn>(),
        Opcode::ReadLink
        | Opcode::StatFs
        | Opcode::Destroy
        | Opcode::NotifyReply
        | Opcode::SetUpMapping
        | Opcode::RemoveMapping
        | Opcode::SyncFs => Vec::new(),
    }
}

fn every_opcode() -> impl Iterator<Item = Opcode> {
    (0..Opcode::COUNT as u32).filter_map(Opcode::from_number)
}

#[test]
fn every_operation_decodes_and_every_truncation_is_refused() {
    let layout = RequestLayout { setxattr_long: true };
    for opcode in every_opcode() {
        let body = shortest_arguments(opcode);
        let whole = message(opcode as u32, 0, &body);
        let request = decode(&whole, layout).unwrap_or_else(|error| panic!("{opcode:?}: {error}"));
        assert_eq!((request.unique, request.node, request.pid), (77, 5, 4321));
        for length in 0..body.len() {
            let cut = message(opcode as u32, 0, &body[..length]);
            assert_eq!(
                decode(&cut, layout).unwrap_err(),
                DecodeError::Arguments { unique: 77, opcode },
                "{opcode:?} cut to {length} of {}",
                body.len()
            );
        }
    }
}

#[test]
fn message_length_must_match_the_header() {
    let whole = message(Opcode::Lookup as u32, 0, b"name\0");
    for length in 0..whole.len() {
        let cut = &whole[..length];
        assert_eq!(decode(cut, RequestLayout::default()).unwrap_err(), DecodeError::Header { received: length });
    }
    let longer = [&whole[..], b"x"].concat();
    assert!(matches!(decode(&longer, RequestLayout::default()), Err(DecodeError::Header { .. })));
}

#[test]
fn unknown_opcode_reports_its_unique() {
    let whole = message(9999, 0, b"");
    assert_eq!(
        decode(&whole, RequestLayout::default()).unwrap_err(),
        DecodeError::UnknownOpcode { unique: 77, number: 9999 }
    );
}

#[test]
fn names_end_at_their_zero_byte() {
    let body = [wire::Rename2In { new_parent: 9, flags: 1, padding: 0 }.as_bytes(), b"old\0new\0"];
    let whole = message(Opcode::Rename2 as u32, 0, &body.concat());
    let request = decode(&whole, RequestLayout::default()).unwrap();
    assert!(matches!(request.operation, Operation::Rename { name: b"old", new_parent: 9, new_name: b"new", flags: 1 }));
}

#[test]
fn setxattr_is_read_in_the_negotiated_form() {
    let short = wire::SetXattrShortIn { size: 2, flags: 1 };
    let whole = message(Opcode::SetXattr as u32, 0, &[short.as_bytes(), b"user.a\0xy"].concat());
    let request = decode(&whole, RequestLayout { setxattr_long: false }).unwrap();
    assert!(matches!(
        request.operation,
        Operation::SetXattr { name: b"user.a", value: b"xy", flags: 1, extra_flags: 0 }
    ));
    let long = wire::SetXattrIn { size: 2, flags: 1, setxattr_flags: 1, padding: 0 };
    let whole = message(Opcode::SetXattr as u32, 0, &[long.as_bytes(), b"user.a\0xy"].concat());
    let request = decode(&whole, RequestLayout { setxattr_long: true }).unwrap();
    assert!(matches!(
        request.operation,
        Operation::SetXattr { name: b"user.a", value: b"xy", flags: 1, extra_flags: 1 }
    ));
}

#[test]
fn a_creation_carries_groups_and_security_contexts() {
    let mut body = [wire::CreateIn::default().as_bytes(), b"file\0"].concat();
    let mut extensions = Vec::new();
    // One security context: name, label, padded.
    let context = [&12u32.to_le_bytes()[..], &[0; 4], b"security.x\0", b"label-of-12b"].concat();
    let padded = wire::record_align(context.len());
    let size = 8 + padded as u32;
    extensions.extend_from_slice(&size.to_le_bytes());
    extensions.extend_from_slice(&1u32.to_le_bytes());
    extensions.extend_from_slice(&context);
    extensions.resize(size as usize, 0);
    // One group.
    extensions.extend_from_slice(&16u32.to_le_bytes());
    extensions.extend_from_slice(&wire::extension::GROUPS.to_le_bytes());
    extensions.extend_from_slice(&1u32.to_le_bytes());
    extensions.extend_from_slice(&4242u32.to_le_bytes());
    body.extend_from_slice(&extensions);
    let whole = message(Opcode::Create as u32, (extensions.len() / 8) as u16, &body);
    let request = decode(&whole, RequestLayout::default()).unwrap();
    assert_eq!(request.supplementary_group, Some(4242));
    assert_eq!(request.security_contexts.len(), padded);
    assert!(matches!(request.operation, Operation::Create { name: b"file", .. }));
}

#[test]
fn damaged_extensions_are_refused() {
    let name = b"d\0";
    for bytes in [
        [0u32, 32, 1, 7], // a record of zero length
        [4, 32, 1, 7],    // shorter than its header
        [400, 32, 1, 7],  // longer than the block
        [12, 32, 1, 7],   // one group announced, none present
        [16, 3, 900, 0],  // contexts that run past their block
    ] {
        let block: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
        let body = [wire::MakeDirectoryIn::default().as_bytes(), name, &block].concat();
        let whole = message(Opcode::MakeDirectory as u32, 2, &body);
        assert!(decode(&whole, RequestLayout::default()).is_err(), "{bytes:?}");
    }
    let whole = message(Opcode::MakeDirectory as u32, 9000, b"short");
    assert!(decode(&whole, RequestLayout::default()).is_err());
}

/// Runs random messages: `FUZZ_ROUNDS` sets their number, `FUZZ_SEED` replays them.
#[test]
fn random_bytes_never_panic() {
    let number = |key: &str| std::env::var(key).ok()?.parse().ok();
    let rounds = number("FUZZ_ROUNDS").unwrap_or(20_000);
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_nanos() as u64);
    let seed = number("FUZZ_SEED").unwrap_or_else(now) | 1;
    let mut state = seed;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..rounds {
        let length = (random() % 160) as usize;
        // Small numbers are more often lengths, flags and ends of names; any others now and then.
        let any = if round % 4 == 0 { 256 } else { 7 };
        let body: Vec<u8> = (0..length).map(|_| (random() % any) as u8).collect();
        let whole = message((random() % 56) as u32, (random() % 6) as u16, &body);
        let layout = RequestLayout { setxattr_long: round % 2 == 0 };
        let outcome = std::panic::catch_unwind(|| {
            if let Ok(request) = decode(&whole, layout)
                && let Operation::BatchForget { forgets } = request.operation
            {
                assert!(forgets.iter().count() <= whole.len() / 16);
            }
        });
        assert!(outcome.is_ok(), "seed {seed}, round {round}: {whole:?}");
    }
}

#[test]
fn a_batch_of_forgets_lists_each_node() {
    let header = wire::BatchForgetIn { count: 2, padding: 0 };
    let first = wire::ForgetOne { node: 3, lookups: 1 };
    let second = wire::ForgetOne { node: 4, lookups: 9 };
    let body = [header.as_bytes(), first.as_bytes(), second.as_bytes()].concat();
    let whole = message(Opcode::BatchForget as u32, 0, &body);
    let Operation::BatchForget { forgets } = decode(&whole, RequestLayout::default()).unwrap().operation else {
        panic!("not a batch")
    };
    let nodes: Vec<_> = forgets.iter().map(|one| (one.node, one.lookups)).collect();
    assert_eq!(nodes, [(3, 1), (4, 9)]);
}
