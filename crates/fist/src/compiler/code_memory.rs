//! Memory of compiled code, in one piece, so that each part of it is within reach of a call from any other.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cranelift_jit::{ArenaMemoryProvider, BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};

/// Reserved addresses, which get memory as code is added. The arena panics where the kernel refuses memory or the execution of
/// what was written: here that is an error, after which the program is interpreted.
pub(crate) struct CodeMemory(ArenaMemoryProvider);

impl CodeMemory {
    /// Reserves that many bytes of addresses.
    ///
    /// # Errors
    /// The limit on addresses (RLIMIT_AS).
    pub(crate) fn reserve(bytes: usize) -> io::Result<CodeMemory> {
        ArenaMemoryProvider::new_with_size(bytes).map(CodeMemory).map_err(io::Error::other)
    }
}

fn refused() -> io::Error {
    io::Error::other("the kernel refuses memory for machine code")
}

impl JITMemoryProvider for CodeMemory {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        catch_unwind(AssertUnwindSafe(|| self.0.allocate(size, align, kind))).unwrap_or_else(|_| Err(refused()))
    }

    unsafe fn free_memory(&mut self) {
        // SAFETY: as the caller promises, nobody uses the memory any more.
        unsafe { self.0.free_memory() };
    }

    fn finalize(&mut self, branch_protection: BranchProtection) -> ModuleResult<()> {
        let finalize = || JITMemoryProvider::finalize(&mut self.0, branch_protection).map_err(io::Error::other);
        let done = catch_unwind(AssertUnwindSafe(finalize)).unwrap_or_else(|_| Err(refused()));
        done.map_err(|err| ModuleError::Allocation { err })
    }
}
