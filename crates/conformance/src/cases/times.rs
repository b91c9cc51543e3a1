//! Timestamps, to the nanosecond: explicitly set ones, and those that operations leave.

use std::time::{SystemTime, UNIX_EPOCH};

use super::common::{group, pause};
use crate::check::{ensure, refused, same};
use crate::{File, Outcome, Stat, TestContext, Time, TimeChange};

group! { "times":
    to_the_nanosecond;
    one_at_a_time;
    now;
    keep_both_changes_nothing [SteadyChangeTimes];
    before_1970;
    after_2106;
    of_a_symlink;
    of_an_open_file;
    of_a_directory;
    by_others [Users];
    wrong_nanoseconds [Kernel];
    write_changes_modification;
    read_changes_access [AccessTimes];
    truncate_changes_modification;
    chmod_changes_only_change_time;
    chown_changes_only_change_time [Users];
    link_changes_change_time [HardLinks];
    unlink_changes_change_time [HardLinks];
    rename_keeps_modification;
    rename_changes_change_time;
    replacing_rename_changes_change_time [HardLinks];
    exchange_changes_both_change_times [Exchange];
    names_change_their_directory;
    overwriting_rename_changes_directories;
    opening_changes_nothing;
    truncating_open_changes_modification;
    creation_is_now;
    last_write_counts_after_setting;
    xattr_changes_change_time [ExtendedAttributes];
    allocation_changes_modification [Punch];
}

const OLD: Time = Time::new(1_000_000_000, 123_456_789);
const OTHER: Time = Time::new(1_234_567_890, 987_654_321);

fn set(context: &TestContext<'_>, path: &[u8], access: Time, modification: Time) -> Outcome {
    Ok(context.me.set_times(path, TimeChange::To(access), TimeChange::To(modification), false)?)
}

fn clock() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set");
    Time::new(now.as_secs() as i64, now.subsec_nanos())
}

/// Fails unless the time is between a clock reading and now, within a clock tick.
fn is_now(time: Time, since: Time) -> Outcome {
    let earliest = Time::new(since.seconds - 1, since.nanoseconds);
    ensure!(time >= earliest && time <= clock(), "{time:?} is not between {since:?} and {:?}", clock());
    Ok(())
}

/// Returns the attributes before and after an operation on a file whose times were old before.
fn around(context: &TestContext<'_>, path: &[u8], operation: impl FnOnce() -> Outcome) -> Outcome<(Stat, Stat)> {
    set(context, path, OLD, OLD)?;
    let before = context.me.lstat(path)?;
    pause();
    operation()?;
    Ok((before, context.me.lstat(path)?))
}

fn to_the_nanosecond(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"f", b"")?;
    for nanoseconds in [0, 1, 999, 123_456_789, 999_999_999] {
        let (access, modification) =
            (Time::new(1_500_000_000, nanoseconds), Time::new(1_400_000_001, 999_999_999 - nanoseconds));
        set(context, b"f", access, modification)?;
        let stat = context.me.stat(b"f")?;
        same!((stat.accessed, stat.modified), (access, modification));
    }
    Ok(())
}

fn one_at_a_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    set(context, b"f", OLD, OLD)?;
    me.set_times(b"f", TimeChange::To(OTHER), TimeChange::Keep, true)?;
    same!((me.stat(b"f")?.accessed, me.stat(b"f")?.modified), (OTHER, OLD));
    set(context, b"f", OLD, OLD)?;
    me.set_times(b"f", TimeChange::Keep, TimeChange::To(OTHER), true)?;
    same!((me.stat(b"f")?.accessed, me.stat(b"f")?.modified), (OLD, OTHER));
    Ok(())
}

fn now(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    set(context, b"f", OLD, OLD)?;
    let since = clock();
    me.set_times(b"f", TimeChange::Keep, TimeChange::Now, true)?;
    same!(me.stat(b"f")?.accessed, OLD);
    is_now(me.stat(b"f")?.modified, since)?;
    me.set_times(b"f", TimeChange::Now, TimeChange::To(OLD), true)?;
    same!(me.stat(b"f")?.modified, OLD);
    is_now(me.stat(b"f")?.accessed, since)?;
    me.set_times(b"f", TimeChange::Now, TimeChange::Now, true)?;
    is_now(me.stat(b"f")?.modified, since)
}

fn keep_both_changes_nothing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let (before, after) =
        around(context, b"f", || Ok(me.set_times(b"f", TimeChange::Keep, TimeChange::Keep, true)?))?;
    same!(after, before);
    Ok(())
}

fn before_1970(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"f", b"")?;
    for time in [Time::new(-1, 500_000_000), Time::new(-1_000_000, 1), Time::new(-2_147_483_648, 0), Time::new(0, 0)] {
        set(context, b"f", time, time)?;
        let stat = context.me.stat(b"f")?;
        same!((stat.accessed, stat.modified), (time, time));
    }
    Ok(())
}

fn after_2106(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"f", b"")?;
    for seconds in [2_147_483_648, 4_294_967_296, 10_000_000_000] {
        let time = Time::new(seconds, 5);
        set(context, b"f", time, time)?;
        let stat = context.me.stat(b"f")?;
        same!((stat.accessed, stat.modified), (time, time));
    }
    Ok(())
}

fn of_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.symlink(b"f", b"s")?;
    set(context, b"f", OLD, OLD)?;
    set(context, b"s", OTHER, OTHER)?;
    same!((me.stat(b"f")?.modified, me.lstat(b"s")?.modified), (OLD, OTHER));
    me.set_times(b"s", TimeChange::Keep, TimeChange::To(Time::new(5, 5)), true)?;
    same!((me.stat(b"f")?.modified, me.lstat(b"s")?.modified), (Time::new(5, 5), OTHER));
    Ok(())
}

fn of_an_open_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.set_times(TimeChange::To(OTHER), TimeChange::To(OLD))?;
    same!((me.stat(b"f")?.accessed, me.stat(b"f")?.modified), (OTHER, OLD));
    let reader = me.open(b"f", libc::O_RDONLY, 0)?;
    me.unlink(b"f")?;
    reader.set_times(TimeChange::To(OLD), TimeChange::To(OTHER))?;
    same!((file.stat()?.accessed, file.stat()?.modified), (OLD, OTHER));
    Ok(())
}

fn of_a_directory(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"d", 0o755)?;
    set(context, b"d", OTHER, OLD)?;
    let stat = context.me.stat(b"d")?;
    same!((stat.accessed, stat.modified), (OTHER, OLD));
    Ok(())
}

fn by_others(context: &TestContext<'_>) -> Outcome {
    let (owner, other) = (context.user(1001)?, context.user(1002)?);
    owner.put(b"f", b"")?;
    let (to, now, keep) = (TimeChange::To(OLD), TimeChange::Now, TimeChange::Keep);
    owner.set_times(b"f", to, to, true)?;
    refused!(other.set_times(b"f", now, now, true), EACCES);
    refused!(other.set_times(b"f", to, to, true), EPERM);
    context.me.chmod(b"f", 0o666)?;
    // A user with write permission may set the present time, but no other time, and not only one of the two.
    other.set_times(b"f", now, now, true)?;
    refused!(other.set_times(b"f", to, to, true), EPERM);
    refused!(other.set_times(b"f", keep, now, true), EPERM);
    other.set_times(b"f", keep, keep, true)?;
    context.me.chmod(b"f", 0)?;
    owner.set_times(b"f", to, now, true)?;
    same!(owner.stat(b"f")?.accessed, OLD);
    Ok(())
}

fn wrong_nanoseconds(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    set(context, b"f", OLD, OLD)?;
    let wrong = TimeChange::To(Time::new(1, 1_000_000_000));
    refused!(me.set_times(b"f", wrong, TimeChange::Keep, true), EINVAL);
    same!(me.stat(b"f")?.accessed, OLD);
    Ok(())
}

fn write_changes_modification(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    let since = clock();
    let (before, after) = around(context, b"f", || Ok(file.put_at(b"data", 0)?))?;
    is_now(after.modified, since)?;
    is_now(after.changed, since)?;
    ensure!(after.changed > before.changed, "the change time did not grow");
    // Overwriting counts as a modification as well.
    let (_, after) = around(context, b"f", || Ok(file.put_at(b"DATA", 0)?))?;
    is_now(after.modified, since)
}

fn read_changes_access(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(b"data", 0)?;
    let since = clock();
    let (_, after) = around(context, b"f", || {
        same!(file.get_at(0, 4)?, b"data");
        Ok(())
    })?;
    is_now(after.accessed, since)?;
    same!(after.modified, OLD);
    Ok(())
}

fn truncate_changes_modification(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"some data")?;
    let since = clock();
    for size in [100, 3, 0] {
        let (before, after) = around(context, b"f", || Ok(me.truncate(b"f", size)?))?;
        is_now(after.modified, since)?;
        ensure!(after.changed > before.changed, "the change time did not grow");
    }
    let file = me.edit(b"f")?;
    let (_, after) = around(context, b"f", || Ok(file.truncate(10)?))?;
    is_now(after.modified, since)
}

fn only_change_time(before: &Stat, after: &Stat) -> Outcome {
    same!((after.accessed, after.modified), (OLD, OLD));
    ensure!(after.changed > before.changed, "the change time did not grow");
    Ok(())
}

fn chmod_changes_only_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let (before, after) = around(context, b"f", || Ok(me.chmod(b"f", 0o600)?))?;
    only_change_time(&before, &after)
}

fn chown_changes_only_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let (before, after) = around(context, b"f", || Ok(me.chown(b"f", Some(5), Some(6))?))?;
    only_change_time(&before, &after)
}

fn link_changes_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let (before, after) = around(context, b"f", || Ok(me.link(b"f", b"g")?))?;
    only_change_time(&before, &after)
}

fn unlink_changes_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.link(b"f", b"g")?;
    let (before, after) = around(context, b"f", || Ok(me.unlink(b"g")?))?;
    only_change_time(&before, &after)?;
    let file = me.edit(b"f")?;
    let before = file.stat()?;
    pause();
    me.unlink(b"f")?;
    only_change_time(&before, &file.stat()?)
}

fn rename_keeps_modification(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    set(context, b"f", OTHER, OLD)?;
    me.rename(b"f", b"g")?;
    same!((me.stat(b"g")?.accessed, me.stat(b"g")?.modified), (OTHER, OLD));
    Ok(())
}

fn rename_changes_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    for (from, to) in [(&b"f"[..], &b"g"[..]), (b"d", b"e")] {
        set(context, from, OLD, OLD)?;
        let before = me.stat(from)?;
        pause();
        me.rename(from, to)?;
        only_change_time(&before, &me.stat(to)?)?;
    }
    Ok(())
}

fn replacing_rename_changes_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.put(b"target", b"")?;
    me.link(b"target", b"left")?;
    let (before, after) = around(context, b"left", || Ok(me.rename(b"f", b"target")?))?;
    same!((before.links, after.links), (2, 1));
    only_change_time(&before, &after)
}

fn exchange_changes_both_change_times(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    set(context, b"f", OLD, OLD)?;
    set(context, b"d", OLD, OLD)?;
    let (f, d) = (me.stat(b"f")?, me.stat(b"d")?);
    pause();
    me.rename_with(b"f", b"d", libc::RENAME_EXCHANGE)?;
    only_change_time(&f, &me.stat(b"d")?)?;
    only_change_time(&d, &me.stat(b"f")?)
}

fn names_change_their_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"f", b"")?;
    let operations: [(&str, &dyn Fn() -> vnode::Result<()>); 9] = [
        ("create", &|| me.create(b"d/a").map(drop)),
        ("mkdir", &|| me.mkdir(b"d/b", 0o755)),
        ("symlink", &|| me.symlink(b"t", b"d/c")),
        ("mknod", &|| me.mknod(b"d/e", libc::S_IFREG | 0o600, (0, 0))),
        ("rename within", &|| me.rename(b"d/a", b"d/g")),
        ("rename out", &|| me.rename(b"d/g", b"h")),
        ("rename in", &|| me.rename(b"h", b"d/h")),
        ("unlink", &|| me.unlink(b"d/c")),
        ("rmdir", &|| me.rmdir(b"d/b")),
    ];
    let since = clock();
    for (what, operation) in operations {
        let (before, after) = around(context, b"d", || Ok(operation()?))?;
        ensure!(after.modified > OLD, "{what}: the directory's modification time did not grow");
        ensure!(after.changed > before.changed, "{what}: the directory's change time did not grow");
        is_now(after.modified, since)?;
    }
    Ok(())
}

fn overwriting_rename_changes_directories(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"e", 0o755)?;
    me.put(b"d/f", b"")?;
    me.put(b"e/f", b"")?;
    set(context, b"d", OLD, OLD)?;
    set(context, b"e", OLD, OLD)?;
    let since = clock();
    me.rename(b"d/f", b"e/f")?;
    is_now(me.stat(b"d")?.modified, since)?;
    is_now(me.stat(b"e")?.modified, since)
}

fn opening_changes_nothing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let (before, after) = around(context, b"f", || {
        let open = |flags| -> Outcome<Box<dyn File>> { Ok(me.open(b"f", flags, 0)?) };
        open(libc::O_RDONLY)?;
        open(libc::O_RDWR)?;
        open(libc::O_WRONLY | libc::O_APPEND)?;
        open(libc::O_CREAT | libc::O_RDWR)?;
        Ok(())
    })?;
    same!(after, before);
    Ok(())
}

fn truncating_open_changes_modification(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    let since = clock();
    let (_, after) = around(context, b"f", || {
        me.open(b"f", libc::O_WRONLY | libc::O_TRUNC, 0)?;
        Ok(())
    })?;
    same!(after.size, 0);
    is_now(after.modified, since)
}

fn creation_is_now(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let since = clock();
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"t", b"s")?;
    for name in [b"f", b"d", b"s"] {
        let stat = me.lstat(name)?;
        is_now(stat.accessed, since)?;
        is_now(stat.modified, since)?;
        is_now(stat.changed, since)?;
    }
    Ok(())
}

fn last_write_counts_after_setting(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    // As tar does: write, set the times, close. Later write-back of data must not undo the times.
    let file = me.create(b"f")?;
    file.put_at(&[1; 100_000], 0)?;
    file.set_times(TimeChange::To(OLD), TimeChange::To(OTHER))?;
    file.close()?;
    same!(me.stat(b"f")?.modified, OTHER);
    me.sync()?;
    same!(me.stat(b"f")?.modified, OTHER);
    Ok(())
}

fn xattr_changes_change_time(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let (before, after) = around(context, b"f", || Ok(me.setxattr(b"f", b"user.a", b"1", 0)?))?;
    only_change_time(&before, &after)?;
    let (before, after) = around(context, b"f", || Ok(me.removexattr(b"f", b"user.a")?))?;
    only_change_time(&before, &after)
}

fn allocation_changes_modification(context: &TestContext<'_>) -> Outcome {
    let file = context.me.create(b"f")?;
    file.put_at(&[1; 65536], 0)?;
    let since = clock();
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (_, after) = around(context, b"f", || Ok(file.allocate(punch, 0, 4096)?))?;
    is_now(after.modified, since)
}
