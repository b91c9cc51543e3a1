//! Rules of `audit`, which select the operations to report by operation, path, user and result.

use std::ops::RangeInclusive;

use vnode::layer::Operation;
use vnode::{Errno, Result};

use crate::globs::Globs;
use crate::rules::index;

/// Rules in order: the first rule that matches an operation decides whether it is reported.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// For each operation, the classes of results that some rule reports.
    watched: [Class; Operation::NAMES.len()],
}

/// A rule, which matches an operation if all its parts match.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Whether matching operations are reported, rather than ignored.
    pub(crate) report: bool,
    /// Bit set of operations, by index.
    pub(crate) operations: u64,
    pub(crate) results: Results,
    /// Paths that match; every path if `None`.
    pub(crate) paths: Option<Globs>,
    /// Users that match; every user if `None`.
    pub(crate) users: Option<Users>,
    pub(crate) except_users: Users,
    /// Whether the owner of the object is an exception, too.
    pub(crate) except_owner: bool,
}

/// A set of users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users(pub(crate) Vec<RangeInclusive<u32>>);

/// A set of results: classes, and individual errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) classes: Class,
    pub(crate) errors: Vec<Errno>,
}

/// Bit set of classes of results.
pub(crate) type Class = u8;
/// The operation succeeded.
pub(crate) const OK: Class = 1;
/// The caller lacks permission: `EACCES`, `EPERM`.
pub(crate) const DENIED: Class = 2;
/// The object does not exist: `ENOENT`.
pub(crate) const FAILED: Class = 4;
/// Any other error.
pub(crate) const OTHER: Class = 8;

/// Facts about an operation that rules query, most of them determined only on demand.
pub(crate) trait Facts {
    fn operation(&self) -> usize;
    fn result(&self) -> Result<()>;
    fn user(&self) -> u32;
    /// Returns whether the caller owns the object.
    fn is_owner(&self) -> bool;
    /// Returns whether any path of the operation matches these patterns.
    fn has_path(&self, globs: &Globs) -> bool;
}

impl Rules {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        let mut watched = [0; Operation::NAMES.len()];
        for rule in rules.iter().filter(|rule| rule.report) {
            for (index, watched) in watched.iter_mut().enumerate() {
                if rule.operations & (1 << index) != 0 {
                    *watched |= rule.results.watched();
                }
            }
        }
        Self { rules, watched }
    }

    /// Returns whether any rule might report this; cheap, since every operation calls it.
    pub(crate) fn may_report(&self, operation: usize, result: Result<()>) -> bool {
        self.watched[operation] & class(result) != 0
    }

    /// Returns whether some rule reports results of these classes for the named operation.
    pub(crate) fn watches(&self, operation: &str, classes: Class) -> bool {
        self.watched[index(operation).unwrap_or_default()] & classes != 0
    }

    /// Returns whether some rule reports results of these classes for any operation.
    pub(crate) fn watches_any(&self, classes: Class) -> bool {
        self.watched.iter().any(|watched| watched & classes != 0)
    }

    /// Returns whether the first matching rule reports the operation.
    pub(crate) fn reports(&self, facts: &impl Facts) -> bool {
        self.rules.iter().find(|rule| rule.matches(facts)).is_some_and(|rule| rule.report)
    }

    /// Returns whether any rule depends on paths.
    pub(crate) fn ask_for_paths(&self) -> bool {
        self.rules.iter().any(|rule| rule.paths.is_some())
    }
}

impl Rule {
    /// Returns whether all parts match, with the cheap tests first.
    fn matches(&self, facts: &impl Facts) -> bool {
        self.operations & (1 << facts.operation()) != 0
            && self.results.contain(facts.result())
            && self.users.as_ref().is_none_or(|users| users.contain(facts.user()))
            && !self.except_users.contain(facts.user())
            && !(self.except_owner && facts.is_owner())
            && self.paths.as_ref().is_none_or(|globs| facts.has_path(globs))
    }
}

impl Users {
    fn contain(&self, user: u32) -> bool {
        self.0.iter().any(|range| range.contains(&user))
    }
}

impl Results {
    fn contain(&self, result: Result<()>) -> bool {
        self.classes & class(result) != 0 || result.is_err_and(|error| self.errors.contains(&error))
    }

    fn watched(&self) -> Class {
        self.errors.iter().fold(self.classes, |classes, error| classes | class(Err(*error)))
    }
}

fn class(result: Result<()>) -> Class {
    match result {
        Ok(()) => OK,
        Err(Errno::EACCES | Errno::EPERM) => DENIED,
        Err(Errno::ENOENT) => FAILED,
        Err(_) => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::parse;

    struct Case {
        operation: &'static str,
        result: Result<()>,
        user: u32,
        owner: u32,
        path: &'static str,
    }

    impl Facts for Case {
        fn operation(&self) -> usize {
            index(self.operation).unwrap()
        }
        fn result(&self) -> Result<()> {
            self.result
        }
        fn user(&self) -> u32 {
            self.user
        }
        fn is_owner(&self) -> bool {
            self.user == self.owner
        }
        fn has_path(&self, globs: &Globs) -> bool {
            globs.matches(self.path.as_bytes())
        }
    }

    fn reports(rules: &Rules, case: &Case) -> bool {
        let reported = rules.reports(case);
        assert!(!reported || rules.may_report(case.operation(), case.result));
        reported
    }

    #[test]
    fn by_default_strangers_are_reported_and_owners_are_not() {
        let rules = Rules::new(parse::default_rules());
        let case = Case { operation: "lookup", result: Err(Errno::ENOENT), user: 7, owner: 8, path: "" };
        assert!(reports(&rules, &case));
        assert!(reports(&rules, &Case { result: Err(Errno::EACCES), ..case }));
        assert!(!reports(&rules, &Case { result: Ok(()), ..case }));
        assert!(!reports(&rules, &Case { owner: 7, ..case }));
        assert!(!reports(&rules, &Case { user: 0, ..case }));
        assert!(!reports(&rules, &Case { operation: "open", ..case }));
        assert!(reports(&rules, &Case { operation: "open", result: Err(Errno::EACCES), ..case }));
        assert!(!rules.watches("lookup", OK) && !rules.watches("read", OK | DENIED) && rules.watches("lookup", FAILED));
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let text = "ignore path=**/.cache/**\n# a comment\n\nreport operations=unlink:rename result=ok uid=5-6\n";
        let rules = Rules::new(crate::rules::lines("rules", text, parse::rule).unwrap());
        let case = Case { operation: "unlink", result: Ok(()), user: 5, owner: 5, path: "a/b" };
        assert!(reports(&rules, &case));
        assert!(!reports(&rules, &Case { path: "a/.cache/b", ..case }));
        assert!(!reports(&rules, &Case { user: 7, ..case }));
        assert!(!reports(&rules, &Case { result: Err(Errno::EACCES), ..case }));
        assert!(rules.ask_for_paths());
    }
}
