//! All unsafe code of the compiled tier: entering compiled code, its callbacks, and freeing its memory (see also
//! `code_memory.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cranelift_jit::JITModule;
use cranelift_module::FuncId;

use super::machine::Machine;
use crate::trap::Trap;

/// An entry point: takes the machine and the arguments; the return value is in the machine afterwards.
type Entry = unsafe extern "C" fn(*mut Machine<'_, '_>, *const i64);

/// Compiled code, and the entry point and number of arguments of each function that can be entered.
pub(crate) struct MachineCode {
    /// Kept only to free its memory.
    module: Mutex<Option<JITModule>>,
    entries: Vec<Option<(Entry, usize)>>,
}

impl MachineCode {
    /// Takes the code of a finished module that this crate has generated, with the entry points of its functions, of
    /// type [`Entry`].
    pub(crate) fn new(module: JITModule, entries: &[Option<(FuncId, usize)>]) -> MachineCode {
        let entry = |(function, parameters): (FuncId, usize)| {
            let code = module.get_finalized_function(function);
            // SAFETY: the code at this address was generated with the signature of an `Entry`, for the calling
            // convention of this machine, and stays in place as long as the module that is stored next to it.
            let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code) };
            (entry, parameters)
        };
        let entries = entries.iter().map(|one| one.map(entry)).collect();
        MachineCode { module: Mutex::new(Some(module)), entries }
    }

    /// Runs a function; does nothing if it has no entry point.
    pub(crate) fn run(&self, function: usize, machine: &mut Machine<'_, '_>, values: &[i64]) {
        let Some((entry, parameters)) = self.entries[function] else { return };
        assert!(values.len() >= parameters, "values for all parameters");
        let machine: *mut Machine<'_, '_> = machine;
        // SAFETY: the code exists as long as `self`. It reads as many values as were counted here. It accesses the
        // machine only through this pointer, and memory only through the machine's tables, within the bounds recorded
        // there, which it reloads after every call that may change them. It calls back with the pointer, which nobody
        // else uses meanwhile.
        unsafe { entry(machine, values.as_ptr()) };
    }
}

impl Drop for MachineCode {
    fn drop(&mut self) {
        if let Some(module) = self.module.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: only `run` enters the functions, and it borrows `self`: none is running, and none can run again.
            unsafe { module.free_memory() };
        }
    }
}

/// Handles a request of compiled code. Panics do not cross into it, and resume after it has returned.
///
/// # Safety
/// The pointer is the one that compiled code was entered with, and nothing else uses the machine.
unsafe fn handle_callback(
    machine: *mut Machine<'_, '_>,
    request: impl FnOnce(&mut Machine<'_, '_>) -> Result<i64, Trap>,
) -> i64 {
    // SAFETY: compiled code passes the pointer that it was entered with, and waits for this function.
    let machine = unsafe { &mut *machine };
    match catch_unwind(AssertUnwindSafe(|| request(machine))) {
        Ok(Ok(value)) => value,
        Ok(Err(stop)) => machine.trap(stop),
        Err(panic) => machine.catch_panic(panic),
    }
}

macro_rules! callbacks {
    ($($name:ident($($value:ident),*);)*) => {
        $(
            /// Calls the machine's method of the same name.
            ///
            /// # Safety
            /// As [`handle_callback`].
            unsafe extern "C" fn $name(machine: *mut Machine<'_, '_>, $($value: i64),*) -> i64 {
                // SAFETY: only compiled code calls this, with the pointer that it was entered with.
                unsafe { handle_callback(machine, |machine| machine.$name($($value),*)) }
            }
        )*
    };
}

callbacks! {
    load(pointer, integer, location);
    store(pointer, value, integer, location);
    refuse(pointer, bytes, is_write, location);
    copy(to, from, bytes, location);
    clear(pointer);
    more(left, location);
    enter(function, location);
    leave();
}

/// Makes an intrinsic or host call with `count` arguments.
///
/// # Safety
/// As [`handle_callback`], and `values` points to `count` values.
unsafe extern "C" fn site(
    machine: *mut Machine<'_, '_>,
    site: i64,
    location: i64,
    values: *const i64,
    count: usize,
) -> i64 {
    // SAFETY: compiled code has written `count` values to its frame, and changes none of them before this returns.
    let values = unsafe { std::slice::from_raw_parts(values, count) };
    // SAFETY: only compiled code calls this, with the pointer that it was entered with.
    unsafe { handle_callback(machine, |machine| machine.site(site, location, values)) }
}

/// The functions that compiled code calls: name, address, and number of arguments besides the machine.
pub(crate) fn callbacks() -> [(&'static str, *const u8, usize); 9] {
    [
        ("load", load as *const u8, 3),
        ("store", store as *const u8, 4),
        ("refuse", refuse as *const u8, 4),
        ("copy", copy as *const u8, 4),
        ("clear", clear as *const u8, 1),
        ("more", more as *const u8, 2),
        ("enter", enter as *const u8, 2),
        ("leave", leave as *const u8, 0),
        ("site", site as *const u8, 4),
    ]
}
