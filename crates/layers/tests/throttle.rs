//! `throttle`: reads and writes take the time that their limits prescribe, and callers that are cancelled do not.

mod common;

use std::time::{Duration, Instant};

use common::{create, layer, memory, root};
use vnode::{CancellationSource, Control, ControlError, Errno, FileSystemRef, OpenFileRef};

/// Bytes that pass in a second.
const RATE: usize = 1 << 20;
/// Bytes that take 300 ms, after the bytes of the burst.
const SOME: usize = RATE * 3 / 10;
/// How long what is not delayed may take on a machine that is busy.
const AT_ONCE: Duration = Duration::from_secs(20);

fn throttled(options: &[(&str, &str)]) -> (FileSystemRef, OpenFileRef) {
    let upper = layer("throttle", options, memory());
    let (_, file) = create(&upper.root(), &root(), "file", 0o600);
    (upper, file)
}

fn control(file_system: &FileSystemRef, arguments: &[(&str, &str)]) -> Result<String, ControlError> {
    let arguments = arguments.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    file_system.control(&Control { target: "throttle".to_owned(), command: "set".to_owned(), arguments })
}

fn time(body: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    body();
    begin.elapsed()
}

#[test]
fn reads_and_writes_have_limits_of_their_own() {
    let (upper, file) = throttled(&[("write", "1m")]);
    let data = vec![7; SOME];
    let write = || assert_eq!(file.write_at(&root(), 0, &data), Ok(SOME));
    // The first passes, and the second waits for it.
    assert!(time(|| (0..2).for_each(|_| write())) >= Duration::from_millis(190));
    let read = |length: usize| file.read_at(&root(), 0, &mut vec![0; length]).unwrap();
    control(&upper, &[("read", "1")]).unwrap();
    assert_eq!(control(&upper, &[("read", "0")]).map_err(|error| error.to_string().contains("at least 1")), Err(true));
    control(&upper, &[("read", "1m")]).unwrap();
    assert!(time(|| (0..3).for_each(|_| assert_eq!(read(SOME), SOME))) >= Duration::from_millis(490));
    control(&upper, &[]).unwrap();
    assert!(time(|| (0..100).for_each(|_| assert_eq!(read(SOME), SOME))) < AT_ONCE);
}

#[test]
fn what_is_not_moved_does_not_count() {
    let (_, file) = throttled(&[("read", "1"), ("write", "1")]);
    let nothing = || assert_eq!(file.read_at(&root(), 0, &mut [0; 1 << 20]), Ok(0));
    assert!(time(|| (0..10).for_each(|_| nothing())) < AT_ONCE);
    let copy = || file.copy_range(&root(), 0, &file, 1 << 20, 1 << 30);
    assert!(time(|| (0..10).for_each(|_| assert_eq!(copy(), Ok(0)))) < AT_ONCE);
}

#[test]
fn a_cancelled_caller_waits_no_longer() {
    let (upper, file) = throttled(&[("write", "1k")]);
    // The next write has to wait for 17 minutes.
    file.write_at(&root(), 0, &vec![0; 1 << 20]).unwrap();
    let source = CancellationSource::new();
    let caller = root().cancelled_by(source.begin(2, 0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at(&caller, 0, b"x"));
        source.cancel(2);
        assert_eq!(writer.join().unwrap(), Err(Errno::EINTR));
    });
    control(&upper, &[("write", "1k")]).unwrap();
    assert!(time(|| assert_eq!(file.write_at(&root(), 0, b"x"), Ok(1))) < AT_ONCE);
}
