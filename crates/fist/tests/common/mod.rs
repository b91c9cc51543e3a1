//! A file system for programs that need none: it notes what it is asked for.
#![allow(dead_code, reason = "each test uses a part")]

mod far;
pub(crate) mod red_zones;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use plyfs_fist::builtins::{Attribute, Global, OperationValue};
use plyfs_fist::calls::{Calls, DataOwner, Host, Object};
use plyfs_fist::check::check;
use plyfs_fist::code::Argument;
use plyfs_fist::compiler::Compiled;
use plyfs_fist::memory::Memory;
use plyfs_fist::meter::{MAX_WORK, Meter};
use plyfs_fist::program::Program;
use plyfs_fist::trap::{Trap, TrapKind};

/// Checks a description that has no errors.
pub(crate) fn program(name: &str, text: &str) -> Program {
    let parsed = plyfs_fist::parser::parse(text);
    assert!(parsed.diagnostics.is_empty(), "{text}\n{:#?}", parsed.diagnostics);
    let checked = check(&parsed.description, name);
    checked.program.unwrap_or_else(|| panic!("{text}\n{:#?}", checked.diagnostics))
}

/// The codes of what is wrong with a description.
pub(crate) fn codes(text: &str) -> Vec<&'static str> {
    let parsed = plyfs_fist::parser::parse(text);
    let checked = check(&parsed.description, "test");
    parsed.diagnostics.iter().chain(&checked.diagnostics).map(|diagnostic| diagnostic.code.name()).collect()
}

/// What a program asks for is answered with constants and kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordingHost {
    pub error: i32,
    pub printed: Vec<String>,
    pub vfs: Vec<u8>,
    pub mount: Vec<u8>,
    pub vnode: Vec<u8>,
    pub data: Vec<Vec<u8>>,
    pub ioctl: Option<(usize, Vec<u8>)>,
    pub done: Vec<String>,
    /// How much work a run takes at most.
    pub work: u64,
    /// How long a run computes at most.
    pub time_limit: Duration,
    /// How long the file system below computes to unlink something.
    pub unlinks_for: Duration,
}

impl RecordingHost {
    pub(crate) fn new(program: &Program) -> RecordingHost {
        let zeros =
            |structure: Option<usize>| vec![0; structure.map_or(0, |index| program.structures[index].size as usize)];
        RecordingHost {
            vfs: zeros(program.topmost().vfs),
            mount: zeros(program.topmost().mount),
            vnode: zeros(program.topmost().vnode),
            data: program.data.iter().map(|data| data.bytes.clone()).collect(),
            work: MAX_WORK,
            time_limit: Duration::from_secs(3600),
            ..RecordingHost::default()
        }
    }

    /// What a run may take, as it is said here.
    pub(crate) fn meter(&self) -> Meter {
        Meter::new(self.time_limit).with_work(self.work)
    }

    fn note(&mut self, what: String) -> i32 {
        self.done.push(what);
        0
    }
}

impl Host for RecordingHost {
    /// The same in each run.
    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0x77);
    }

    fn global(&mut self, global: Global) -> i64 {
        match global {
            Global::User => 1000,
            Global::Group => 100,
            _ => 1,
        }
    }

    fn operation_number(&mut self, _: OperationValue) -> i64 {
        -1
    }

    fn operation_text(&mut self, _: OperationValue) -> Vec<u8> {
        b"name".to_vec()
    }

    fn set_operation_number(&mut self, value: OperationValue, number: i64) -> Result<(), i32> {
        self.note(format!("{value:?} = {number}"));
        if number == 99 { Err(libc::EINVAL) } else { Ok(()) }
    }

    fn set_operation_text(&mut self, value: OperationValue, text: &[u8]) -> Result<(), i32> {
        self.note(format!("{value:?} = {}", text.escape_ascii()));
        if text.contains(&b'/') { Err(libc::EINVAL) } else { Ok(()) }
    }

    fn object(&mut self, argument: Argument) -> i64 {
        argument.branch.into()
    }

    fn attribute(&mut self, _: Attribute, _: &Object) -> i64 {
        -1
    }

    fn attribute_text(&mut self, _: Attribute, _: &Object) -> Vec<u8> {
        b"name".to_vec()
    }

    fn shared(&mut self, place: DataOwner, access: &mut dyn FnMut(&mut [u8])) -> Result<(), TrapKind> {
        match place {
            DataOwner::Vfs => access(&mut self.vfs),
            DataOwner::Mount => access(&mut self.mount),
            DataOwner::Argument(_) | DataOwner::Object(_) => access(&mut self.vnode),
            DataOwner::Data(index) => access(&mut self.data[index]),
        }
        Ok(())
    }

    fn last_error(&mut self) -> i32 {
        self.error
    }

    fn set_error(&mut self, error: i32) {
        self.error = error;
    }

    fn print(&mut self, message: &[u8]) {
        self.printed.push(String::from_utf8_lossy(message).into_owned());
    }

    fn lookup(
        &mut self,
        directory: &Object,
        name: &[u8],
        _: Option<Argument>,
        user: Option<u32>,
        group: Option<u32>,
    ) -> i32 {
        self.note(format!("lookup {directory:?} {} as {user:?}, {group:?}", name.escape_ascii()))
    }

    fn read_directory(&mut self, directory: &Object, leaves_out_known: bool) -> i32 {
        self.note(format!("readdir {directory:?} {leaves_out_known}"))
    }

    fn skip_name(&mut self, _: Option<&[u8]>) {
        self.note("skip".to_owned());
    }

    fn operate(&mut self, object: &Object) -> i32 {
        self.note(format!("operate {object:?}"))
    }

    fn rename(&mut self, _: &Object, name: &[u8], _: &Object, to_name: &[u8], replaces: bool) -> i32 {
        let how = if replaces { "" } else { " without replacing" };
        self.note(format!("rename {} {}{how}", name.escape_ascii(), to_name.escape_ascii()))
    }

    fn unlink(&mut self, _: &Object, name: &[u8]) -> i32 {
        let begin = Instant::now();
        while begin.elapsed() < self.unlinks_for {}
        self.note(format!("unlink {}", name.escape_ascii()))
    }

    fn make_directory(&mut self, _: &Object, name: &[u8], _: u32) -> i32 {
        self.note(format!("mkdir {}", name.escape_ascii()))
    }

    fn copy_file(&mut self, _: &Object, to: &[u8], _: Option<&Object>) -> i32 {
        self.note(format!("copy {}", to.escape_ascii()))
    }

    fn ioctl_data(&mut self, structure: usize, access: &mut dyn FnMut(&mut [u8])) -> bool {
        match &mut self.ioctl {
            Some((index, data)) if *index == structure => {
                access(data);
                true
            }
            _ => false,
        }
    }

    fn read_file_data(&mut self, _: &Object, bytes: usize) -> Result<Vec<u8>, i32> {
        Ok(vec![1; bytes])
    }

    fn write_file_data(&mut self, _: &Object, _: usize, offset: usize, data: &[u8]) -> i32 {
        self.note(format!("file data {offset} {}", data.escape_ascii()))
    }
}

/// Runs a function.
pub(crate) fn run(program: &Program, notes: &mut RecordingHost, function: &str, values: &[i64]) -> Result<i64, Trap> {
    run_on(program, notes, function, values, &[], &mut [])
}

/// Runs a function that is given what it reads and what it writes: interpreted and compiled, which has to be the same.
pub(crate) fn run_on(
    program: &Program,
    notes: &mut RecordingHost,
    function: &str,
    values: &[i64],
    input: &[u8],
    output: &mut [u8],
) -> Result<i64, Trap> {
    let index = program.functions.iter().position(|one| one.name == function).expect("a function of this name");
    let compiled = Compiled::new(program).unwrap_or_else(|error| panic!("{error}"));
    let (mut other_notes, mut other_output) = (notes.clone(), output.to_vec());
    let result = interpret(program, notes, index, values, input, output);
    let other = run_compiled(&compiled, program, &mut other_notes, index, values, input, &mut other_output);
    assert_eq!(result, other, "interpreted and compiled, `{function}`");
    assert_eq!(*notes, other_notes, "interpreted and compiled, `{function}`");
    assert!(*output == *other_output, "`{function}` wrote different bytes, interpreted and compiled");
    result
}

/// Runs a function in the interpreter.
pub(crate) fn interpret(
    program: &Program,
    notes: &mut RecordingHost,
    function: usize,
    values: &[i64],
    input: &[u8],
    output: &mut [u8],
) -> Result<i64, Trap> {
    let mut memory = Memory::new(&program.data, input, output).metered(notes.meter());
    plyfs_fist::interpreter::run(program, &mut memory, &mut Calls { program, host: notes }, function, values)
}

/// Runs a function as it was compiled.
pub(crate) fn run_compiled(
    compiled: &Compiled,
    program: &Program,
    notes: &mut RecordingHost,
    function: usize,
    values: &[i64],
    input: &[u8],
    output: &mut [u8],
) -> Result<i64, Trap> {
    let mut memory = Memory::new(&program.data, input, output).metered(notes.meter());
    compiled.run(program, &mut memory, &mut Calls { program, host: notes }, function, values)
}

/// Does the same interpreted and compiled: the results and all that changed have to be equal, and nothing is read or written
/// beside any allocation, as far as the allocator is [`red_zones::RedZones`].
pub(crate) fn in_both_tiers<T: PartialEq + Debug>(
    interpreted: impl FnOnce() -> T,
    compiled: impl Fn() -> T,
    what: impl Fn() -> String,
) -> T {
    let expected = interpreted();
    let damaged = red_zones::damaged();
    for fill in [0x5a, 0xc3] {
        let found = red_zones::filled_with(fill, &compiled);
        assert!(found == expected, "{}\ninterpreted {expected:?}\ncompiled {found:?}", what());
    }
    assert_eq!(red_zones::damaged(), damaged, "compiled code wrote beside an allocation: {}", what());
    expected
}
