//! The architectures that a module's `.target` names, and what only newer ones have.

use crate::emulator::Arch;
use crate::error::Error;
use crate::syntax::ast;
use std::fmt;

/// An architecture of `.target`: `sm_80`, `sm_90a` or `sm_100f`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'t> {
    name: &'t str,
    arch: Arch,
}

/// Which targets have an instruction, a special register or a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// This architecture and all later ones: `sm_80` of 8.0.
    From(u32, u32),
    /// Targets of one architecture or family, of this one or a later one: `sm_90a` of 9.0.
    Specific(u32, u32),
    /// `sm_90a` alone.
    Hopper,
}

impl<'t> Target<'t> {
    /// The architectures that a module names.
    pub fn of(module: &'t ast::Module) -> impl Iterator<Item = Target<'t>> {
        let arch = |name: &str| {
            let number = name.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
            number.parse().ok().map(|number: u32| Arch::new(number / 10, number % 10))
        };
        let names = module.target.iter();
        names.filter_map(move |name| Some(Target { name, arch: arch(name)? }))
    }

    /// Whether it runs on an architecture: `sm_80` on 8.0 and later ones, `sm_90a` on 9.0 alone,
    /// `sm_100f` on 10.0 and later ones of 10 (PTX ISA, `.target`).
    pub fn runs_on(self, arch: Arch) -> bool {
        match self.suffix() {
            Some('a') => arch == self.arch,
            Some(_) => arch >= self.arch && arch.major == self.arch.major,
            None => arch >= self.arch,
        }
    }

    /// Whether it has what needs that.
    pub fn has(self, needs: Needs) -> bool {
        match needs {
            Needs::From(major, minor) => self.arch >= Arch::new(major, minor),
            Needs::Specific(major, minor) => {
                self.suffix().is_some() && self.arch >= Arch::new(major, minor)
            }
            Needs::Hopper => self.name == "sm_90a",
        }
    }

    fn suffix(self) -> Option<char> {
        self.name.chars().last().filter(|last| last.is_ascii_alphabetic())
    }
}

/// Fails if the module's `.target` lacks what is written there.
pub(super) fn need(module: &ast::Module, needs: Needs, at: ast::Position) -> Result<(), Error> {
    match Target::of(module).find(|target| !target.has(needs)) {
        Some(target) => {
            let message = format!("this needs .target {needs}, and the module says {target}");
            Err(Error::invalid(at, message))
        }
        None => Ok(()),
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Needs::From(major, minor) => write!(f, "sm_{major}{minor} or a later one"),
            Needs::Specific(major, minor) => {
                write!(f, "sm_{major}{minor}a or another one of a single architecture or family")
            }
            Needs::Hopper => f.write_str("sm_90a"),
        }
    }
}
