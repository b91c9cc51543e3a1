//! Single operations that every mount must answer itself, for tuning.
use std::ffi::CString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, bail};
use rustix::fs::{
    AtFlags, Mode, OFlags, StatxFlags, chmodat, linkat, mkdirat, openat, renameat, statat, statx, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::sizes::Sizes;
use crate::session::Session;
use crate::tree::{open_directory, walk};

/// Number of entries of the directory that is listed.
const LISTED_ENTRIES: u64 = 100;

/// One step per operation.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    let count = sizes.latency_operations;
    let names: Vec<CString> = (0..count).map(|number| name("file", number)).collect();
    prepare(session, &names)?;
    session.mount()?;
    let top = open_directory(session.directory())?;
    measure_lookups(session, &top, &names)?;
    measure_files(session, &top, count)?;
    measure_names(session, &top, count)?;
    drop(top);
    session.unmount()
}

fn prepare(session: &Session<'_>, names: &[CString]) -> Result<()> {
    for file in names {
        File::create(session.data().join(file.to_str()?))?;
    }
    let listed = session.data().join("listed");
    std::fs::create_dir(&listed)?;
    for number in 0..LISTED_ENTRIES {
        File::create(listed.join(number.to_string()))?;
    }
    Ok(())
}

fn measure_lookups(session: &mut Session<'_>, top: &OwnedFd, names: &[CString]) -> Result<()> {
    let count = names.len() as u64;
    session.time_operations("lookup of a new name", count, |_| {
        names.iter().try_for_each(|name| Ok(statat(top, name, AtFlags::empty()).map(drop)?))
    })?;
    let missing: Vec<CString> = (0..count).map(|number| name("missing", number)).collect();
    session.time_operations("lookup of a missing name", count, |_| {
        missing.iter().try_for_each(|name| match statat(top, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => bail!("{other:?} instead of ENOENT"),
        })
    })?;
    session.time_operations("stat, cached", count, |_| {
        (0..count).try_for_each(|_| Ok(statat(top, &names[0], AtFlags::empty()).map(drop)?))
    })?;
    session.time_operations("stat, not cached", count, |_| {
        let flags = AtFlags::STATX_FORCE_SYNC;
        (0..count).try_for_each(|_| Ok(statx(top, &names[0], flags, StatxFlags::BASIC_STATS).map(drop)?))
    })
}

fn measure_files(session: &mut Session<'_>, top: &OwnedFd, count: u64) -> Result<()> {
    let file = name("file", 0);
    session.time_operations("open and close", count, |_| {
        (0..count).try_for_each(|_| Ok(openat(top, &file, OFlags::RDONLY, Mode::empty()).map(drop)?))
    })?;
    let open = File::from(openat(top, &file, OFlags::RDWR, Mode::empty())?);
    session.time_operations("append of 100 bytes", count, |_| {
        (0..count).try_for_each(|number| Ok(open.write_all_at(&[1; 100], number * 100)?))
    })?;
    drop(open);
    session.time_operations("open, read 4 KiB, close", count, |_| {
        (0..count).try_for_each(|_| {
            let open = File::from(openat(top, &file, OFlags::RDONLY, Mode::empty())?);
            Ok(open.read_exact_at(&mut [0; 4096], 0)?)
        })
    })?;
    session.time_operations("create, close, unlink", count, |_| {
        (0..count).try_for_each(|_| {
            drop(openat(top, c"new", OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, Mode::RUSR | Mode::WUSR)?);
            Ok(unlinkat(top, c"new", AtFlags::empty())?)
        })
    })?;
    session.time_operations("create, write 4 KiB, close, unlink", count, |_| {
        (0..count).try_for_each(|_| {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            File::from(openat(top, c"new", flags, Mode::RUSR | Mode::WUSR)?).write_all_at(&[1; 4096], 0)?;
            Ok(unlinkat(top, c"new", AtFlags::empty())?)
        })
    })
}

fn measure_names(session: &mut Session<'_>, top: &OwnedFd, count: u64) -> Result<()> {
    session.time_operations("mkdir, rmdir", count, |_| {
        (0..count).try_for_each(|_| {
            mkdirat(top, c"new", Mode::RWXU)?;
            Ok(unlinkat(top, c"new", AtFlags::REMOVEDIR)?)
        })
    })?;
    session.time_operations("symlink, unlink", count, |_| {
        (0..count).try_for_each(|_| {
            symlinkat(c"target", top, c"new")?;
            Ok(unlinkat(top, c"new", AtFlags::empty())?)
        })
    })?;
    session.time_operations("link, unlink", count, |_| {
        (0..count).try_for_each(|_| {
            linkat(top, c"file0", top, c"new", AtFlags::empty())?;
            Ok(unlinkat(top, c"new", AtFlags::empty())?)
        })
    })?;
    session.time_operations("rename, twice", count, |_| {
        (0..count).try_for_each(|_| {
            renameat(top, c"file0", top, c"other")?;
            Ok(renameat(top, c"other", top, c"file0")?)
        })
    })?;
    session.time_operations("chmod", count, |_| {
        (0..count).try_for_each(|number| {
            let mode = if number % 2 == 0 { Mode::RUSR } else { Mode::RWXU };
            Ok(chmodat(top, c"file0", mode, AtFlags::empty())?)
        })
    })?;
    let times = count / 20;
    session.time_operations("open and list a directory of 100", times, |directory| {
        (0..times).try_for_each(|_| match walk(open_directory(&directory.join("listed"))?, false)? {
            LISTED_ENTRIES => Ok(()),
            found => bail!("{found} entries instead of {LISTED_ENTRIES}"),
        })
    })
}

fn name(stem: &str, number: u64) -> CString {
    CString::new(format!("{stem}{number}")).context("a name").expect("no zero byte in a number")
}
