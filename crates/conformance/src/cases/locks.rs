//! Locks: byte ranges between owners, and whole files.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::common::{group, run_concurrently};
use crate::check::{ensure, refused, same};
use crate::{Lock, LockKind, Outcome, TestContext};

group! { "locks":
    write_lock_excludes [RangeLocks];
    read_locks_share [RangeLocks];
    ranges_are_apart [RangeLocks];
    to_the_end_of_everything [RangeLocks];
    asking_names_the_lock [RangeLocks];
    own_locks_never_conflict [RangeLocks];
    upgrade_and_downgrade [RangeLocks];
    unlocking_splits [RangeLocks];
    closing_any_file_releases [RangeLocks];
    another_clients_close_releases_nothing [RangeLocks];
    released_when_the_client_ends [RangeLocks];
    waiting [RangeLocks];
    needs_the_right_access [RangeLocks];
    counter_under_a_lock [RangeLocks];
    of_an_unlinked_file [RangeLocks];
    survive_renames [RangeLocks];
    exclusive_file_lock [FileLocks];
    shared_file_lock [FileLocks];
    file_lock_converts [FileLocks];
    file_lock_is_of_the_open_file [FileLocks];
    file_lock_ends_with_close [FileLocks];
    waiting_for_a_file_lock [FileLocks];
    families_are_apart [RangeLocks, FileLocks];
}

const fn write(start: u64, length: u64) -> Lock {
    Lock::new(LockKind::Write, start, length)
}

const fn read(start: u64, length: u64) -> Lock {
    Lock::new(LockKind::Read, start, length)
}

const fn unlock(start: u64, length: u64) -> Lock {
    Lock::new(LockKind::Unlock, start, length)
}

fn write_lock_excludes(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(0, 100), false)?;
    refused!(theirs.lock(write(0, 100), false), EAGAIN | EACCES);
    refused!(theirs.lock(read(99, 1), false), EAGAIN | EACCES);
    mine.lock(unlock(0, 100), false)?;
    theirs.lock(write(0, 100), false)?;
    refused!(mine.lock(write(0, 1), false), EAGAIN | EACCES);
    Ok(())
}

fn read_locks_share(context: &TestContext<'_>) -> Outcome {
    let (one, two) = (context.another()?, context.another()?);
    let mine = context.me.create(b"f")?;
    let (first, second) = (one.edit(b"f")?, two.edit(b"f")?);
    mine.lock(read(0, 10), false)?;
    first.lock(read(5, 10), false)?;
    refused!(second.lock(write(7, 1), false), EAGAIN | EACCES);
    mine.lock(unlock(0, 0), false)?;
    refused!(second.lock(write(7, 1), false), EAGAIN | EACCES);
    second.lock(write(0, 5), false)?;
    Ok(())
}

fn ranges_are_apart(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(10, 10), false)?;
    theirs.lock(write(0, 10), false)?;
    theirs.lock(write(20, 5), false)?;
    refused!(theirs.lock(write(19, 1), false), EAGAIN | EACCES);
    refused!(theirs.lock(write(5, 10), false), EAGAIN | EACCES);
    refused!(mine.lock(write(9, 1), false), EAGAIN | EACCES);
    Ok(())
}

fn to_the_end_of_everything(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(100, 0), false)?;
    refused!(theirs.lock(write(1 << 40, 1), false), EAGAIN | EACCES);
    theirs.lock(write(0, 100), false)?;
    refused!(theirs.lock(read(0, 0), false), EAGAIN | EACCES);
    Ok(())
}

fn asking_names_the_lock(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    same!(theirs.test_lock(write(0, 0))?, None);
    mine.lock(read(10, 5), false)?;
    same!(theirs.test_lock(write(0, 0))?, Some(read(10, 5)));
    same!(theirs.test_lock(read(0, 0))?, None);
    same!(theirs.test_lock(write(15, 0))?, None);
    same!(mine.test_lock(write(0, 0))?, None);
    mine.lock(write(100, 0), false)?;
    same!(theirs.test_lock(read(200, 1))?, Some(write(100, 0)));
    Ok(())
}

fn own_locks_never_conflict(context: &TestContext<'_>) -> Outcome {
    let mine = context.me.create(b"f")?;
    let again = context.me.edit(b"f")?;
    mine.lock(write(0, 10), false)?;
    // The client owns the lock, not the open file.
    again.lock(write(5, 10), false)?;
    again.lock(unlock(0, 0), false)?;
    context.another()?.edit(b"f")?.lock(write(0, 0), false)?;
    Ok(())
}

fn upgrade_and_downgrade(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(read(0, 10), false)?;
    theirs.lock(read(0, 10), false)?;
    refused!(mine.lock(write(0, 10), false), EAGAIN | EACCES);
    theirs.lock(unlock(0, 10), false)?;
    mine.lock(write(0, 10), false)?;
    refused!(theirs.lock(read(0, 10), false), EAGAIN | EACCES);
    mine.lock(read(0, 10), false)?;
    theirs.lock(read(0, 10), false)?;
    Ok(())
}

fn unlocking_splits(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(0, 30), false)?;
    mine.lock(unlock(10, 10), false)?;
    theirs.lock(write(10, 10), false)?;
    same!(theirs.test_lock(write(0, 10))?, Some(write(0, 10)));
    same!(theirs.test_lock(write(20, 0))?, Some(write(20, 10)));
    Ok(())
}

fn closing_any_file_releases(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(0, 0), false)?;
    refused!(theirs.lock(write(0, 0), false), EAGAIN | EACCES);
    // The surprising rule of POSIX: closing any open file of the client releases the locks of all of them.
    context.me.open(b"f", libc::O_RDONLY, 0)?.close()?;
    theirs.lock(write(0, 0), false)?;
    Ok(())
}

fn another_clients_close_releases_nothing(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    mine.lock(write(0, 0), false)?;
    other.edit(b"f")?.close()?;
    refused!(other.edit(b"f")?.lock(write(0, 0), false), EAGAIN | EACCES);
    Ok(())
}

fn released_when_the_client_ends(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    context.me.put(b"f", b"")?;
    let theirs = other.edit(b"f")?;
    theirs.lock(write(0, 0), false)?;
    let mine = context.me.edit(b"f")?;
    refused!(mine.lock(write(0, 0), false), EAGAIN | EACCES);
    drop(theirs);
    drop(other);
    mine.lock(write(0, 0), false)?;
    Ok(())
}

fn waiting(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(0, 10), false)?;
    let released = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| -> Outcome {
            theirs.lock(write(5, 10), true)?;
            ensure!(released.load(Ordering::SeqCst), "the lock was given while another held it");
            Ok(())
        });
        std::thread::sleep(Duration::from_millis(60));
        released.store(true, Ordering::SeqCst);
        let unlocked = mine.lock(unlock(0, 0), false);
        let waited = waiter.join().expect("the waiter does not panic");
        unlocked?;
        waited
    })?;
    refused!(mine.lock(write(5, 1), false), EAGAIN | EACCES);
    Ok(())
}

fn needs_the_right_access(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let reader = me.open(b"f", libc::O_RDONLY, 0)?;
    let writer = me.open(b"f", libc::O_WRONLY, 0)?;
    refused!(reader.lock(write(0, 1), false), EBADF);
    refused!(writer.lock(read(0, 1), false), EBADF);
    reader.lock(read(0, 1), false)?;
    writer.lock(write(0, 1), false)?;
    Ok(())
}

fn counter_under_a_lock(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"f", &0_u32.to_le_bytes())?;
    run_concurrently(3, |_| {
        let client = context.another()?;
        let file = client.edit(b"f")?;
        for _ in 0..30 {
            file.lock(write(0, 4), true)?;
            let data = file.get_at(0, 4)?;
            let count = u32::from_le_bytes(data.try_into().map_err(|_| crate::Failure::new("a short read"))?);
            file.put_at(&(count + 1).to_le_bytes(), 0)?;
            file.lock(unlock(0, 4), false)?;
        }
        Ok(())
    })?;
    same!(context.me.get(b"f")?, 90_u32.to_le_bytes());
    Ok(())
}

fn of_an_unlinked_file(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    context.me.unlink(b"f")?;
    mine.lock(write(0, 0), false)?;
    refused!(theirs.lock(write(0, 0), false), EAGAIN | EACCES);
    // A new file with this name has its own locks.
    other.create(b"f")?.lock(write(0, 0), false)?;
    Ok(())
}

fn survive_renames(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    mine.lock(write(0, 0), false)?;
    context.me.rename(b"f", b"g")?;
    refused!(other.edit(b"g")?.lock(write(0, 0), false), EAGAIN | EACCES);
    Ok(())
}

const EXCLUSIVE: i32 = libc::LOCK_EX | libc::LOCK_NB;
const SHARED: i32 = libc::LOCK_SH | libc::LOCK_NB;

fn exclusive_file_lock(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.open(b"f", libc::O_RDONLY, 0)?;
    mine.flock(EXCLUSIVE)?;
    refused!(theirs.flock(EXCLUSIVE), EWOULDBLOCK);
    refused!(theirs.flock(SHARED), EWOULDBLOCK);
    mine.flock(libc::LOCK_UN)?;
    theirs.flock(EXCLUSIVE)?;
    refused!(mine.flock(SHARED), EWOULDBLOCK);
    Ok(())
}

fn shared_file_lock(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.flock(SHARED)?;
    theirs.flock(SHARED)?;
    refused!(other.edit(b"f")?.flock(EXCLUSIVE), EWOULDBLOCK);
    mine.flock(libc::LOCK_UN)?;
    theirs.flock(libc::LOCK_UN)?;
    other.edit(b"f")?.flock(EXCLUSIVE)?;
    Ok(())
}

fn file_lock_converts(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.flock(EXCLUSIVE)?;
    mine.flock(SHARED)?;
    theirs.flock(SHARED)?;
    refused!(mine.flock(EXCLUSIVE), EWOULDBLOCK);
    theirs.flock(libc::LOCK_UN)?;
    mine.flock(EXCLUSIVE)?;
    Ok(())
}

fn file_lock_is_of_the_open_file(context: &TestContext<'_>) -> Outcome {
    let one = context.me.create(b"f")?;
    let two = context.me.edit(b"f")?;
    one.flock(EXCLUSIVE)?;
    refused!(two.flock(EXCLUSIVE), EWOULDBLOCK);
    // Closing another open file of the same client releases nothing.
    two.close()?;
    refused!(context.me.edit(b"f")?.flock(SHARED), EWOULDBLOCK);
    Ok(())
}

fn file_lock_ends_with_close(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.flock(EXCLUSIVE)?;
    refused!(theirs.flock(EXCLUSIVE), EWOULDBLOCK);
    mine.close()?;
    // The lock may be released a moment after the close.
    for _ in 0..100 {
        if theirs.flock(EXCLUSIVE).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(crate::Failure::new("the lock outlived its open file"))
}

fn waiting_for_a_file_lock(context: &TestContext<'_>) -> Outcome {
    let holders = AtomicU32::new(0);
    context.me.put(b"f", b"")?;
    run_concurrently(3, |_| {
        let client = context.another()?;
        for _ in 0..15 {
            let file = client.edit(b"f")?;
            file.flock(libc::LOCK_EX)?;
            let others = holders.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(200));
            holders.fetch_sub(1, Ordering::SeqCst);
            ensure!(others == 0, "{others} others held the lock");
            file.flock(libc::LOCK_UN)?;
        }
        Ok(())
    })
}

fn families_are_apart(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    let mine = context.me.create(b"f")?;
    let theirs = other.edit(b"f")?;
    mine.lock(write(0, 0), false)?;
    theirs.flock(EXCLUSIVE)?;
    refused!(theirs.lock(read(0, 1), false), EAGAIN | EACCES);
    refused!(mine.flock(SHARED), EWOULDBLOCK);
    Ok(())
}
