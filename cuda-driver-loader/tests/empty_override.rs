//! A `CUDA_DRIVER_LIBRARY` that is set and empty names no library: the system's is asked for.

#[test]
fn the_program_itself_is_no_driver() {
    // SAFETY: this test is the only one of its program, so no other thread reads the environment.
    unsafe { std::env::set_var("CUDA_DRIVER_LIBRARY", "") };
    let has_driver = cuda_driver_loader::load_error().is_none();
    assert_eq!(cuda_driver_loader::symbol(c"cuInit").is_some(), has_driver);
}
