//! Bounds: how much of the stack the functions of a program take on a target, and how deeply they call each other, known before
//! anything is run. Those that call themselves have none; the depth of runs is limited in any case.

use std::fmt;

use crate::effects::Effects;
use crate::ir::{Expression as E, Function, Program, each, each_expression};
use crate::prepare::{Layout, Unfit};
use crate::target::Target;

/// Bytes of a register.
const REGISTER_BYTES: u64 = 8;
/// What objects are aligned to.
const ALIGNMENT: u64 = 8;

/// What is known of a function, with those that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of its own registers and objects.
    pub frame_bytes: u64,
    /// How many functions call each other at a time, itself included, and the bytes of all those; `None` if it can come to itself
    /// again, or to one that can.
    pub most: Option<(u32, u64)>,
    /// What it, or one of those, may do out of the program.
    pub effects: Effects,
}

impl fmt::Display for Bounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some((1, bytes)) => write!(formatter, "calls none, {bytes} bytes of stack; ")?,
            Some((depth, bytes)) => write!(formatter, "calls {} deep, {bytes} bytes of stack; ", depth - 1)?,
            None => write!(formatter, "may call itself, {} bytes of stack each time; ", self.frame_bytes)?,
        }
        self.effects.fmt(formatter)
    }
}

impl Program {
    /// The bounds of all functions, in their order.
    ///
    /// # Errors
    /// Why the program does not fit the target.
    pub fn bounds(&self, target: &Target) -> Result<Vec<Bounds>, Unfit> {
        let layout = Layout::of(self, target)?;
        let frames = self.functions.iter().map(|function| frame(function, &layout)).collect::<Result<Vec<_>, _>>()?;
        let calls: Vec<_> = self.functions.iter().map(|function| Calls::of(self, function)).collect();
        let mut settling = Settling { calls: &calls, frames: &frames, states: vec![State::Unseen; frames.len()] };
        (0..frames.len()).for_each(|function| settling.settle(function));
        let most = settling.states.iter().map(|state| match state {
            State::Settled(most) => *most,
            State::Unseen | State::Begun => None,
        });
        let effects = effects(&calls);
        Ok(frames
            .iter()
            .zip(most)
            .zip(effects)
            .map(|((frame, most), effects)| Bounds { frame_bytes: *frame, most, effects })
            .collect())
    }
}

fn frame(function: &Function, layout: &Layout) -> Result<u64, Unfit> {
    let registers = function.registers.len() as u64 * REGISTER_BYTES;
    function.objects.iter().try_fold(registers, |all, object| {
        let size = layout.size(&object.r#type).and_then(|size| size.checked_next_multiple_of(ALIGNMENT));
        size.and_then(|size| all.checked_add(size)).ok_or_else(|| Unfit::TooLarge(function.name.clone()))
    })
}

/// What a function calls.
struct Calls {
    functions: Vec<usize>,
    /// What its own calls out of the program may do.
    effects: Effects,
}

impl Calls {
    fn of(program: &Program, function: &Function) -> Calls {
        let mut calls = Calls { functions: Vec::new(), effects: Effects::default() };
        each_expression(&function.body, &mut |whole| {
            each(whole, &mut |one| match one {
                E::Call(function, ..) => calls.functions.push(*function),
                E::Site(site, ..) => calls.effects = calls.effects | program.sites[*site].effects(),
                _ => {}
            });
        });
        calls.functions.sort_unstable();
        calls.functions.dedup();
        calls
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    Begun,
    Settled(Option<(u32, u64)>),
}

struct Settling<'a> {
    calls: &'a [Calls],
    frames: &'a [u64],
    states: Vec<State>,
}

impl Settling<'_> {
    /// Settles a function, and those that it calls before it. They may call each other in chains of any length: so those that are
    /// begun are kept in a list.
    fn settle(&mut self, first: usize) {
        let mut begun = vec![(first, 0)];
        while let Some((function, next)) = begun.pop() {
            match (self.states[function], next) {
                (State::Settled(_), _) => continue,
                // It can come to itself again.
                (State::Begun, 0) => continue,
                _ => self.states[function] = State::Begun,
            }
            match self.calls[function].functions.get(next) {
                Some(called) => begun.extend([(function, next + 1), (*called, 0)]),
                None => self.states[function] = State::Settled(self.most(function)),
            }
        }
    }

    /// The most of a function whose calls are settled, but for those that are begun, which it comes back to.
    fn most(&self, function: usize) -> Option<(u32, u64)> {
        let mut deepest = (0, 0);
        for called in &self.calls[function].functions {
            let State::Settled(Some((depth, bytes))) = self.states[*called] else { return None };
            deepest = (deepest.0.max(depth), deepest.1.max(bytes));
        }
        Some((deepest.0 + 1, self.frames[function].saturating_add(deepest.1)))
    }
}

/// What functions may do with those that they call: each has what those have, as long as that adds anything.
fn effects(calls: &[Calls]) -> Vec<Effects> {
    let mut all: Vec<_> = calls.iter().map(|calls| calls.effects).collect();
    let mut callers = vec![Vec::new(); calls.len()];
    for (caller, calls) in calls.iter().enumerate() {
        calls.functions.iter().for_each(|called| callers[*called].push(caller));
    }
    let mut changed: Vec<_> = (0..calls.len()).collect();
    while let Some(called) = changed.pop() {
        for caller in &callers[called] {
            let with = all[*caller] | all[called];
            if with != all[*caller] {
                all[*caller] = with;
                changed.push(*caller);
            }
        }
    }
    all
}
