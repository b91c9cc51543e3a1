//! Static bounds: the stack use and call depth of each function on a target, known before anything runs. Recursive
//! functions have none; the run-time depth limit applies in any case.

use std::fmt;

use crate::effects::Effects;
use crate::ir::{Expression as E, Function, Program, each, each_expression};
use crate::prepare::{Layout, PrepareError};
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
    pub max_call_path: Option<(u32, u64)>,
    /// Effects that the function or any of its callees may have outside the program.
    pub effects: Effects,
}

impl fmt::Display for Bounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max_call_path {
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
    pub fn bounds(&self, target: &Target) -> Result<Vec<Bounds>, PrepareError> {
        let layout = Layout::of(self, target)?;
        let frames = self.functions.iter().map(|function| frame(function, &layout)).collect::<Result<Vec<_>, _>>()?;
        let calls: Vec<_> = self.functions.iter().map(|function| Calls::of(self, function)).collect();
        let mut analysis =
            BoundsAnalysis { calls: &calls, frames: &frames, states: vec![BoundState::Unvisited; frames.len()] };
        (0..frames.len()).for_each(|function| analysis.analyze(function));
        let max_call_path = analysis.states.iter().map(|state| match state {
            BoundState::Known(max_call_path) => *max_call_path,
            BoundState::Unvisited | BoundState::InProgress => None,
        });
        let effects = effects(&calls);
        Ok(frames
            .iter()
            .zip(max_call_path)
            .zip(effects)
            .map(|((frame, max_call_path), effects)| Bounds { frame_bytes: *frame, max_call_path, effects })
            .collect())
    }
}

fn frame(function: &Function, layout: &Layout) -> Result<u64, PrepareError> {
    let registers = function.registers.len() as u64 * REGISTER_BYTES;
    function.objects.iter().try_fold(registers, |all, object| {
        let size = layout.size(&object.r#type).and_then(|size| size.checked_next_multiple_of(ALIGNMENT));
        size.and_then(|size| all.checked_add(size)).ok_or_else(|| PrepareError::TooLarge(function.name.clone()))
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
enum BoundState {
    Unvisited,
    InProgress,
    Known(Option<(u32, u64)>),
}

struct BoundsAnalysis<'a> {
    calls: &'a [Calls],
    frames: &'a [u64],
    states: Vec<BoundState>,
}

impl BoundsAnalysis<'_> {
    /// Analyzes a function after its callees. Call chains may be arbitrarily long, so the pending functions are kept on
    /// an explicit stack.
    fn analyze(&mut self, first: usize) {
        let mut pending = vec![(first, 0)];
        while let Some((function, next)) = pending.pop() {
            match (self.states[function], next) {
                (BoundState::Known(_), _) => continue,
                // A recursive call.
                (BoundState::InProgress, 0) => continue,
                _ => self.states[function] = BoundState::InProgress,
            }
            match self.calls[function].functions.get(next) {
                Some(called) => pending.extend([(function, next + 1), (*called, 0)]),
                None => self.states[function] = BoundState::Known(self.max_call_path(function)),
            }
        }
    }

    /// The maximum for a function whose callees are all analyzed, except for the pending ones, which are recursive.
    fn max_call_path(&self, function: usize) -> Option<(u32, u64)> {
        let mut deepest = (0, 0);
        for called in &self.calls[function].functions {
            let BoundState::Known(Some((depth, bytes))) = self.states[*called] else { return None };
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
