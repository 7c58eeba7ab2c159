//! The rules of bulk copies without a tensor map.
//!
//! PTX ISA, `cp.async.bulk` and `cp.reduce.async.bulk`.

use std::fmt;

/// A bulk copy whose addresses or size break the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkCopyError {
    /// An address that is not a multiple of 16.
    Alignment {
        /// `source` or `destination`.
        which: &'static str,
        /// The address.
        address: u64,
    },
    /// A size that is not a multiple of 16.
    Size(u32),
}

impl fmt::Display for BulkCopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alignment { which, address } => {
                write!(f, "a bulk copy's {which} {address:#x} is not a multiple of 16")
            }
            Self::Size(size) => write!(f, "a bulk copy of {size} bytes, not a multiple of 16"),
        }
    }
}

impl std::error::Error for BulkCopyError {}

/// Checks the addresses and the size of a bulk copy or reduction.
pub fn check_bulk_copy(destination: u64, source: u64, size: u32) -> Result<(), BulkCopyError> {
    for (which, address) in [("destination", destination), ("source", source)] {
        if !address.is_multiple_of(16) {
            return Err(BulkCopyError::Alignment { which, address });
        }
    }
    match size.is_multiple_of(16) {
        true => Ok(()),
        false => Err(BulkCopyError::Size(size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_16_bytes() {
        assert_eq!(check_bulk_copy(16, 32, 48), Ok(()));
        let error = check_bulk_copy(16, 8, 48).unwrap_err();
        assert_eq!(error.to_string(), "a bulk copy's source 0x8 is not a multiple of 16");
        assert_eq!(check_bulk_copy(16, 32, 8), Err(BulkCopyError::Size(8)));
    }
}
