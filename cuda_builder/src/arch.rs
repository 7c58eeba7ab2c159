//! The GPU architectures that PTX can be made for, and the PTX version that each of them needs.

use std::fmt;
use std::str::FromStr;

use crate::error::CudaBuilderError;

/// How far PTX for an architecture runs on other GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchVariant {
    /// No suffix: runs on every GPU of this compute capability or a later one.
    Base,
    /// Suffix `f`: runs on GPUs of the same family from this one on. A family is one major number,
    /// but for 10.1, which later became 11.0 and is of its family.
    Family,
    /// Suffix `a`: runs on GPUs of exactly this compute capability.
    Architecture,
}

macro_rules! architectures {
    ($(
        $variant:ident = $major:literal . $minor:literal $kind:ident
            $ptx_major:literal . $ptx_minor:literal;
    )*) => {
        /// A virtual GPU architecture, by compute capability.
        ///
        /// The names are Rust-CUDA's: `Compute90a` is compute capability 9.0 with the features
        /// that only this one has. The order is by capability, then base, family, architecture.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum NvvmArch {
            $(
                #[doc = concat!("Compute capability ", $major, ".", $minor, ", ",
                    stringify!($kind), " variant; needs PTX ", $ptx_major, ".", $ptx_minor, ".")]
                $variant,
            )*
        }

        impl NvvmArch {
            /// Every architecture, in order.
            pub const ALL: &[NvvmArch] = &[$(NvvmArch::$variant),*];

            /// (major, minor, variant, lowest PTX version that knows this target).
            const fn facts(self) -> (u32, u32, ArchVariant, (u32, u32)) {
                match self {
                    $(NvvmArch::$variant =>
                        ($major, $minor, ArchVariant::$kind, ($ptx_major, $ptx_minor)),)*
                }
            }
        }
    };
}

// The last column is the table "PTX ISA version in which a target was introduced" of the PTX ISA,
// section `.target`.
architectures! {
    Compute70 = 7 . 0 Base 6 . 0;
    Compute72 = 7 . 2 Base 6 . 1;
    Compute75 = 7 . 5 Base 6 . 3;
    Compute80 = 8 . 0 Base 7 . 0;
    Compute86 = 8 . 6 Base 7 . 1;
    Compute87 = 8 . 7 Base 7 . 4;
    Compute88 = 8 . 8 Base 9 . 0;
    Compute89 = 8 . 9 Base 7 . 8;
    Compute90 = 9 . 0 Base 7 . 8;
    Compute90a = 9 . 0 Architecture 8 . 0;
    Compute100 = 10 . 0 Base 8 . 6;
    Compute100f = 10 . 0 Family 8 . 8;
    Compute100a = 10 . 0 Architecture 8 . 6;
    Compute101 = 10 . 1 Base 8 . 6;
    Compute101f = 10 . 1 Family 8 . 8;
    Compute101a = 10 . 1 Architecture 8 . 6;
    Compute103 = 10 . 3 Base 8 . 8;
    Compute103f = 10 . 3 Family 8 . 8;
    Compute103a = 10 . 3 Architecture 8 . 8;
    Compute110 = 11 . 0 Base 9 . 0;
    Compute110f = 11 . 0 Family 9 . 0;
    Compute110a = 11 . 0 Architecture 9 . 0;
    Compute120 = 12 . 0 Base 8 . 7;
    Compute120f = 12 . 0 Family 8 . 8;
    Compute120a = 12 . 0 Architecture 8 . 7;
    Compute121 = 12 . 1 Base 8 . 8;
    Compute121f = 12 . 1 Family 8 . 8;
    Compute121a = 12 . 1 Architecture 8 . 8;
}

impl NvvmArch {
    /// The compute capability as one number: 70 for 7.0, 120 for 12.0. Variants share it.
    pub const fn capability_value(self) -> u32 {
        self.major_version() * 10 + self.minor_version()
    }

    /// The part of the compute capability before the point.
    pub const fn major_version(self) -> u32 {
        self.facts().0
    }

    /// The part of the compute capability after the point.
    pub const fn minor_version(self) -> u32 {
        self.facts().1
    }

    /// Which of the three kinds this is.
    pub const fn variant(self) -> ArchVariant {
        self.facts().2
    }

    /// The lowest PTX version that knows this target, as (major, minor).
    pub const fn min_ptx_version(self) -> (u32, u32) {
        self.facts().3
    }

    /// Rust-CUDA's name of the architecture as a target feature: `compute_90a`.
    pub fn target_feature(self) -> String {
        format!("compute_{}{}", self.capability_value(), self.suffix())
    }

    /// The name that PTX and rustc use for the target: `sm_90a`.
    pub fn sm_name(self) -> String {
        format!("sm_{}{}", self.capability_value(), self.suffix())
    }

    /// Value of the environment variable `CUDA_ARCH` in a device build: `700`, `900`, `1000`.
    pub fn cuda_arch(self) -> String {
        format!("{}0", self.capability_value())
    }

    /// The target features whose code runs on this architecture, [`Self::target_feature`]s of
    /// all earlier base architectures and of those variants that this one includes.
    pub fn all_target_features(self) -> Vec<String> {
        Self::ALL.iter().filter(|a| self.includes(**a)).map(|a| a.target_feature()).collect()
    }

    /// Base architectures from the oldest up to this one's capability.
    pub fn iter_up_to(self) -> impl Iterator<Item = NvvmArch> {
        let last = self.capability_value();
        Self::ALL
            .iter()
            .copied()
            .filter(move |a| a.is_base_variant() && a.capability_value() <= last)
    }

    /// The architecture without suffix.
    pub fn base_architecture(self) -> NvvmArch {
        self.variants()[0]
    }

    /// All variants of this compute capability, base first.
    pub fn variants(self) -> Vec<NvvmArch> {
        let value = self.capability_value();
        Self::ALL.iter().copied().filter(|a| a.capability_value() == value).collect()
    }

    /// Rust-CUDA's name for [`Self::variants`].
    pub fn get_variants(self) -> Vec<NvvmArch> {
        self.variants()
    }

    /// Whether there is no suffix.
    pub const fn is_base_variant(self) -> bool {
        matches!(self.variant(), ArchVariant::Base)
    }

    /// Whether the suffix is `f`.
    pub const fn is_family_variant(self) -> bool {
        matches!(self.variant(), ArchVariant::Family)
    }

    /// Whether the suffix is `a`.
    pub const fn is_architecture_variant(self) -> bool {
        matches!(self.variant(), ArchVariant::Architecture)
    }

    /// A number that the architectures of one family share.
    const fn family(self) -> u32 {
        match self.facts() {
            // Renamed: 11.0 is the same hardware (CUDA 13.0; LLVM's NVPTX.td has one family).
            (10, 1, ..) => 11,
            (major, ..) => major,
        }
    }

    /// Whether code for `other` may use no more than this architecture has.
    fn includes(self, other: NvvmArch) -> bool {
        match other.variant() {
            ArchVariant::Base => other.capability_value() <= self.capability_value(),
            ArchVariant::Family => {
                !self.is_base_variant()
                    && other.family() == self.family()
                    && other.capability_value() <= self.capability_value()
            }
            ArchVariant::Architecture => self == other,
        }
    }

    const fn suffix(self) -> &'static str {
        match self.variant() {
            ArchVariant::Base => "",
            ArchVariant::Family => "f",
            ArchVariant::Architecture => "a",
        }
    }
}

/// Rust-CUDA's spelling: `compute_90a`.
impl fmt::Display for NvvmArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.target_feature())
    }
}

/// Reads `compute_90a`, `sm_90a` or `90a`.
impl FromStr for NvvmArch {
    type Err = CudaBuilderError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let short = text.strip_prefix("compute_").or(text.strip_prefix("sm_")).unwrap_or(text);
        Self::ALL
            .iter()
            .copied()
            .find(|a| format!("{}{}", a.capability_value(), a.suffix()) == short)
            .ok_or_else(|| CudaBuilderError::UnknownArch(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for &arch in NvvmArch::ALL {
            for text in [arch.to_string(), arch.sm_name(), arch.sm_name()[3..].to_owned()] {
                assert_eq!(text.parse::<NvvmArch>().unwrap(), arch);
            }
            assert_eq!(format!("{arch:?}"), arch.to_string().replace("compute_", "Compute"));
        }
        assert_eq!(NvvmArch::Compute90a.to_string(), "compute_90a");
        assert_eq!(NvvmArch::Compute121f.sm_name(), "sm_121f");
        assert_eq!(NvvmArch::Compute70.cuda_arch(), "700");
        assert_eq!(NvvmArch::Compute120a.cuda_arch(), "1200");
    }

    #[test]
    fn unknown_names_are_refused() {
        for text in ["", "sm_", "sm_69", "compute_90b", "61", "sm_sm_70", "70a"] {
            let error = text.parse::<NvvmArch>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn numbers_and_variants() {
        let a = NvvmArch::Compute103a;
        assert_eq!((a.major_version(), a.minor_version(), a.capability_value()), (10, 3, 103));
        assert!(a.is_architecture_variant() && !a.is_base_variant() && !a.is_family_variant());
        assert_eq!(a.base_architecture(), NvvmArch::Compute103);
        assert_eq!(
            a.variants(),
            [NvvmArch::Compute103, NvvmArch::Compute103f, NvvmArch::Compute103a]
        );
        assert_eq!(NvvmArch::Compute70.variants(), [NvvmArch::Compute70]);
        assert!(NvvmArch::ALL.is_sorted());
    }

    #[test]
    fn what_an_architecture_includes() {
        let last: Vec<_> = NvvmArch::Compute75.iter_up_to().collect();
        assert_eq!(last, [NvvmArch::Compute70, NvvmArch::Compute72, NvvmArch::Compute75]);
        let features = NvvmArch::Compute103a.all_target_features();
        for feature in ["compute_90", "compute_100f", "compute_103f", "compute_103a"] {
            assert!(features.iter().any(|f| f == feature), "{feature} not in {features:?}");
        }
        for feature in ["compute_90a", "compute_100a", "compute_120"] {
            assert!(!features.iter().any(|f| f == feature), "{feature} in {features:?}");
        }
        let families = |arch: NvvmArch| {
            let features = arch.all_target_features().into_iter();
            features.filter(|feature| feature.ends_with('f')).collect::<Vec<_>>()
        };
        assert_eq!(families(NvvmArch::Compute101a), ["compute_101f"]);
        assert_eq!(families(NvvmArch::Compute103f), ["compute_100f", "compute_103f"]);
        assert_eq!(families(NvvmArch::Compute110f), ["compute_101f", "compute_110f"]);
        assert_eq!(families(NvvmArch::Compute121a), ["compute_120f", "compute_121f"]);
    }
}
