//! Static bounds: the stack use and call depth of each function on a target, known before anything runs. Recursive
//! functions have none; the run-time depth limit applies in any case.

use std::fmt;

use crate::effects::Effects;
use crate::ir::{Expression as E, Function, Program, each, each_expression};
use crate::prepare::{Layout, Unfit};
use crate::target::Target;

/// Size of a register in bytes.
const REGISTER_BYTES: u64 = 8;
/// Alignment of objects in bytes.
const ALIGNMENT: u64 = 8;

/// Bounds of a function, including its callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Size of its own registers and objects in bytes.
    pub frame_bytes: u64,
    /// Maximum call depth, counting the function itself, and the total bytes of the frames on that path; `None` if the
    /// function is recursive or may reach a function that is.
    pub most: Option<(u32, u64)>,
    /// Effects that the function or any of its callees may have outside the program.
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
    /// Returns the bounds of all functions, in index order.
    ///
    /// # Errors
    /// The reason why the program does not fit the target.
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

/// Calls made by one function.
struct Calls {
    functions: Vec<usize>,
    /// Effects of its own host calls.
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
    /// Settles a function after its callees. Call chains may be arbitrarily long, so the pending functions are kept on
    /// an explicit stack.
    fn settle(&mut self, first: usize) {
        let mut begun = vec![(first, 0)];
        while let Some((function, next)) = begun.pop() {
            match (self.states[function], next) {
                (State::Settled(_), _) => continue,
                // A recursive call.
                (State::Begun, 0) => continue,
                _ => self.states[function] = State::Begun,
            }
            match self.calls[function].functions.get(next) {
                Some(called) => begun.extend([(function, next + 1), (*called, 0)]),
                None => self.states[function] = State::Settled(self.most(function)),
            }
        }
    }

    /// The maximum for a function whose callees are all settled, except for the pending ones, which are recursive.
    fn most(&self, function: usize) -> Option<(u32, u64)> {
        let mut deepest = (0, 0);
        for called in &self.calls[function].functions {
            let State::Settled(Some((depth, bytes))) = self.states[*called] else { return None };
            deepest = (deepest.0.max(depth), deepest.1.max(bytes));
        }
        Some((deepest.0 + 1, self.frames[function].saturating_add(deepest.1)))
    }
}

/// Propagates effects from callees to callers until a fixed point is reached.
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
