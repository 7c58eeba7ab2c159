//! What an element in a list of kernels stands for.

/// Its dtype.
macro_rules! dtype {
    (i8) => {
        $crate::DType::I8
    };
    (i32) => {
        $crate::DType::I32
    };
    (F8E4M3) => {
        $crate::DType::F8E4M3
    };
    (F8E5M2) => {
        $crate::DType::F8E5M2
    };
    (f16) => {
        $crate::DType::F16
    };
    (bf16) => {
        $crate::DType::BF16
    };
    (f32) => {
        $crate::DType::F32
    };
    (tf32) => {
        $crate::DType::F32
    };
    (bf16x6) => {
        $crate::DType::F32
    };
    (f64) => {
        $crate::DType::F64
    };
}

/// How it is multiplied.
macro_rules! precision {
    (tf32) => {
        $crate::Precision::Tf32
    };
    (bf16x6) => {
        $crate::Precision::Bf16x6
    };
    ($other:ident) => {
        $crate::Precision::Full
    };
}
