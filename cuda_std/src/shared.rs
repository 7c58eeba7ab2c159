//! Shared memory: static arrays, the dynamic part, and the pointer to either.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
use core::marker::PhantomData;

/// What an expansion of [`shared_array!`](crate::shared_array) tells about its array.
pub trait StaticStorage {
    /// The array's elements.
    type Element;
    /// Number of elements.
    const LEN: usize;
    /// Size of the `.shared` variable.
    const BYTES: usize = {
        let bytes = size_of::<Self::Element>() * Self::LEN;
        assert!(bytes > 0, "a shared array must have at least one byte");
        bytes
    };
    /// Alignment of the `.shared` variable: at least what a 16-byte access needs.
    const ALIGN: usize = {
        let align = align_of::<Self::Element>();
        if align > 16 { align } else { 16 }
    };
}

/// The array of one expansion of [`shared_array!`](crate::shared_array), which alone calls this.
///
/// # Safety
/// On the device `address` is that of a `.shared` variable of `S::BYTES` bytes, aligned to
/// `S::ALIGN`.
#[inline(always)]
#[allow(unused_variables)]
pub unsafe fn static_array<S: StaticStorage>(address: u32) -> SharedPtr<S::Element> {
    #[cfg(target_arch = "nvptx64")]
    return SharedPtr { address, pointee: PhantomData };
    #[cfg(not(target_arch = "nvptx64"))]
    panic!("`shared_array!` runs only on the GPU, and this is a program for the host");
}

// Declared only for crates that use it: its alignment rounds the static shared memory of every
// kernel of the module up to a kilobyte.
#[cfg(all(feature = "dynamic-shared", target_arch = "nvptx64"))]
core::arch::global_asm!(".extern .shared .align 1024 .b8 cuda_std_dynamic_shared[];");

/// The block's dynamic shared memory: as many bytes as the launch asked for, aligned to 1024,
/// uninitialised. Every call gives the same memory.
///
/// Needs the feature `dynamic-shared`. Lowers to a `mov.u32` of the address of an `.extern .shared`
/// array (PTX ISA, "Shared State Space").
///
/// # Safety
/// All threads of the block share the memory and no other block does;
/// [`shared_array!`](crate::shared_array) has the rules for its use. `T` is aligned to at most 1024
/// bytes.
#[cfg(feature = "dynamic-shared")]
#[crate::gpu_only]
#[inline(always)]
pub unsafe fn dynamic_shared_mem<T>() -> SharedPtr<T> {
    let address: u32;
    // SAFETY: takes the address of the variable that is declared above.
    unsafe {
        asm!("mov.u32 {}, cuda_std_dynamic_shared;", out(reg32) address,
            options(pure, nomem, nostack));
    }
    SharedPtr { address, pointee: PhantomData }
}

/// A pointer into the block's shared memory, with the method names of a raw pointer.
///
/// On the device it is the 32-bit address in the shared window, and accesses are `ld.shared` and
/// `st.shared`: a generic pointer costs a quarter of a tiled kernel's speed, since neither LLVM nor
/// ptxas finds out that it is shared. On the host it is a raw pointer, from
/// [`SharedPtr::from_host`], so that algorithms can be tested there.
pub struct SharedPtr<T> {
    #[cfg(target_arch = "nvptx64")]
    address: u32,
    #[cfg(not(target_arch = "nvptx64"))]
    address: *mut T,
    pointee: PhantomData<*mut T>,
}

impl<T> Clone for SharedPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedPtr<T> {}

/// By address.
impl<T> PartialEq for SharedPtr<T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for SharedPtr<T> {}

impl<T> SharedPtr<T> {
    /// The shared memory at an address of the shared window.
    ///
    /// # Safety
    /// `address` lies in the block's shared memory and is aligned for `T`.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub unsafe fn from_address(address: u32) -> Self {
        SharedPtr { address, pointee: PhantomData }
    }

    /// The address in the shared window, in bytes.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub fn address(self) -> u32 {
        self.address
    }

    /// Host memory in the place of shared memory, for tests. Using the pointer has a raw pointer's
    /// preconditions.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn from_host(pointer: *mut T) -> Self {
        SharedPtr { address: pointer, pointee: PhantomData }
    }

    /// The host's address.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn host_address(self) -> usize {
        self.address.addr()
    }

    /// The pointer `count` elements on.
    ///
    /// Lowers to 32-bit arithmetic, mostly folded into the access's address.
    ///
    /// # Safety
    /// The result lies in the array that `self` points into, or just behind its end.
    #[inline(always)]
    pub unsafe fn add(self, count: usize) -> Self {
        // SAFETY: the caller's promise; an array's element count fits isize.
        unsafe { self.offset(count as isize) }
    }

    /// The pointer `count` elements back.
    ///
    /// # Safety
    /// The result lies in the array that `self` points into.
    #[inline(always)]
    pub unsafe fn sub(self, count: usize) -> Self {
        // SAFETY: the caller's promise; an array's element count fits isize.
        unsafe { self.offset((count as isize).wrapping_neg()) }
    }

    /// The pointer `count` elements on, or back where it is negative.
    ///
    /// # Safety
    /// The result lies in the array that `self` points into, or just behind its end.
    #[inline(always)]
    pub unsafe fn offset(self, count: isize) -> Self {
        // Shared memory is far smaller than 4 GiB, so the low 32 bits of the distance are the
        // distance.
        #[cfg(target_arch = "nvptx64")]
        let address = self.address.wrapping_add((count as u32).wrapping_mul(size_of::<T>() as u32));
        // SAFETY: the caller's promise.
        #[cfg(not(target_arch = "nvptx64"))]
        let address = unsafe { self.address.offset(count) };
        SharedPtr { address, pointee: PhantomData }
    }

    /// The pointer whose address differs in those bits: of a place in a swizzled tile the place so
    /// many bytes further on, where the tile is aligned to what the bits and the swizzle span.
    ///
    /// Lowers to `xor.b32`.
    ///
    /// # Safety
    /// The result lies in the array that `self` points into.
    #[inline(always)]
    pub unsafe fn flip(self, bits: usize) -> Self {
        #[cfg(target_arch = "nvptx64")]
        let address = self.address ^ bits as u32;
        #[cfg(not(target_arch = "nvptx64"))]
        let address = self.address.map_addr(|address| address ^ bits);
        SharedPtr { address, pointee: PhantomData }
    }

    /// The same address, as a pointer to another type.
    #[inline(always)]
    pub fn cast<U>(self) -> SharedPtr<U> {
        SharedPtr { address: self.address as _, pointee: PhantomData }
    }
}

/// Accesses. `T` has 1, 2, 4, 8 or 16 bytes and is aligned to its size; another type does not
/// compile.
impl<T: Copy> SharedPtr<T> {
    /// The value that the pointer points to.
    ///
    /// Lowers to `ld.shared.b8`, `.b16`, `.b32`, `.b64` or `.v2.b64`, by the size of `T` (PTX ISA,
    /// data movement and conversion instructions).
    ///
    /// # Safety
    /// The pointer lies in an array of the block's shared memory and is aligned for `T`. The
    /// element was written as `T`, by this thread or by one that has passed a barrier with it
    /// since; no other thread writes it at the same time. `T` has no padding.
    #[inline(always)]
    pub unsafe fn read(self) -> T {
        const { assert_size::<T>() };
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller's promise; each branch reads as many bytes as `T` has.
        unsafe {
            match size_of::<T>() {
                1 => {
                    let bits: u16;
                    asm!("ld.shared.b8 {}, [{}];", out(reg16) bits, in(reg32) self.address,
                        options(readonly, nostack));
                    core::mem::transmute_copy(&(bits as u8))
                }
                2 => {
                    let bits: u16;
                    asm!("ld.shared.b16 {}, [{}];", out(reg16) bits, in(reg32) self.address,
                        options(readonly, nostack));
                    core::mem::transmute_copy(&bits)
                }
                4 => {
                    let bits: u32;
                    asm!("ld.shared.b32 {}, [{}];", out(reg32) bits, in(reg32) self.address,
                        options(readonly, nostack));
                    core::mem::transmute_copy(&bits)
                }
                8 => {
                    let bits: u64;
                    asm!("ld.shared.b64 {}, [{}];", out(reg64) bits, in(reg32) self.address,
                        options(readonly, nostack));
                    core::mem::transmute_copy(&bits)
                }
                16 => {
                    let (low, high): (u64, u64);
                    asm!("ld.shared.v2.b64 {{{}, {}}}, [{}];", out(reg64) low, out(reg64) high,
                        in(reg32) self.address, options(readonly, nostack));
                    core::mem::transmute_copy(&[low, high])
                }
                _ => core::hint::unreachable_unchecked(),
            }
        }
        // SAFETY: the caller's promise.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe {
            self.address.read()
        }
    }

    /// The 16 bytes from the pointer on, in four registers of 32 bits.
    ///
    /// Lowers to `ld.shared.v4.b32` (PTX ISA, data movement and conversion instructions: `ld`). A
    /// 16-byte [`read`](SharedPtr::read) gives two of 64 bits, and ptxas keeps the halves of such a
    /// one side by side for as long as they live, in banks that it might choose otherwise.
    ///
    /// # Safety
    /// As [`read`](SharedPtr::read), of `[u32; 4]` at a multiple of 16 bytes.
    #[inline(always)]
    pub unsafe fn read_words(self) -> [u32; 4] {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b, c, d): (u32, u32, u32, u32);
            asm!("ld.shared.v4.b32 {{{}, {}, {}, {}}}, [{}];", out(reg32) a, out(reg32) b,
                out(reg32) c, out(reg32) d, in(reg32) self.address, options(readonly, nostack));
            [a, b, c, d]
        }
        // SAFETY: the caller's promise.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe {
            self.address.cast::<[u32; 4]>().read()
        }
    }

    /// Writes `value` where the pointer points.
    ///
    /// Lowers to `st.shared.b8`, `.b16`, `.b32`, `.b64` or `.v2.b64`, by the size of `T` (PTX ISA,
    /// data movement and conversion instructions).
    ///
    /// # Safety
    /// The pointer lies in an array of the block's shared memory and is aligned for `T`. No other
    /// thread accesses the element at the same time; others may read it after a barrier. `T` has no
    /// padding.
    #[inline(always)]
    pub unsafe fn write(self, value: T) {
        const { assert_size::<T>() };
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller's promise; each branch writes as many bytes as `T` has.
        unsafe {
            match size_of::<T>() {
                1 => {
                    let bits: u8 = core::mem::transmute_copy(&value);
                    asm!("st.shared.b8 [{}], {};", in(reg32) self.address, in(reg16) bits as u16,
                        options(nostack));
                }
                2 => {
                    let bits: u16 = core::mem::transmute_copy(&value);
                    asm!("st.shared.b16 [{}], {};", in(reg32) self.address, in(reg16) bits,
                        options(nostack));
                }
                4 => {
                    let bits: u32 = core::mem::transmute_copy(&value);
                    asm!("st.shared.b32 [{}], {};", in(reg32) self.address, in(reg32) bits,
                        options(nostack));
                }
                8 => {
                    let bits: u64 = core::mem::transmute_copy(&value);
                    asm!("st.shared.b64 [{}], {};", in(reg32) self.address, in(reg64) bits,
                        options(nostack));
                }
                16 => {
                    let [low, high]: [u64; 2] = core::mem::transmute_copy(&value);
                    asm!("st.shared.v2.b64 [{}], {{{}, {}}};", in(reg32) self.address,
                        in(reg64) low, in(reg64) high, options(nostack));
                }
                _ => core::hint::unreachable_unchecked(),
            }
        }
        // SAFETY: the caller's promise.
        #[cfg(not(target_arch = "nvptx64"))]
        unsafe {
            self.address.write(value)
        }
    }
}

/// Refuses, at compile time, a type that no access instruction fits.
const fn assert_size<T>() {
    assert!(
        matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16) && align_of::<T>() == size_of::<T>(),
        "a shared value has 1, 2, 4, 8 or 16 bytes and is aligned to its size"
    );
}
