//! What the kernel is compiled for.

/// A compute capability: 10 times it, and 10 times that again in `CUDA_ARCH`, so that 9.0 is 900
/// and 12.1 is 1210.
///
/// The names of Rust-CUDA's variants are constants here, so that capabilities newer than this crate
/// compare rightly too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability(u32);

macro_rules! capabilities {
    ($($name:ident = $number:literal,)*) => {
        #[allow(non_upper_case_globals)]
        impl ComputeCapability {
            $(
                #[doc = concat!("`CUDA_ARCH` = ", stringify!($number), ".")]
                pub const $name: ComputeCapability = ComputeCapability($number);
            )*
        }
    };
}

capabilities! {
    Compute35 = 350,
    Compute37 = 370,
    Compute50 = 500,
    Compute52 = 520,
    Compute53 = 530,
    Compute60 = 600,
    Compute61 = 610,
    Compute62 = 620,
    Compute70 = 700,
    Compute72 = 720,
    Compute75 = 750,
    Compute80 = 800,
    Compute86 = 860,
    Compute87 = 870,
    Compute88 = 880,
    Compute89 = 890,
    Compute90 = 900,
    Compute100 = 1000,
    Compute101 = 1010,
    Compute103 = 1030,
    Compute110 = 1100,
    Compute120 = 1200,
    Compute121 = 1210,
}

impl ComputeCapability {
    /// The capability that the kernel is compiled for, from the variable `CUDA_ARCH` that
    /// `cuda_builder` sets.
    ///
    /// A constant: in `if ComputeCapability::from_cuda_arch_env() >= ComputeCapability::Compute80 {
    /// .. } else { .. }` only one branch is compiled into the kernel. On the device it does not
    /// compile where the variable is missing or is no number; on the host it is 0, less than every
    /// capability.
    #[inline(always)]
    pub const fn from_cuda_arch_env() -> Self {
        const CAPABILITY: ComputeCapability = match option_env!("CUDA_ARCH") {
            _ if cfg!(not(target_arch = "nvptx64")) => ComputeCapability(0),
            Some(text) => match ComputeCapability::parse(text) {
                Some(capability) => capability,
                None => panic!("CUDA_ARCH is not a number such as 700 or 1200"),
            },
            None => panic!("CUDA_ARCH is not set: build kernels with cuda_builder"),
        };
        CAPABILITY
    }

    /// The capability that `CUDA_ARCH` spells, in decimal digits: `"900"`. `None` where it is
    /// anything else.
    pub const fn parse(text: &str) -> Option<Self> {
        match u32::from_str_radix(text, 10) {
            Ok(number) if text.as_bytes()[0] != b'+' => Some(ComputeCapability(number)),
            _ => None,
        }
    }

    /// The number in `CUDA_ARCH`: 900 for capability 9.0.
    pub const fn value(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::ComputeCapability;

    #[test]
    fn parses_what_the_builder_sets() {
        assert_eq!(ComputeCapability::parse("700"), Some(ComputeCapability::Compute70));
        assert_eq!(ComputeCapability::parse("900"), Some(ComputeCapability::Compute90));
        assert_eq!(ComputeCapability::parse("1210"), Some(ComputeCapability::Compute121));
        assert_eq!(ComputeCapability::parse("2345").map(ComputeCapability::value), Some(2345));
        for wrong in ["", "90a", "+700", "sm_70", "-1"] {
            assert_eq!(ComputeCapability::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn orders_by_number_and_the_host_is_least() {
        assert!(ComputeCapability::Compute90 < ComputeCapability::Compute100);
        assert!(ComputeCapability::from_cuda_arch_env() < ComputeCapability::Compute35);
    }
}
