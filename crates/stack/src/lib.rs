//! The stack expression, and the one function that builds a stack from it.
