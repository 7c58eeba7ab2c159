//! A program with cust and no driver: it is linked, it starts, and it is told.
//!
//! The override names a library that does not exist, so that the test says the same on a machine
//! that has a driver.

use cust::error::CudaError;

#[test]
fn cust_answers_errors() {
    // SAFETY: this test is the only one of its program, so no other thread reads the environment.
    unsafe { std::env::set_var("CUDA_DRIVER_LIBRARY", "/nonexistent/libcuda.so.1") };

    assert_eq!(cust::init(cust::CudaFlags::empty()), Err(CudaError::NoDevice));
    assert_eq!(cuda_driver_loader::last_error(), cuda_driver_loader::NO_DEVICE);
    assert!(CudaError::NoDevice.to_string().contains("no driver library"));
    assert!(CudaError::UnknownError.to_string().contains("999"));

    let count = cust::device::Device::num_devices();
    assert_eq!(count, Err(CudaError::NotInitialized));
    assert_eq!(cuda_driver_loader::last_error(), cuda_driver_loader::NOT_INITIALIZED);

    let reason = cuda_driver_loader::load_error().expect("the override names nothing");
    assert!(reason.contains("CUDA_DRIVER_LIBRARY"), "{reason}");
    assert_eq!(cuda_driver_loader::symbol(c"cuInit"), None);
    assert!(cuda_driver_loader::FORWARDED.contains(&"cuLaunchKernel"));
}
