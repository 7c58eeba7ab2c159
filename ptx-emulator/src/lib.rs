//! Runs PTX, NVIDIA's assembly language of GPU kernels, on the CPU, and reports what a GPU hides.

pub mod numeric;
pub mod tensor_core;
