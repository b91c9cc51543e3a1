//! Bases: the bottoms of stacks, which turn the outside world into vnodes.
