//! Tests on the host; the device's are in `gemmite-tests`.

use super::*;

#[test]
fn integers_wrap_and_return_the_number_before() {
    // SAFETY: the host has no spaces.
    let atomic = unsafe { AtomicI32::new(i32::MAX) };
    assert_eq!(atomic.fetch_add(1, Ordering::Relaxed), i32::MAX);
    assert_eq!(atomic.fetch_sub(1, Ordering::AcqRel), i32::MIN);
    assert_eq!(atomic.fetch_min(-5, Ordering::SeqCst), i32::MAX);
    assert_eq!(atomic.fetch_max(7, Ordering::Acquire), -5);
    assert_eq!(atomic.swap(0b1100, Ordering::Release), 7);
    assert_eq!(atomic.fetch_and(0b0110, Ordering::Relaxed), 0b1100);
    assert_eq!(atomic.fetch_or(0b0001, Ordering::Relaxed), 0b0100);
    assert_eq!(atomic.fetch_xor(0b1111, Ordering::Relaxed), 0b0101);
    assert_eq!(atomic.load(Ordering::Relaxed), 0b1010);
}

#[test]
fn floats_add_and_keep_their_bits() {
    // SAFETY: as above.
    let atomic = unsafe { SystemAtomicF64::new(1.5) };
    assert_eq!(atomic.fetch_add(2.0, Ordering::Relaxed), 1.5);
    assert_eq!(atomic.fetch_sub(0.5, Ordering::Relaxed), 3.5);
    let sign = f64::from_bits(1 << 63);
    assert_eq!(atomic.fetch_xor(sign, Ordering::Relaxed), 3.0);
    assert_eq!(atomic.into_inner(), -3.0);
}

#[test]
fn compare_exchange_reports_the_number_before() {
    let mut number = 5u64;
    // SAFETY: the number is this test's own.
    let atomic = unsafe { BlockAtomicU64::from_ptr(&mut number) };
    // SAFETY: there is one thread.
    unsafe {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        assert_eq!(atomic.compare_exchange(4, 9, success, failure), Err(5));
        assert_eq!(atomic.compare_exchange(5, 9, success, failure), Ok(5));
        atomic.store(10, Ordering::Release);
    }
    assert_eq!(number, 10);
}

#[test]
fn joint_order_is_as_strong_as_both() {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    assert_eq!(joint(Relaxed, Relaxed), Relaxed);
    assert_eq!(joint(Relaxed, Acquire), Acquire);
    assert_eq!(joint(Release, Relaxed), Release);
    assert_eq!(joint(Release, Acquire), AcqRel);
    assert_eq!(joint(Acquire, SeqCst), SeqCst);
    assert_eq!(joint(AcqRel, Acquire), AcqRel);
    assert!(std::panic::catch_unwind(|| joint(SeqCst, Release)).is_err());
}
