//! What kernels are compiled for.

/// What a PTX module is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Compute capability 7.0 and later.
    Sm70,
    /// Compute capability 8.0 and later: asynchronous copies, tensor cores for 16-bit floats.
    Sm80,
    /// Compute capability 9.0 and later: tensor cores for f64 at their full speed.
    Sm90,
    /// Compute capability 9.0 and no other: `wgmma`, `setmaxnreg`.
    Sm90a,
}

impl Target {
    /// Every target; one PTX file each.
    pub const ALL: [Target; 4] = [Target::Sm70, Target::Sm80, Target::Sm90, Target::Sm90a];

    /// The name for `.target` in PTX and in file names.
    pub const fn arch(self) -> &'static str {
        match self {
            Target::Sm70 => "sm_70",
            Target::Sm80 => "sm_80",
            Target::Sm90 => "sm_90",
            Target::Sm90a => "sm_90a",
        }
    }

    /// The least compute capability (major, minor) that runs it.
    pub const fn min_capability(self) -> (u32, u32) {
        match self {
            Target::Sm70 => (7, 0),
            Target::Sm80 => (8, 0),
            Target::Sm90 | Target::Sm90a => (9, 0),
        }
    }

    /// Whether a GPU of that compute capability runs it.
    pub fn runs_on(self, capability: (u32, u32)) -> bool {
        match self {
            Target::Sm90a => capability == self.min_capability(),
            _ => capability >= self.min_capability(),
        }
    }

    /// The PTX ISA version (major, minor) it is written in; a driver that loads it knows at least
    /// this one.
    pub const fn ptx_version(self) -> (u32, u32) {
        match self {
            Target::Sm70 | Target::Sm80 => (7, 0),
            Target::Sm90 => (7, 8),
            Target::Sm90a => (8, 0),
        }
    }
}
